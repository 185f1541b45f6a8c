#include "cuda_lanes.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <utility>

namespace penstock::gpu {

using engine::CopyDirection;
using engine::CopyMeans;
using engine::CopyOp;

namespace {

// Whether a stream that is at `done` has come to `ticket`; numbers wrap.
bool has_come(uint32_t done, uint32_t ticket) {
  return static_cast<int32_t>(done - ticket) >= 0;
}

// Acquire pairs with the device's write, which comes after all that the stream did before.
uint32_t read_done(uint32_t* word) {
  return std::atomic_ref<uint32_t>(*word).load(std::memory_order_acquire);
}

const std::byte* device_side(const CopyOp& op) {
  const engine::CopyPiece& piece = op.pieces.front();
  return op.direction == CopyDirection::from_device ? piece.source : piece.destination;
}

engine::Duration time_for(uint64_t bytes) {
  return engine::Duration(static_cast<int64_t>(bytes / limits::kBytesPerNanosecond));
}

uint64_t bytes_of(const CopyOp& op) {
  uint64_t bytes = 0;
  for (const engine::CopyPiece& piece : op.pieces) bytes += piece.length;
  return bytes;
}

}  // namespace

CudaLanes::~CudaLanes() {
  ASSERT(in_progress_ == 0);
  // Kept for other lanes and never destroyed: the driver may be unloaded at this moment.
  for (const auto& lanes : lanes_) {
    if (lanes != nullptr && lanes->broken.ok()) memory_.give_back(lanes->device, lanes->parts);
  }
}

Outcome<std::unique_ptr<CudaLanes::Lanes>> CudaLanes::make_lanes(engine::DeviceId device) {
  auto lanes = std::make_unique<Lanes>();
  lanes->device = device;
  TRY_ASSIGN(lanes->context, memory_.context(device));
  constexpr size_t kLine = 64;
  constexpr size_t kWords = 4 * kLine;
  constexpr size_t kPieces = limits::kBatchPieces * sizeof(GatherPiece);
  constexpr size_t kChecks = limits::kBatchChecks * sizeof(CheckBlock);
  constexpr size_t kBad = limits::kBatchPieces + limits::kBatchChecks;
  constexpr size_t kBatch = kPieces + kChecks + kBad + kLine;
  static_assert(kPieces % kLine == 0 && kChecks % kLine == 0 && kBatch % kLine == 0);
  TRY_ASSIGN(lanes->parts, memory_.take_lane_parts(device, kWords + limits::kBatches * kBatch));
  const MutableBytes memory = lanes->parts.memory;
  const auto set_up = [&](Stream& stream, size_t i) {
    stream.stream = lanes->parts.streams[i];
    stream.done = reinterpret_cast<uint32_t*>(&memory[i * kLine]);
  };
  for (size_t i = 0; i < lanes->copies.size(); ++i) set_up(lanes->copies[i], i);
  set_up(lanes->kernels, lanes->copies.size());
  std::byte* at = &memory[kWords];
  for (Batch& batch : lanes->kernels.batches) {
    batch.pieces = reinterpret_cast<GatherPiece*>(at);
    batch.checks = reinterpret_cast<CheckBlock*>(at + kPieces);
    batch.bad = reinterpret_cast<uint8_t*>(at + kPieces + kChecks);
    batch.any_bad = reinterpret_cast<uint32_t*>(at + kBatch - kLine);
    at += kBatch;
  }
  return lanes;
}

void CudaLanes::submit(CopyOp& op) {
  ASSERT(op.pieces.size() <= engine::kCopyPiecesMax && op.checks.size() <= engine::kCopyChecksMax);
  op.status = Code::ok;
  ASSERT(!op.pieces.empty() || op.checks.empty());
  if (op.pieces.empty() || op.device.value >= memory_.devices().size()) {
    loop_.complete(op, op.pieces.empty() ? Code::ok : Code::invalid_argument);
    return;
  }
  lanes_.resize(memory_.devices().size());
  auto& lanes = lanes_[op.device.value];
  if (lanes == nullptr) {
    Outcome<std::unique_ptr<Lanes>> made = make_lanes(op.device);
    if (!made) {
      log::error("{}", made.error().message);
      loop_.complete(op, made.error().status);
      return;
    }
    lanes = std::move(*made);
  }
  if (!lanes->broken.ok()) return loop_.complete(op, lanes->broken);
  // The loop's time is that of the turn's beginning, which may be long ago.
  if (in_progress_++ == 0 || lanes->in_progress == 0) lanes->last_progress = loop_.clock().now();
  ++lanes->in_progress;
  if (op.means == CopyMeans::kernel) {
    lanes->kernels.waiting.push_back(op);
    return;
  }
  // At once, so that it runs beside whatever the caller does before the next turn.
  CopyLane& lane = lanes->copies[static_cast<size_t>(op.direction)];
  lane.waiting.push_back(op);
  issue_copies(*lanes, lane);
}

// Memory that was freed must not be touched: the driver may have given it to another allocation,
// and a kernel or a copy that finds nothing there breaks the context. So the driver is asked for it
// when the device gets the work, however long that has waited. A thread that frees it between this
// look and the call that follows may still break the context, as it may with copies of its own.
bool CudaLanes::is_allocated(const CopyOp& op) const {
  if (op.allocation == 0) return true;
  const Result<engine::DeviceSpan> span = memory_.find(device_side(op), 1);
  return span && span->allocation == op.allocation;
}

// Calls `each` for every stream that has something in flight.
template <class Each>
void CudaLanes::for_each_at_work(const Each& each) const {
  for (const auto& lanes : lanes_) {
    if (lanes == nullptr || lanes->in_progress == 0) continue;
    for (CopyLane& lane : lanes->copies) {
      if (!lane.in_flight.empty()) each(lane);
    }
    KernelLane& kernels = lanes->kernels;
    if (kernels.first != kernels.last || !kernels.waiting.empty()) each(kernels);
  }
}

engine::Time CudaLanes::next_look() const {
  engine::Time first = engine::kNever;
  for_each_at_work([&](const Stream& stream) { first = std::min(first, stream.due); });
  return first;
}

// Checks alone do not keep a link busy.
engine::Time CudaLanes::latest_look() const {
  engine::Time first = engine::kNever;
  engine::Time checks = engine::kNever;
  for_each_at_work([&](const Stream& stream) {
    engine::Time& time = stream.only_checks ? checks : first;
    time = std::min(time, stream.due + time_for(stream.behind));
  });
  return first != engine::kNever ? first : checks;
}

bool CudaLanes::poll() {
  bool worked = false;
  for (const auto& lanes : lanes_) {
    if (lanes != nullptr && lanes->in_progress > 0) worked |= poll(*lanes);
  }
  return worked;
}

bool CudaLanes::poll(Lanes& lanes) {
  bool worked = take_batches(lanes);
  for (CopyLane& lane : lanes.copies) worked |= take_copies(lanes, lane);
  worked |= issue(lanes);
  if (worked) {
    lanes.last_progress = loop_.now();
  } else {
    look_after(lanes);
  }
  return worked;
}

bool CudaLanes::take_copies(Lanes& lanes, CopyLane& lane) {
  if (lane.in_flight.empty()) return false;
  const uint32_t done = read_done(lane.done);
  bool worked = false;
  while (!lane.in_flight.empty()) {
    CopyOp& op = lane.in_flight.front();
    if (!has_come(done, static_cast<uint32_t>(op.progress.ticket))) break;
    if (worked) lane.behind -= bytes_of(op);
    lane.in_flight.pop_front();
    lane.copies -= static_cast<uint32_t>(op.pieces.size());
    if (op.status.ok() && (!op.checks.empty() || op.pieces.front().checked != 0)) {
      lanes.kernels.waiting.push_back(op);
    } else {
      end(lanes, op, op.status);
    }
    worked = true;
  }
  if (worked && !lane.in_flight.empty()) {
    const uint64_t bytes = bytes_of(lane.in_flight.front());
    lane.behind -= bytes;
    lane.due = loop_.now() + time_for(bytes);
  }
  return worked;
}

bool CudaLanes::take_batches(Lanes& lanes) {
  KernelLane& lane = lanes.kernels;
  bool worked = false;
  while (lane.first != lane.last) {
    Batch& batch = lane.batches[lane.first % limits::kBatches];
    if (!has_come(read_done(lane.done), batch.ticket)) break;
    const bool any_bad = *batch.any_bad != 0;
    while (CopyOp* const op = batch.ops.pop_front()) {
      Status status = op->status;
      const uint8_t* const bad = batch.bad + op->progress.ticket;
      const bool own_checks = op->pieces.front().checked != 0;
      const uint8_t* const bad_end = bad + (own_checks ? op->pieces.size() : op->checks.size());
      const uint8_t* const found = any_bad ? std::find(bad, bad_end, 1) : bad_end;
      if (found != bad_end && status.ok()) {
        op->first_bad = static_cast<uint32_t>(found - bad);
        status = Code::corrupt;
      }
      end(lanes, *op, status);
    }
    if (any_bad) std::memset(batch.bad, 0, limits::kBatchPieces + batch.check_count);
    *batch.any_bad = 0;
    batch.piece_count = batch.check_count = 0;
    batch.checks_pieces = false;
    batch.bytes = 0;
    ++lane.first;
    worked = true;
    if (lane.first != lane.last) {
      const uint64_t bytes = lane.batches[lane.first % limits::kBatches].bytes;
      lane.only_checks = bytes == 0;
      lane.behind -= bytes;
      lane.due = loop_.now() + time_for(bytes);
    }
  }
  return worked;
}

bool CudaLanes::issue(Lanes& lanes) {
  bool worked = false;
  for (CopyLane& lane : lanes.copies) {
    worked |= issue_copies(lanes, lane);
    const uint32_t outstanding = lane.issued - read_done(lane.done);
    if (!lane.owes_ticket || outstanding >= limits::kTicketsOutstanding) continue;
    const ContextScope scope(memory_.driver(), lanes.context.context);
    pay_ticket(lanes, lane);
  }
  return issue_kernels(lanes) || worked;
}

bool CudaLanes::issue_kernels(Lanes& lanes) {
  KernelLane& kernels = lanes.kernels;
  const auto may_launch = [&] {
    return !kernels.waiting.empty() && lanes.broken.ok() &&
           kernels.last - kernels.first < limits::kBatches;
  };
  if (!may_launch() && !kernels.owes_ticket) return false;
  const ContextScope scope(memory_.driver(), lanes.context.context);
  pay_ticket(lanes, kernels);
  bool worked = false;
  while (may_launch()) {
    worked = true;
    Batch& batch = kernels.batches[kernels.last % limits::kBatches];
    collect(lanes, batch);
    if (batch.ops.empty()) break;
    if (kernels.first == kernels.last) {
      kernels.due = loop_.clock().now() + time_for(batch.bytes);
      kernels.only_checks = batch.bytes == 0;
    } else {
      kernels.behind += batch.bytes;
    }
    launch(lanes, batch);
  }
  return worked;
}

// Fills a batch with as many of the operations that wait as it has room for.
void CudaLanes::collect(Lanes& lanes, Batch& batch) {
  IntrusiveList<CopyOp>& waiting = lanes.kernels.waiting;
  uint64_t looked_at = 0;  // an allocation that was there a few operations ago
  for (uint32_t i = 0; !waiting.empty(); ++i) {
    CopyOp& op = waiting.front();
    if (i % limits::kOpsPerLook == 0) looked_at = 0;
    const bool allocated = (op.allocation == looked_at && looked_at != 0) || is_allocated(op);
    if (allocated) looked_at = op.allocation;
    if (allocated && !fill(batch, op)) return;
    waiting.pop_front();
    if (!allocated) {
      end(lanes, op, Code::invalid_argument);
      continue;
    }
    if (op.means == CopyMeans::kernel) batch.bytes += bytes_of(op);
    batch.ops.push_back(op);
  }
}

// Issues copies until as many are in flight as the lane may have.
bool CudaLanes::issue_copies(Lanes& lanes, CopyLane& lane) {
  const auto may_issue = [&] {
    return !lane.waiting.empty() && lanes.broken.ok() &&
           (lane.copies == 0 ||
            lane.copies + lane.waiting.front().pieces.size() <= limits::kCopiesInFlight);
  };
  if (!may_issue()) return false;
  const ContextScope scope(memory_.driver(), lanes.context.context);
  while (may_issue()) issue_copy(lanes, lane, *lane.waiting.pop_front());
  return true;
}

CUresult CudaLanes::copy(const CopyLane& lane, const CopyOp& op) const {
  for (const engine::CopyPiece& piece : op.pieces) {
    const CUresult result = memory_.driver().cuMemcpyAsync(
        reinterpret_cast<CUdeviceptr>(piece.destination),
        reinterpret_cast<CUdeviceptr>(piece.source), piece.length, lane.stream);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

void CudaLanes::issue_copy(Lanes& lanes, CopyLane& lane, CopyOp& op) {
  if (!is_allocated(op)) return end(lanes, op, Code::invalid_argument);
  // Some of the pieces may be on their way when one is refused: the operation ends after them.
  op.status = status_of(copy(lane, op));
  if (lane.in_flight.empty()) {
    lane.due = loop_.clock().now() + time_for(bytes_of(op));
  } else {
    lane.behind += bytes_of(op);
  }
  lane.in_flight.push_back(op);
  lane.copies += static_cast<uint32_t>(op.pieces.size());
  op.progress.ticket = lane.issued + 1;
  lane.owes_ticket = true;
  if (op.status.code() == Code::peer_gone) return break_down(lanes, op.status);
  if (bytes_of(op) >= limits::kOwnTicketBytes) pay_ticket(lanes, lane);
}

// Has the stream write its number. If the driver refuses, the ticket stays owed, and what waits for
// it ends with a later one.
void CudaLanes::pay_ticket(Lanes& lanes, Stream& stream) {
  if (!stream.owes_ticket) return;
  const CUresult result = memory_.driver().cuStreamWriteValue32(
      stream.stream, reinterpret_cast<CUdeviceptr>(stream.done), stream.issued + 1,
      CU_STREAM_WRITE_VALUE_DEFAULT);
  const Status status = status_of(result);
  if (status.ok()) {
    ++stream.issued;
    stream.owes_ticket = false;
  } else if (status == Code::peer_gone) {
    break_down(lanes, status);
  }
}

// Adds an operation to a batch; false when there is no room for it. What fails shows in `bad`: at
// the index of a gathered piece, or behind those at the index of a check.
bool CudaLanes::fill(Batch& batch, CopyOp& op) {
  const bool gathers = op.means == CopyMeans::kernel;
  const bool own_checks = op.pieces.front().checked != 0;
  const size_t checks = !own_checks ? op.checks.size() : gathers ? 0 : op.pieces.size();
  if (gathers && batch.piece_count + op.pieces.size() > limits::kBatchPieces) return false;
  if (batch.check_count + checks > limits::kBatchChecks) return false;
  op.progress.ticket = limits::kBatchPieces + batch.check_count;
  if (gathers) {
    static_assert(sizeof(GatherPiece) == sizeof(engine::CopyPiece) &&
                  offsetof(GatherPiece, destination) == offsetof(engine::CopyPiece, destination) &&
                  offsetof(GatherPiece, length) == offsetof(engine::CopyPiece, length) &&
                  offsetof(GatherPiece, remainder) == offsetof(engine::CopyPiece, crc32c) &&
                  offsetof(GatherPiece, checked) == offsetof(engine::CopyPiece, checked));
    std::memcpy(&batch.pieces[batch.piece_count], op.pieces.data(), op.pieces.size_bytes());
    if (own_checks) {
      op.progress.ticket = batch.piece_count;
      for (size_t i = 0; i < op.pieces.size(); ++i) {
        const engine::CopyPiece& piece = op.pieces[i];
        batch.pieces[batch.piece_count + i].remainder =
            ring::remainder_from(piece.crc32c, piece.length);
      }
    }
    batch.piece_count += static_cast<uint32_t>(op.pieces.size());
    batch.checks_pieces |= own_checks;
  }
  for (size_t i = 0; i < checks; ++i) {
    CheckBlock& block = batch.checks[batch.check_count];
    const uint32_t index = limits::kBatchPieces + batch.check_count++;
    if (own_checks) {
      const engine::CopyPiece& piece = op.pieces[i];
      block = {piece.destination,
               static_cast<uint32_t>(piece.length),
               ring::remainder_from(piece.crc32c, piece.length),
               index,
               {}};
    } else {
      const engine::BlockCheck& check = op.checks[i];
      block = {
          check.data, check.length, ring::remainder_from(check.crc32c, check.length), index, {}};
    }
  }
  return true;
}

void CudaLanes::launch(Lanes& lanes, Batch& batch) {
  KernelLane& lane = lanes.kernels;
  const Driver& driver = memory_.driver();
  const auto run = [&](CUfunction kernel, uint32_t warps, uint32_t blocks_max, void** arguments) {
    const uint32_t blocks =
        std::min((warps + limits::kWarpsPerBlock - 1) / limits::kWarpsPerBlock, blocks_max);
    return driver.cuLaunchKernel(kernel, blocks, 1, 1, limits::kThreadsPerBlock, 1, 1, 0,
                                 lane.stream, arguments, nullptr);
  };
  CUresult result = CUDA_SUCCESS;
  if (batch.piece_count > 0) {
    void* arguments[] = {&batch.pieces, &batch.piece_count, &lanes.context.constants, &batch.bad,
                         &batch.any_bad};
    result = run(batch.checks_pieces ? lanes.context.gather_checked : lanes.context.gather,
                 batch.piece_count, limits::kGatherBlocksMax, arguments);
  }
  if (batch.check_count > 0 && result == CUDA_SUCCESS) {
    void* arguments[] = {&batch.checks, &batch.check_count, &lanes.context.constants, &batch.bad,
                         &batch.any_bad};
    result = run(lanes.context.check, batch.check_count, limits::kCheckBlocksMax, arguments);
  }
  batch.ticket = lane.issued + 1;
  lane.owes_ticket = true;
  ++lane.last;
  const Status status = status_of(result);
  if (status == Code::peer_gone) return break_down(lanes, status);
  // An operation that was refused ends after those that were taken before it.
  if (!status.ok()) {
    for (CopyOp* op = batch.ops.first(); op != nullptr; op = batch.ops.next(*op)) {
      op->status = status;
    }
  }
  pay_ticket(lanes, lane);
}

void CudaLanes::end(Lanes& lanes, CopyOp& op, Status status) {
  --lanes.in_progress;
  --in_progress_;
  loop_.complete(op, status);
}

// A context that has failed runs nothing any more and cannot be mended; no copy of ours is under
// way on it.
void CudaLanes::break_down(Lanes& lanes, Status status) {
  lanes.broken = {Code::peer_gone, status.detail()};
  // At the end of the process this is no news.
  if (status.detail() != CUDA_ERROR_DEINITIALIZED) {
    log::error(
        "GPU {}: its context is broken (CUDA error {}); nothing works on it any more in this "
        "process",
        lanes.device.value, status.detail());
  }
  for (CopyLane& lane : lanes.copies) {
    lane.in_flight.take_all(lane.waiting);
    while (CopyOp* const op = lane.in_flight.pop_front()) end(lanes, *op, lanes.broken);
    lane.copies = 0;
    lane.behind = 0;
    lane.owes_ticket = false;
  }
  KernelLane& kernels = lanes.kernels;
  while (CopyOp* const op = kernels.waiting.pop_front()) end(lanes, *op, lanes.broken);
  for (Batch& batch : kernels.batches) {
    while (CopyOp* const op = batch.ops.pop_front()) end(lanes, *op, lanes.broken);
  }
  kernels.first = kernels.last;
  kernels.behind = 0;
  kernels.owes_ticket = false;
}

void CudaLanes::look_after(Lanes& lanes) {
  const engine::Time now = loop_.now();
  if (now - lanes.last_progress < limits::kQuietTime) return;
  lanes.last_progress = now;
  const ContextScope scope(memory_.driver(), lanes.context.context);
  const CUresult result = memory_.driver().cuStreamQuery(lanes.kernels.stream);
  if (result == CUDA_ERROR_NOT_READY) return;
  const Status status = status_of(result);
  if (status == Code::peer_gone) break_down(lanes, status);
}

}  // namespace penstock::gpu
