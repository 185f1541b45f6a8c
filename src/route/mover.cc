#include "penstock/route/mover.h"

#include "limits.h"
#include "piece.h"
#include "slots.h"

#include <algorithm>
#include <set>

namespace penstock::route {

using engine::CopyMeans;
using engine::Route;

namespace {

uint64_t round_down(uint64_t value) {
  return value / kBlockBytes * kBlockBytes;
}
uint64_t round_up(uint64_t value) {
  return round_down(value + kBlockBytes - 1);
}

}  // namespace

// Long copies go by an engine however fast the kernel is: that takes nothing from the application's
// kernels.
uint64_t engine_bytes_min(const engine::CopyCosts& costs) {
  const double saved = 1 / costs.gather_bytes_per_second - 1 / costs.engine_bytes_per_second;
  const auto most = static_cast<double>(limits::kGatherBytesMost);
  const double bytes = saved > 0 ? costs.engine_seconds_per_copy / saved : most;
  return static_cast<uint64_t>(std::min(bytes, most));
}

Mover::Mover(engine::Loop& loop, engine::DeviceMemory& devices, HostSource& source,
             MoverConfig config)
    : loop_(loop),
      devices_(devices),
      source_(source),
      config_(config),
      lanes_(devices.make_lanes(loop)),
      slots_(std::make_unique<Slots>(config.slots, config.slots_buffer)) {
  ASSERT(lanes_ != nullptr);
  engine_bytes_min_.fill(engine_bytes_min(config.costs));
}

void Mover::set_costs(engine::DeviceId device, const engine::CopyCosts& costs) {
  if (device.value < engine::kDevicesMax) {
    engine_bytes_min_[device.value] = engine_bytes_min(costs);
  }
}

Mover::~Mover() {
  ASSERT(idle());
  ASSERT(waiting_.empty() && on_host_.empty() && retries_.empty());
  ASSERT(pieces_in_memory_ == 0 && direct_pieces_ == 0);
  while (free_pieces_.pop_front() != nullptr) {
  }
}

void Mover::submit(TransferOp& op) {
  ASSERT(!op.progress.running && !op.progress.queued);
  op.progress = {};
  op.progress.good_end = op.memory.length;
  op.progress.running = true;
  op.transferred = 0;
  op.route = Route::none;
  op.crc32c = 0;
  op.sums.clear();
  ++operations_;
  deadlines_.add(op);
  op.progress.queued = true;
  waiting_.push_back(op);
}

void Mover::cancel(TransferOp& op) {
  if (op.progress.running) stop(op, Code::cancelled);
}

void Mover::stop(TransferOp& op, Status why) {
  if (op.progress.stop.ok()) op.progress.stop = why;
  for (Piece* piece = on_host_.first(); piece != nullptr; piece = on_host_.next(*piece)) {
    if (piece->op == &op) source_.cancel(piece->host);
  }
  end_if_done(op);
}

void Mover::cancel_all() {
  std::set<TransferOp*> running;
  for (TransferOp* op = waiting_.first(); op != nullptr; op = waiting_.next(*op)) {
    running.insert(op);
  }
  for (const auto& piece : pieces_) {
    if (piece->op != nullptr) running.insert(piece->op);
  }
  for (TransferOp* const op : running) cancel(*op);
}

bool Mover::poll() {
  if (operations_ == 0 && !lanes_->busy()) return false;
  bool worked = deadlines_.check(loop_.now(), [&](TransferOp& op) {
    if (op.progress.stop.ok()) stop(op, Code::timed_out);
  });
  worked |= lanes_->poll();
  worked |= start_pieces();
  // What was just started goes out in this turn.
  worked |= lanes_->poll();
  return worked;
}

// Null when there are as many as may be `in_memory`; for a slot there is always one.
Mover::Piece* Mover::take_piece(bool in_memory) {
  if (in_memory && pieces_in_memory_ == limits::kPiecesInMemoryMax) return nullptr;
  pieces_in_memory_ += in_memory ? 1 : 0;
  Piece* piece = free_pieces_.pop_front();
  if (piece == nullptr) {
    pieces_.push_back(std::make_unique<Piece>(*this));
    piece = pieces_.back().get();
  }
  // As give_back() leaves them.
  ASSERT(piece->op == nullptr && piece->resident.data == nullptr && piece->slot.data == nullptr);
  piece->in_memory = in_memory;
  piece->host_verifies = false;
  return piece;
}

void Mover::give_back(Piece& piece) {
  ASSERT(piece.op != nullptr && !static_cast<const ListNode&>(piece).linked());
  ASSERT(!piece.in_memory || pieces_in_memory_ > 0);
  piece.op = nullptr;
  piece.host.keeper = nullptr;
  pieces_in_memory_ -= piece.in_memory ? 1 : 0;
  direct_pieces_ -= std::exchange(piece.is_direct, false) ? 1 : 0;
  if (piece.resident.data != nullptr) source_.release(piece.resident);
  piece.resident = {};
  if (piece.slot.data != nullptr) slots_->give_back(piece.slot);
  piece.slot = {};
  free_pieces_.push_front(piece);
}

std::byte* Mover::device_address(const Piece& piece) {
  return piece.op->memory.data + piece.begin;
}

// One piece of each operation after the other, so that a large operation does not hold up the
// others, nor one that waits for a slot those that need none.
bool Mover::start_pieces() {
  bool worked = start_retries();
  const TransferOp* first_blocked = nullptr;  // since something was started last
  uint32_t blocked = 0;
  while (!waiting_.empty() && blocked < limits::kBlockedMax) {
    if (&waiting_.front() == first_blocked) break;
    TransferOp& op = *waiting_.pop_front();
    op.progress.queued = false;
    const auto wants_more = [&op] {
      return op.progress.stop.ok() && op.progress.next < op.progress.good_end;
    };
    const bool started = !wants_more() || start_piece(op);
    if (wants_more()) {
      op.progress.queued = true;
      waiting_.push_back(op);
    } else {
      end_if_done(op);
    }
    worked |= started;
    blocked = started ? 0 : blocked + 1;
    if (blocked <= 1) first_blocked = started ? nullptr : &op;
  }
  return worked;
}

// False when nothing can be started before something else ends.
bool Mover::start_piece(TransferOp& op) {
  Resident resident;
  const bool is_open = !op.progress.only_slots && op.only != Route::device_slots;
  const bool may_use = is_open && !op.write && op.only != Route::device_network;
  const uint64_t left = op.memory.length - op.progress.next;
  const uint64_t wanted = std::min(left, limits::kEngineCopyBytesMax);
  if (may_use && source_.find(op.file, op.offset + op.progress.next, wanted, &resident)) {
    // The caller wants a checksum, which the host cannot take where only devices may read.
    if (resident.host_may_read || !op.without_kernels) return start_resident(op, resident);
    source_.release(resident);
  }
  if (is_open && !op.without_kernels &&
      (op.only == Route::none || op.only == Route::device_network)) {
    engine::DeviceSpan part = op.memory;
    part.data += op.progress.next;
    part.length = direct_length(op);
    auto reached = source_.reach(op.file, part);
    if (reached && is_allocated(op)) return start_direct(op, std::move(*reached));
  }
  if (op.only != Route::none && op.only != Route::device_slots) {
    op.progress.stop = Code::not_supported;
    return true;
  }
  const uint64_t started = start_slot(op, op.progress.next, left);
  op.progress.next += started;
  // Asking the source again, each time that there is no slot, would count as reading again there.
  op.progress.only_slots = started == 0;
  return started > 0;
}

bool Mover::start_resident(TransferOp& op, const Resident& resident) {
  ASSERT(resident.data != nullptr && resident.length > 0);
  const uint64_t wanted = op.memory.length - op.progress.next;
  uint64_t length = std::min(wanted, resident.length);
  // A few small pieces are there sooner by an engine, which needs no launch; checks need one, and
  // the pieces of many operations share one.
  const bool checks = config_.verify && resident.host_may_read;
  const uint64_t least = engine_bytes_min_[op.memory.device.value % engine::kDevicesMax];
  const bool few = !checks && operations_ <= limits::kFewOperations;
  const bool forced_engine = op.only == resident.route || op.without_kernels;
  const bool engine = forced_engine || ((length >= least || few) && op.only == Route::none);
  const bool refused = !engine && op.only != Route::none && op.only != Route::device_gather;
  Piece* const piece = refused ? nullptr : take_piece(true);
  if (piece == nullptr) {
    source_.release(resident);
    if (refused) op.progress.stop = Code::not_supported;
    return refused;
  }
  length = std::min(length, engine ? limits::kEngineCopyBytesMax : limits::kGatherBytesMax);
  piece->op = &op;
  piece->begin = op.progress.next;
  piece->length = length;
  piece->resident = resident;
  piece->copy.means = engine ? CopyMeans::copy_engine : CopyMeans::kernel;
  op.progress.next += length;
  ASSERT(op.progress.next <= op.memory.length);
  ++op.progress.pieces;
  if (resident.ends_file && length == resident.length && length < wanted) {
    lower_end(op, op.progress.next, Code::ok);
  }
  copy_resident(*piece);
  return true;
}

// Starts a piece for the first bytes of [at, at + length) of the transfer; returns how many, 0 when
// there is no slot.
uint64_t Mover::start_slot(TransferOp& op, uint64_t at, uint64_t length) {
  ASSERT(length > 0 && at + length <= op.memory.length);
  const uint64_t begin = op.offset + at;
  const uint64_t window_end = begin / limits::kSlotBytes * limits::kSlotBytes + limits::kSlotBytes;
  const uint64_t end = std::min(begin + length, window_end);
  const engine::MemoryRef slot = slots_->take(round_up(end) - round_down(begin));
  if (slot.data == nullptr) return 0;
  Piece* const piece = take_piece(false);
  ASSERT(piece != nullptr);
  piece->op = &op;
  piece->begin = at;
  piece->length = end - begin;
  piece->slot = slot;
  piece->host_verifies = op.without_kernels;
  ++op.progress.pieces;
  if (op.write) {
    copy_slot(*piece);
  } else {
    read_slot(*piece);
  }
  return piece->length;
}

// Whole blocks, so that nothing between here and the disk has to copy.
void Mover::read_slot(Piece& piece) {
  const uint64_t from = round_down(piece.file_offset());
  const uint64_t to = round_up(piece.file_offset() + piece.length);
  ASSERT(to - from <= piece.slot.length);
  HostIo& io = piece.host;
  io.write = false;
  io.durable = false;
  io.file = piece.op->file;
  io.offset = from;
  io.memory = piece.slot.sub(0, to - from);
  io.wants_checksums = config_.verify && !piece.host_verifies;
  io.checksum_place = nullptr;
  submit_host(piece);
}

void Mover::write_slot(Piece& piece) {
  ASSERT(piece.file_offset() % kBlockBytes + piece.length <= piece.slot.length);
  HostIo& io = piece.host;
  io.write = true;
  io.wants_checksums = false;
  io.checksum_place = nullptr;
  io.durable = piece.op->durable;
  io.file = piece.op->file;
  io.offset = piece.file_offset();
  io.memory = piece.slot.sub(piece.file_offset() % kBlockBytes, piece.length);
  submit_host(piece);
}

void Mover::submit_host(Piece& piece) {
  piece.host.deadline = piece.op->deadline;
  piece.host.owner = &piece;
  piece.host.completion = [](engine::Op& op) {
    auto& done = op.owner_as<Piece>();
    done.mover.host_done(done);
  };
  piece.host.checksums = nullptr;
  on_host_.push_back(piece);
  piece.began = loop_.now();
  source_.submit(piece.host);
}

void Mover::host_done(Piece& piece) {
  ASSERT(piece.op != nullptr && (piece.slot.data != nullptr || piece.is_direct));
  static_cast<ListNode&>(piece).unlink();
  host_steps_.add();
  host_nanoseconds_.add(static_cast<uint64_t>((loop_.now() - piece.began).count()));
  if (piece.is_direct) return direct_done(piece);
  const HostIo& io = piece.host;
  if (!io.status.ok() || piece.op->write) {
    return piece_done(piece, io.status, piece.op->write ? io.transferred : 0, Route::device_slots);
  }
  // The file may end in the blocks that were read.
  const uint64_t lead = piece.file_offset() - io.offset;
  const uint64_t got = io.transferred > lead ? io.transferred - lead : 0;
  if (got < piece.length) {
    lower_end(*piece.op, piece.begin + got, Code::ok);
    piece.length = got;
  }
  if (got == 0 || !piece.op->progress.stop.ok()) {
    return piece_done(piece, piece.op->progress.stop, 0, Route::none);
  }
  copy_slot(piece);
}

void Mover::copy_done(Piece& piece) {
  copy_steps_.add();
  copy_nanoseconds_.add(static_cast<uint64_t>((loop_.now() - piece.began).count()));
  Status status = of_device(piece.copy.status);
  const bool resident = piece.resident.data != nullptr;
  if (resident && (status.ok() || status == Code::corrupt) &&
      !source_.still_there(piece.resident)) {
    return retry_by_slots(piece, Code::not_supported);
  }
  if (status == Code::corrupt && may_be_the_disk(piece) && piece.op->progress.stop.ok()) {
    piece.host_verifies = true;
    return piece.is_direct ? retry_by_slots(piece, Code::corrupt) : read_slot(piece);
  }
  uint64_t good = status.ok() ? piece.length : 0;
  if (status == Code::corrupt) {
    const bool own = piece.checks.empty();
    const uint32_t bad = piece.copy.first_bad;
    const std::byte* const at = own ? piece.copies[bad].destination : piece.checks[bad].data;
    good = static_cast<uint64_t>(at - device_address(piece));
    log::error("checksum mismatch in device memory: the block of file offset {}, at {}",
               piece.file_offset() + good, static_cast<const void*>(at));
  }
  if (piece.op->write && status.ok()) {
    if (piece.op->progress.stop.ok()) return write_slot(piece);
    status = piece.op->progress.stop;
    good = 0;
  }
  const bool gathered = piece.copy.means == CopyMeans::kernel;
  const Route in_memory = gathered ? Route::device_gather : piece.resident.route;
  const Route by_host = piece.is_direct ? Route::device_network : Route::device_slots;
  piece_done(piece, status, good, resident ? in_memory : by_host);
}

// What was copied had been replaced meanwhile, or the source does not reach the memory: the bytes
// come through slots now, where that cannot happen. The piece waits for slots, and is cut into
// pieces of their size.
void Mover::retry_by_slots(Piece& piece, Status why) {
  ASSERT(piece.in_memory != piece.is_direct);
  if (piece.op->only != Route::none) return piece_done(piece, why, 0, Route::none);
  if (piece.resident.data != nullptr) source_.release(piece.resident);
  piece.resident = {};
  if (piece.slot.data != nullptr) slots_->give_back(piece.slot);
  piece.slot = {};
  retries_.push_back(piece);
}

bool Mover::start_retries() {
  bool worked = false;
  while (!retries_.empty()) {
    Piece& piece = retries_.front();
    TransferOp& op = *piece.op;
    const bool wanted = op.progress.stop.ok() && piece.begin < op.progress.good_end;
    if (wanted) {
      const uint64_t done = start_slot(op, piece.begin, piece.length);
      if (done == 0) break;
      piece.begin += done;
      piece.length -= done;
    }
    worked = true;
    if (wanted && piece.length > 0) continue;
    static_cast<ListNode&>(piece).unlink();
    // If the operation is being stopped, it ends where this piece has come to.
    if (!op.progress.stop.ok()) lower_end(op, piece.begin, op.progress.stop);
    piece_done(piece, Code::ok, 0, Route::none);
  }
  return worked;
}

// Nothing from `end` of the transfer on was moved: because of `status`, or, when that is ok,
// because the file ends there.
void Mover::lower_end(TransferOp& op, uint64_t end, Status status) {
  if (end > op.progress.good_end) return;
  op.progress.good_end = end;
  op.progress.first_error = status;
}

void Mover::piece_done(Piece& piece, Status status, uint64_t good, Route route) {
  TransferOp& op = *piece.op;
  if (!status.ok()) {
    // A piece that was cancelled because the operation is being stopped ends with that reason.
    if (status == Code::cancelled && !op.progress.stop.ok()) status = op.progress.stop;
    lower_end(op, piece.begin + good, status);
    if (status == Code::corrupt) op.bad_offset = piece.file_offset() + good;
  }
  if (good > 0) op.route = engine::worse(op.route, route);
  if (good > 0 && op.without_kernels && !op.write)
    op.sums.push_back({piece.begin, good, piece.crc32c});
  give_back(piece);
  ASSERT(op.progress.pieces > 0);
  --op.progress.pieces;
  end_if_done(op);
}

void Mover::end_if_done(TransferOp& op) {
  if (op.progress.pieces > 0) return;
  const bool more = op.progress.next < op.progress.good_end && op.progress.stop.ok();
  if (more) return;
  ASSERT(op.progress.running && operations_ > 0);
  if (op.progress.queued) {
    static_cast<ListNode&>(op).unlink();
    op.progress.queued = false;
  }
  deadlines_.remove(op);
  --operations_;
  op.progress.running = false;
  Status status = op.progress.first_error;
  op.transferred = std::min(op.progress.good_end, op.progress.next);
  if (status.ok() && op.transferred < op.progress.good_end) status = op.progress.stop;
  if (op.without_kernels) op.crc32c = sum_up(op);
  loop_.complete(op, status);
}

}  // namespace penstock::route
