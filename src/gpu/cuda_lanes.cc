#include "cuda_lanes.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace penstock::gpu {

using engine::CopyDirection;
using engine::CopyMeans;
using engine::CopyOp;

namespace {

// Whether a stream that is at `done` has come to `ticket`; numbers wrap.
bool has_come(uint32_t done, uint32_t ticket) {
  return static_cast<int32_t>(done - ticket) >= 0;
}

// Whether each check is of one whole piece, in their order.
bool checks_pieces(const CopyOp& op) {
  if (op.checks.size() != op.pieces.size()) return false;
  for (size_t i = 0; i < op.checks.size(); ++i) {
    const engine::BlockCheck& check = op.checks[i];
    if (check.data != op.pieces[i].destination || check.length != op.pieces[i].length) return false;
  }
  return true;
}

// Acquire pairs with the device's write, which comes after all that the stream did before.
uint32_t read_done(uint32_t* word) {
  return std::atomic_ref<uint32_t>(*word).load(std::memory_order_acquire);
}

const std::byte* device_side(const CopyOp& op) {
  const engine::CopyPiece& piece = op.pieces.front();
  return op.direction == CopyDirection::from_device ? piece.source : piece.destination;
}

}  // namespace

CudaLanes::~CudaLanes() {
  ASSERT(in_progress_ == 0);
  // Streams and pinned memory stay: the driver may be on its way out already.
}

Outcome<void> CudaLanes::make_stream(Stream& stream, uint32_t* word, int priority) {
  const Driver& driver = memory_.driver();
  const CUresult result =
      driver.cuStreamCreateWithPriority(&stream.stream, CU_STREAM_NON_BLOCKING, priority);
  if (result != CUDA_SUCCESS) return failure_of(driver, "make a stream", result);
  stream.done = word;
  return {};
}

Outcome<std::unique_ptr<CudaLanes::Lanes>> CudaLanes::make_lanes(engine::DeviceId device) {
  auto lanes = std::make_unique<Lanes>();
  lanes->device = device;
  TRY_ASSIGN(lanes->context, memory_.context(device));
  const Driver& driver = memory_.driver();
  const ContextScope scope(driver, lanes->context.context);
  constexpr size_t kLine = 64;
  constexpr size_t kWords = 4 * kLine;
  constexpr size_t kPieces = limits::kBatchPieces * sizeof(GatherPiece);
  constexpr size_t kChecks = limits::kBatchChecks * sizeof(CheckBlock);
  constexpr size_t kBatch = kPieces + kChecks + limits::kBatchChecks + kLine;
  static_assert(kPieces % kLine == 0 && kChecks % kLine == 0 && kBatch % kLine == 0);
  TRY_ASSIGN(const MutableBytes memory,
             memory_.pinned_memory(device, kWords + limits::kBatches * kBatch));
  const auto word = [&](size_t i) { return reinterpret_cast<uint32_t*>(&memory[i * kLine]); };
  int least = 0;
  int greatest = 0;
  driver.cuCtxGetStreamPriorityRange(&least, &greatest);
  for (size_t i = 0; i < lanes->copies.size(); ++i) {
    TRY(make_stream(lanes->copies[i], word(i), least));
  }
  // Before the application's kernels where both wait for room.
  TRY(make_stream(lanes->kernels, word(3), greatest));
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
  if (op.allocation != 0) {
    // What was freed must not be written to: the driver may have given it to somebody else.
    const Result<engine::DeviceSpan> span = memory_.find(device_side(op), 1);
    if (!span || span->allocation != op.allocation) {
      return loop_.complete(op, Code::invalid_argument);
    }
  }
  if (in_progress_++ == 0 || lanes->in_progress == 0) lanes->last_progress = loop_.now();
  ++lanes->in_progress;
  if (op.means == CopyMeans::kernel) {
    lanes->kernels.waiting.push_back(op);
  } else {
    lanes->copies[static_cast<size_t>(op.direction)].waiting.push_back(op);
  }
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
    lane.in_flight.pop_front();
    lane.copies -= static_cast<uint32_t>(op.pieces.size());
    if (op.status.ok() && !op.checks.empty()) {
      lanes.kernels.waiting.push_back(op);
    } else {
      end(lanes, op, op.status);
    }
    worked = true;
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
      const uint8_t* const found = any_bad ? std::find(bad, bad + op->checks.size(), 1) : nullptr;
      if (any_bad && found != bad + op->checks.size() && status.ok()) {
        op->first_bad = static_cast<uint32_t>(found - bad);
        status = Code::corrupt;
      }
      end(lanes, *op, status);
    }
    if (any_bad) std::memset(batch.bad, 0, batch.bad_count);
    *batch.any_bad = 0;
    batch.piece_count = batch.check_count = batch.bad_count = 0;
    ++lane.first;
    worked = true;
  }
  return worked;
}

bool CudaLanes::issue(Lanes& lanes) {
  KernelLane& kernels = lanes.kernels;
  const auto has_room = [](CopyLane& lane) {
    return !lane.waiting.empty() &&
           (lane.copies == 0 ||
            lane.copies + lane.waiting.front().pieces.size() <= limits::kCopiesInFlight);
  };
  const bool launches =
      !kernels.waiting.empty() && kernels.last - kernels.first < limits::kBatchesInFlight;
  if (!launches && std::none_of(lanes.copies.begin(), lanes.copies.end(), has_room)) return false;
  const ContextScope scope(memory_.driver(), lanes.context.context);
  for (CopyLane& lane : lanes.copies) {
    while (has_room(lane) && lanes.broken.ok()) {
      issue_copy(lanes, lane, *lane.waiting.pop_front());
    }
  }
  while (!kernels.waiting.empty() && lanes.broken.ok() &&
         kernels.last - kernels.first < limits::kBatchesInFlight) {
    Batch& batch = kernels.batches[kernels.last % limits::kBatches];
    while (!kernels.waiting.empty() && fill(batch, kernels.waiting.front())) {
      CopyOp* const op = kernels.waiting.pop_front();
      batch.ops.push_back(*op);
    }
    launch(lanes, batch);
  }
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
  // Some of the pieces may be on their way when one is refused: the operation ends after them.
  op.status = status_of(copy(lane, op));
  lane.in_flight.push_back(op);
  lane.copies += static_cast<uint32_t>(op.pieces.size());
  const CUresult result = write_ticket(lane);
  op.progress.ticket = lane.issued;
  if (result != CUDA_SUCCESS || op.status.code() == Code::peer_gone) {
    break_down(lanes, result != CUDA_SUCCESS ? status_of(result) : op.status);
  }
}

// Adds an operation to a batch; false when there is no room for it.
bool CudaLanes::fill(Batch& batch, CopyOp& op) {
  const bool gathers = op.means == CopyMeans::kernel;
  const bool checks_in_place = gathers && checks_pieces(op);
  if (gathers && batch.piece_count + op.pieces.size() > limits::kBatchPieces) return false;
  if (batch.bad_count + op.checks.size() > limits::kBatchChecks) return false;
  op.progress.ticket = batch.bad_count;
  for (size_t i = 0; gathers && i < op.pieces.size(); ++i) {
    const engine::CopyPiece& piece = op.pieces[i];
    GatherPiece& entry = batch.pieces[batch.piece_count++];
    entry = {piece.source, piece.destination, piece.length, 0, 0};
    if (!checks_in_place) continue;
    entry.crc32c = op.checks[i].crc32c;
    entry.check = ++batch.bad_count;
  }
  if (checks_in_place) return true;
  for (const engine::BlockCheck& check : op.checks) {
    batch.checks[batch.check_count++] = {
        check.data, check.length, check.crc32c, batch.bad_count++, {}};
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
    // Batches with checks in place take the second kernel, which needs its tables first.
    void* arguments[] = {&batch.pieces, &batch.piece_count, &lanes.context.shifts, &batch.bad,
                         &batch.any_bad};
    const bool checked = batch.bad_count > batch.check_count;
    result = run(checked ? lanes.context.gather_checked : lanes.context.gather, batch.piece_count,
                 limits::kGatherBlocksMax, arguments);
  }
  if (batch.check_count > 0 && result == CUDA_SUCCESS) {
    void* arguments[] = {&batch.checks, &batch.check_count, &lanes.context.shifts, &batch.bad,
                         &batch.any_bad};
    result = run(lanes.context.check, batch.check_count, limits::kCheckBlocksMax, arguments);
  }
  if (result == CUDA_SUCCESS) result = write_ticket(lane);
  batch.ticket = lane.issued;
  ++lane.last;
  if (result != CUDA_SUCCESS) break_down(lanes, status_of(result));
}

CUresult CudaLanes::write_ticket(Stream& stream) {
  ++stream.issued;
  return memory_.driver().cuStreamWriteValue32(stream.stream,
                                               reinterpret_cast<CUdeviceptr>(stream.done),
                                               stream.issued, CU_STREAM_WRITE_VALUE_DEFAULT);
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
  log::error(
      "GPU {}: its context is broken (CUDA error {}); nothing works on it any more in this "
      "process",
      lanes.device.value, status.detail());
  for (CopyLane& lane : lanes.copies) {
    lane.in_flight.take_all(lane.waiting);
    while (CopyOp* const op = lane.in_flight.pop_front()) end(lanes, *op, lanes.broken);
    lane.copies = 0;
  }
  KernelLane& kernels = lanes.kernels;
  while (CopyOp* const op = kernels.waiting.pop_front()) end(lanes, *op, lanes.broken);
  for (Batch& batch : kernels.batches) {
    while (CopyOp* const op = batch.ops.pop_front()) end(lanes, *op, lanes.broken);
  }
  kernels.first = kernels.last;
}

void CudaLanes::look_after(Lanes& lanes) {
  const engine::Time now = loop_.now();
  if (now - lanes.last_progress < limits::kQuietTime) return;
  lanes.last_progress = now;
  const ContextScope scope(memory_.driver(), lanes.context.context);
  const CUresult result = memory_.driver().cuStreamQuery(lanes.kernels.stream);
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) {
    break_down(lanes, status_of(result));
  }
}

}  // namespace penstock::gpu
