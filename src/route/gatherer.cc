#include "penstock/route/gatherer.h"

#include "limits.h"

#include <algorithm>
#include <utility>

namespace penstock::route {

using engine::Route;

// An entry that lies in memory.
struct Gatherer::Taken {
  uint32_t index = 0;
  uint32_t length = 0;
  Resident resident;
};

// Such entries on their way in one copy operation.
struct Gatherer::Batch : ListNode {
  explicit Batch(Gatherer& owner) : gatherer(owner) {}

  Gatherer& gatherer;
  GatherOp* op = nullptr;
  engine::CopyOp copy;
  // Keep their memory from use to use.
  std::vector<Taken> entries;
  std::vector<engine::CopyPiece> pieces;
};

// An entry that goes through the mover.
struct Gatherer::Single : TransferOp {
  GatherOp* op = nullptr;
  Gatherer* gatherer = nullptr;
  uint32_t index = 0;
};

Gatherer::Gatherer(engine::Loop& loop, Mover& mover, HostSource& source, engine::CopyLanes& lanes,
                   bool verify)
    : loop_(loop), mover_(mover), source_(source), lanes_(lanes), verify_(verify) {
  for (uint32_t i = 0; i < limits::kGatherBatches; ++i) {
    batches_.push_back(std::make_unique<Batch>(*this));
    free_batches_.push_back(*batches_.back());
  }
  for (uint32_t i = 0; i < limits::kGatherSingles; ++i) {
    singles_.push_back(std::make_unique<Single>());
    singles_.back()->gatherer = this;
    free_singles_.push_back(*singles_.back());
  }
}

Gatherer::~Gatherer() {
  ASSERT(idle());
  while (free_batches_.pop_front() != nullptr) {
  }
  while (free_singles_.pop_front() != nullptr) {
  }
}

void Gatherer::submit(GatherOp& op) {
  ASSERT(!op.progress.running);
  op.progress = {};
  op.progress.running = true;
  op.transferred = 0;
  op.route = Route::none;
  for (ListEntry& entry : op.entries) entry.done = 0;
  ++operations_;
  deadlines_.add(op);
  waiting_.push_back(op);
}

void Gatherer::cancel(GatherOp& op) {
  if (op.progress.running) stop(op, Code::cancelled);
}

// Copies that are under way end by themselves, and are waited for; all else is cancelled.
void Gatherer::stop(GatherOp& op, Status why) {
  if (std::exchange(op.progress.stopped, true)) return;
  if (op.progress.error.ok()) op.progress.error = why;
  op.progress.next = op.entries.size();
  if (static_cast<ListNode&>(op).linked()) static_cast<ListNode&>(op).unlink();
  for (const auto& single : singles_) {
    if (single->op == &op) mover_.cancel(*single);
  }
  // Entries that were to be tried again are not.
  for (Batch* batch = again_.first(); batch != nullptr; batch = again_.next(*batch)) {
    if (batch->op == &op) batch->entries.clear();
  }
  end_if_done(op);
}

void Gatherer::cancel_all() {
  while (!waiting_.empty()) cancel(waiting_.front());
  for (const auto& single : singles_) {
    if (single->op != nullptr) cancel(*single->op);
  }
  for (Batch* batch = again_.first(); batch != nullptr; batch = again_.next(*batch)) {
    cancel(*batch->op);
  }
}

bool Gatherer::poll() {
  if (operations_ == 0) return false;
  bool worked = deadlines_.check(loop_.now(), [&](GatherOp& op) { stop(op, Code::timed_out); });
  worked |= start_again();
  // One batch a turn: the device gets it before the next is collected.
  if (waiting_.empty() || !start(waiting_.front())) return worked;
  GatherOp& op = *waiting_.pop_front();
  if (op.progress.next < op.entries.size()) {
    waiting_.push_back(op);
  } else {
    end_if_done(op);
  }
  return true;
}

// Entries that must go one by one.
bool Gatherer::start_again() {
  bool worked = false;
  while (!again_.empty()) {
    Batch& batch = again_.front();
    while (!batch.entries.empty() && start_single(*batch.op, batch.entries.back().index)) {
      batch.entries.pop_back();
      worked = true;
    }
    if (!batch.entries.empty()) break;
    again_.pop_front();
    free_batches_.push_front(batch);
    ASSERT(batch.op->progress.in_flight > 0);
    --batch.op->progress.in_flight;
    end_if_done(*batch.op);
    worked = true;
  }
  return worked;
}

// One batch of the operation; false when there is no room for anything.
bool Gatherer::start(GatherOp& op) {
  if (op.progress.next == op.entries.size()) return true;
  Batch* const batch = free_batches_.pop_front();
  if (batch == nullptr) return false;
  batch->op = &op;
  batch->entries.clear();
  batch->pieces.clear();
  const bool worked = fill(op, *batch);
  if (batch->entries.empty()) {
    free_batches_.push_front(*batch);
    return worked;
  }
  ++op.progress.in_flight;
  batch->copy.device = op.memory.device;
  batch->copy.means = engine::CopyMeans::kernel;
  batch->copy.pieces = batch->pieces;
  batch->copy.allocation = op.memory.allocation;
  batch->copy.owner = batch;
  batch->copy.completion = [](engine::Op& done) {
    auto& self = done.owner_as<Batch>();
    self.gatherer.batch_done(self);
  };
  lanes_.submit(batch->copy);
  return true;
}

// Takes entries into the batch until it is full; those that are not in memory go their own way.
// Entries are looked up some steps before their pieces are made, so that what each step needs of
// memory has come by then.
bool Gatherer::fill(GatherOp& op, Batch& batch) {
  const size_t before = op.progress.next;
  size_t pieces = 0;
  size_t added = 0;
  while (op.progress.next < op.entries.size()) {
    const auto index = static_cast<uint32_t>(op.progress.next);
    const size_t ahead = op.progress.next + limits::kGatherAhead;
    if (ahead < op.entries.size()) source_.prefetch(op.file, op.entries[ahead].offset);
    const ListEntry& entry = op.entries[index];
    const uint64_t blocks =
        (entry.offset % kBlockBytes + entry.length + kBlockBytes - 1) / kBlockBytes;
    if (pieces + blocks > engine::kCopyPiecesMax) break;
    // The source writes straight into the batch's entry: copying it from a local would stall on the
    // stores just before.
    Taken& taken = batch.entries.emplace_back();
    const Resident& resident = taken.resident;
    const bool found = source_.find(op.file, entry.offset, entry.length, &taken.resident);
    if (found && (resident.length >= entry.length || resident.ends_file)) [[likely]] {
      if (resident.checksums != nullptr) __builtin_prefetch(resident.checksums);
      taken.index = index;
      taken.length = static_cast<uint32_t>(std::min<uint64_t>(entry.length, resident.length));
      pieces += blocks;
      if (batch.entries.size() - added > limits::kGatherAhead)
        add(batch, batch.entries[added++], verify_);
    } else {
      if (found) source_.release(resident);
      batch.entries.pop_back();
      if (!start_single(op, index)) break;
    }
    ++op.progress.next;
  }
  while (added < batch.entries.size()) add(batch, batch.entries[added++], verify_);
  ASSERT(batch.pieces.size() <= pieces && pieces <= engine::kCopyPiecesMax);
  return op.progress.next > before;
}

// A piece, and its check, for each block that the entry has a part of.
void Gatherer::add(Batch& batch, const Taken& found, bool verify) {
  const ListEntry& entry = batch.op->entries[found.index];
  const Resident& resident = found.resident;
  const std::byte* source = resident.data;
  std::byte* destination = batch.op->memory.data + entry.memory_offset;
  uint64_t left = found.length;
  uint64_t step = kBlockBytes - entry.offset % kBlockBytes;
  for (size_t block = 0; left > 0; ++block) {
    step = std::min(step, left);
    engine::CopyPiece piece{.source = source, .destination = destination, .length = step};
    if (verify && resident.host_may_read) {
      const bool known = step == kBlockBytes && resident.checksums != nullptr;
      piece.crc32c = known ? resident.checksums[block] : crc32c({source, step});
      piece.checked = 1;
    }
    batch.pieces.push_back(piece);
    source += step;
    destination += step;
    left -= step;
    step = kBlockBytes;
  }
}

bool Gatherer::start_single(GatherOp& op, uint32_t index) {
  Single* const single = free_singles_.pop_front();
  if (single == nullptr) return false;
  ASSERT(single->op == nullptr && index < op.entries.size());
  const ListEntry& entry = op.entries[index];
  single->op = &op;
  single->index = index;
  single->file = op.file;
  single->offset = entry.offset;
  single->memory = op.memory;
  single->memory.data += entry.memory_offset;
  single->memory.length = entry.length;
  single->deadline = op.deadline;
  single->completion = [](engine::Op& done) {
    auto& self = static_cast<Single&>(done);
    self.gatherer->single_done(self);
  };
  ++op.progress.in_flight;
  mover_.submit(*single);
  return true;
}

void Gatherer::single_done(Single& single) {
  GatherOp& op = *single.op;
  ASSERT(op.progress.running && op.progress.in_flight > 0);
  op.entries[single.index].done = static_cast<uint32_t>(single.transferred);
  op.transferred += single.transferred;
  op.route = engine::worse(op.route, single.route);
  if (op.progress.error.ok()) op.progress.error = single.status;
  single.op = nullptr;
  free_singles_.push_front(single);
  --op.progress.in_flight;
  end_if_done(op);
}

void Gatherer::batch_done(Batch& batch) {
  GatherOp& op = *batch.op;
  ASSERT(op.progress.running && op.progress.in_flight > 0);
  const Status status = batch.copy.status;
  // One of the entries did not verify, as it is damaged or was replaced: each is tried again by
  // itself.
  const bool doubtful = status == Code::corrupt;
  if (!status.ok() && !doubtful && op.progress.error.ok()) {
    op.progress.error = status == Code::peer_gone ? Status(Code::io_error) : status;
  }
  size_t left = 0;
  for (const Taken& entry : batch.entries) {
    const bool good = status.ok() && source_.still_there(entry.resident);
    source_.release(entry.resident);
    if (good) {
      op.entries[entry.index].done = entry.length;
      op.transferred += entry.length;
      op.route = engine::worse(op.route, Route::device_gather);
    } else if (status.ok() || doubtful) {
      batch.entries[left++].index = entry.index;
    }
  }
  batch.entries.resize(op.progress.stopped ? 0 : left);
  if (!batch.entries.empty()) {
    again_.push_back(batch);
    return;
  }
  free_batches_.push_front(batch);
  --op.progress.in_flight;
  end_if_done(op);
}

void Gatherer::end_if_done(GatherOp& op) {
  if (op.progress.in_flight > 0 || op.progress.next < op.entries.size()) return;
  if (static_cast<ListNode&>(op).linked()) return;
  ASSERT(op.progress.running && operations_ > 0);
  --operations_;
  deadlines_.remove(op);
  op.progress.running = false;
  loop_.complete(op, op.progress.error);
}

}  // namespace penstock::route
