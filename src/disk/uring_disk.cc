#include "uring_disk.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <linux/falloc.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace penstock::disk {

using engine::BufferId;
using engine::DiskOp;
using engine::DiskOpKind;
using engine::MemoryRef;
using engine::Time;

namespace {

constexpr uint64_t kSlotBytesShift = 30;
constexpr uint64_t kSlotBytes = uint64_t{1} << kSlotBytesShift;

// user_data is the address of a DiskOp, or that of a Run with the second bit set, and thus even, or
// odd: an entry whose completion means nothing, or one that watches an eventfd, with the number of
// the Watch and of the arming, which is never 0, above the lowest bit.
constexpr uint64_t kIgnored = 1;
constexpr uint64_t kRunBit = 2;
static_assert(alignof(DiskOp) > kRunBit);
constexpr int kWatchShift = 1;
constexpr int kArmingShift = 32;

// See harvest(). Measured with 64 random reads of 4 KiB on a virtual drive: as fast as entering the
// kernel for every four, with fewer than half as many calls.
constexpr unsigned kHarvestMin = 4;
constexpr unsigned kHarvestGrowth = 2;

// So many bytes of large operations are submitted at once: the drive moves them while the caller
// prepares the next, and beside the time that it takes for them the call costs nothing.
constexpr uint64_t kLargeBytes = 64 * kKiB;
constexpr uint64_t kSubmitBytes = 256 * kKiB;

static_assert(engine::kDiskBuffersMax <= Ring::kBuffersMax);

int this_thread() {
  static thread_local const int id = ::gettid();
  return id;
}

}  // namespace

UringDisk::UringDisk(const std::string& root) : LocalDisk(root) {}

Outcome<std::unique_ptr<UringDisk>> UringDisk::create(const std::string& root) {
  std::unique_ptr<UringDisk> disk(new UringDisk(root));
  const auto fail = [](const char* what, Status status) {
    return Failure{status, fmt::format("disk: {}: {}", what, status.name())};
  };
  if (const Status status = disk->ring_.create(engine::kDiskOpsMax); !status.ok()) {
    return fail("io_uring_setup", status);
  }
  disk->wake_fd_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!disk->wake_fd_) return fail("eventfd", Status::from_errno(errno));
  disk->watches_.push_back({.fd = disk->wake_fd_.get()});
  disk->facts_.backend = "io_uring";
  disk->facts_.fixed_buffers = disk->ring_.has_buffer_table();
  disk->buffers_.resize(engine::kDiskBuffersMax);
  for (size_t i = 0; i < kRuns; ++i) {
    disk->runs_[i].next_free = std::exchange(disk->free_runs_, &disk->runs_[i]);
  }
  for (unsigned slot = Ring::kBuffersMax; slot-- > engine::kDiskBuffersMax;) {
    disk->spare_slots_.push_back(slot);
  }
  return disk;
}

UringDisk::~UringDisk() {
  ASSERT(in_flight_ == 0 && waiting_.empty());
}

// Called at every turn, so it must be cheap.
void UringDisk::own() {
  if (owner_ == this_thread()) [[likely]]
    return;
  owner_ = this_thread();
  // The kernel runs what ends an entry in the thread that submitted it, or, when that has ended, in
  // a slower way. For operations in flight that is good enough; the watches move along.
  for (Watch& watch : watches_) disarm(watch);
}

void UringDisk::on_open(uint32_t index) {
  File& file = files_[index];
  file.registered =
      ring_.has_file_table() && index < Ring::kFilesMax && ring_.set_file(index, file.fd).ok();
}

void UringDisk::on_close(uint32_t index) {
  if (!files_[index].registered) return;
  const Status status = ring_.set_file(index, -1);
  ASSERT(status.ok());
}

Status UringDisk::register_buffer(BufferId id, MutableBytes memory) {
  if (id.value >= buffers_.size() || memory.empty()) return Code::invalid_argument;
  Buffer& buffer = buffers_[id.value];
  if (!buffer.slots.empty()) return Code::already_exists;
  if (!ring_.has_buffer_table()) return Code::not_supported;
  const uint64_t slots = (memory.size() + kSlotBytes - 1) >> kSlotBytesShift;
  if (slots - 1 > spare_slots_.size()) return Code::no_memory;
  buffer.memory = memory;
  buffer.slots.push_back(id.value);
  while (buffer.slots.size() < slots) {
    buffer.slots.push_back(spare_slots_.back());
    spare_slots_.pop_back();
  }
  const Status status = fill_buffer(buffer);
  if (!status.ok()) {
    refused_buffers_.add();
    std::copy(buffer.slots.begin() + 1, buffer.slots.end(), std::back_inserter(spare_slots_));
    buffer = Buffer();
  }
  return status;
}

// All slots or none.
Status UringDisk::fill_buffer(const Buffer& buffer) {
  for (size_t i = 0; i < buffer.slots.size(); ++i) {
    const uint64_t offset = i << kSlotBytesShift;
    const uint64_t length = std::min<uint64_t>(kSlotBytes, buffer.memory.size() - offset);
    const Status status = ring_.set_buffer(buffer.slots[i], buffer.memory.subspan(offset, length));
    if (status.ok()) continue;
    while (i-- > 0) (void)ring_.set_buffer(buffer.slots[i], {});
    return status;
  }
  return Code::ok;
}

void UringDisk::empty_buffer(const Buffer& buffer) {
  for (const unsigned slot : buffer.slots) {
    const Status status = ring_.set_buffer(slot, {});
    ASSERT(status.ok());
  }
}

void UringDisk::unregister_buffer(BufferId id) {
  if (id.value >= buffers_.size() || buffers_[id.value].slots.empty()) return;
  Buffer& buffer = buffers_[id.value];
  empty_buffer(buffer);
  std::copy(buffer.slots.begin() + 1, buffer.slots.end(), std::back_inserter(spare_slots_));
  buffer = Buffer();
}

void UringDisk::submit(DiskOp& op) {
  File* file = find(op.file);
  if (const Status status = check(op, file); !status.ok()) return loop_->complete(op, status);
  op.transferred = 0;
  op.progress = {};
  ++file->in_flight;
  if (in_flight_ == engine::kDiskOpsMax) {
    waiting_.push_back(op);
    return;
  }
  ++in_flight_;
  start(op);
}

io_uring_sqe& UringDisk::next_entry() {
  tail_ = {};
  io_uring_sqe* entry = io_uring_get_sqe(&ring_.raw());
  while (entry == nullptr) {
    entered(io_uring_submit(&ring_.raw()));
    entry = io_uring_get_sqe(&ring_.raw());
  }
  return *entry;
}

void UringDisk::start(DiskOp& op) {
  const bool joins = may_join(op);
  if (joins && join(op)) return;
  const File& file = files_[op.file.value];
  io_uring_sqe& entry = next_entry();
  prepare(entry, op, file);
  if (file.registered) {
    entry.fd = static_cast<int>(op.file.value);
    entry.flags |= IOSQE_FIXED_FILE;
  }
  io_uring_sqe_set_data(&entry, &op);
  if (joins) tail_ = {&entry, &op, nullptr};
  if (op.memory.length < kLargeBytes) [[likely]]
    return;
  large_bytes_ += op.memory.length;
  if (large_bytes_ >= kSubmitBytes) entered(io_uring_submit(&ring_.raw()));
}

// Whether it may go together with others: one that the kernel has not seen yet.
bool UringDisk::may_join(const DiskOp& op) const {
  return op.kind == DiskOpKind::write && !op.durable && op.memory.length < kLargeBytes &&
         op.progress.done == 0 && op.progress.aux == 0 &&
         fixed_slot(op.memory, 0, op.memory.length) < 0;
}

// False when it does not follow the newest entry.
bool UringDisk::join(DiskOp& op) {
  if (tail_.entry == nullptr) return false;
  const DiskOp& last = *tail_.last;
  if (op.file != last.file || op.offset != last.offset + last.memory.length) return false;
  if (tail_.run == nullptr) {
    if (free_runs_ == nullptr) return false;
    tail_.run = std::exchange(free_runs_, free_runs_->next_free);
    add(*tail_.run, *tail_.last);
  }
  Run& run = *tail_.run;
  if (run.count == Run::kWritesMax) return false;
  add(run, op);
  tail_.last = &op;
  io_uring_sqe& entry = *tail_.entry;
  const int fd = entry.fd;
  const auto flags = entry.flags;
  io_uring_prep_writev(&entry, fd, run.spans.data(), run.count, run.offset);
  entry.flags = flags;
  io_uring_sqe_set_data64(&entry, reinterpret_cast<uint64_t>(&run) | kRunBit);
  joined_.add();
  return true;
}

void UringDisk::add(Run& run, DiskOp& op) {
  if (run.count == 0) run.offset = op.offset;
  run.spans[run.count++] = {op.memory.data, op.memory.length};
  run.bytes += op.memory.length;
  run.writes.push_back(op);
}

// What did not reach the disk whole is written again one by one: each has an end of its own.
void UringDisk::end_run(Run& run, int64_t result) {
  const bool whole = result == static_cast<int64_t>(run.bytes);
  IntrusiveList<DiskOp> writes;
  writes.take_all(run.writes);
  run.count = 0;
  run.bytes = 0;
  run.next_free = std::exchange(free_runs_, &run);
  while (DiskOp* const op = writes.pop_front()) {
    File& file = files_[op->file.value];
    if (whole) {
      const auto length = static_cast<int64_t>(op->memory.length);
      (void)advance(*op, length, file.direct, facts_.alignment, op->progress.aux);
      finish(*op, file);
    } else {
      ++op->progress.aux;
      retries_.add();
      start(*op);
    }
  }
}

void UringDisk::prepare(io_uring_sqe& entry, DiskOp& op, const File& file) {
  switch (op.kind) {
    case DiskOpKind::read:
    case DiskOpKind::write: {
      const uint64_t done = op.progress.done;
      const auto length = static_cast<unsigned>(op.memory.length - done);
      std::byte* data = op.memory.data + done;
      const uint64_t offset = op.offset + done;
      const int slot = fixed_slot(op.memory, done, length);
      if (op.kind == DiskOpKind::read) {
        if (slot >= 0) {
          io_uring_prep_read_fixed(&entry, file.fd, data, length, offset, slot);
        } else {
          io_uring_prep_read(&entry, file.fd, data, length, offset);
        }
      } else if (slot >= 0) {
        io_uring_prep_write_fixed(&entry, file.fd, data, length, offset, slot);
      } else {
        io_uring_prep_write(&entry, file.fd, data, length, offset);
      }
      if (op.kind == DiskOpKind::write && op.durable) entry.rw_flags = RWF_DSYNC;
      return;
    }
    case DiskOpKind::sync:
      io_uring_prep_fsync(&entry, file.fd, IORING_FSYNC_DATASYNC);
      return;
    case DiskOpKind::allocate:
      io_uring_prep_fallocate(&entry, file.fd, 0, static_cast<off_t>(op.offset),
                              static_cast<off_t>(op.length));
      return;
    case DiskOpKind::discard:
      io_uring_prep_fallocate(&entry, file.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                              static_cast<off_t>(op.offset), static_cast<off_t>(op.length));
      return;
  }
}

// The table's slot that holds the whole span, or -1: then the pages are pinned for this operation.
int UringDisk::fixed_slot(const MemoryRef& memory, uint64_t offset, uint64_t length) const {
  if (memory.buffer.value >= buffers_.size() || length == 0) return -1;
  const Buffer& buffer = buffers_[memory.buffer.value];
  if (buffer.slots.empty()) return -1;
  const std::byte* first = memory.data + offset;
  if (first < buffer.memory.data()) return -1;
  const auto begin = static_cast<uint64_t>(first - buffer.memory.data());
  if (!range_within(begin, length, buffer.memory.size())) return -1;
  const uint64_t slot = begin >> kSlotBytesShift;
  if ((begin + length - 1) >> kSlotBytesShift != slot) return -1;
  return static_cast<int>(buffer.slots[slot]);
}

bool UringDisk::poll() {
  own();
  bool worked = harvest();
  if (ring_.unsubmitted() == 0) {
    deferred_ = false;
    if (!ring_.wants_enter()) return worked;
  } else if (!deferred_ && ring_.completed() == 0) {
    deferred_ = true;
    return worked;
  }
  entered(io_uring_submit_and_get_events(&ring_.raw()));
  deferred_ = false;
  if (!worked) worked = harvest();
  return worked;
}

// The eventfd is never read: a poll that stays armed sees every write to it. Its counter would have
// to be written 2^64 times to be full.
void UringDisk::arm(uint32_t number) {
  Watch& watch = watches_[number];
  watch.tag = uint64_t{++arms_} << kArmingShift | uint64_t{number} << kWatchShift | 1;
  watch.armed = true;
  io_uring_sqe& entry = next_entry();
  io_uring_prep_poll_multishot(&entry, watch.fd, POLLIN);
  io_uring_sqe_set_data64(&entry, watch.tag);
}

void UringDisk::disarm(Watch& watch) {
  if (!watch.armed) return;
  watch.armed = false;
  all_armed_ = false;
  io_uring_sqe& entry = next_entry();
  io_uring_prep_poll_remove(&entry, watch.tag);
  io_uring_sqe_set_data64(&entry, kIgnored);
}

void UringDisk::on_watched(const io_uring_cqe& completion) {
  ++writes_seen_;
  if ((completion.flags & IORING_CQE_F_MORE) != 0 || completion.user_data == kIgnored) return;
  Watch& watch = watches_[static_cast<uint32_t>(completion.user_data) >> kWatchShift];
  if (watch.tag != completion.user_data || !watch.armed) return;
  watch.armed = all_armed_ = false;
}

Status UringDisk::watch(int eventfd) {
  ASSERT(eventfd >= 0);
  auto unused = std::ranges::find(watches_, -1, &Watch::fd);
  if (unused == watches_.end()) unused = watches_.insert(unused, Watch());
  *unused = {.fd = eventfd};
  all_armed_ = false;
  return Code::ok;
}

void UringDisk::forget(int eventfd) {
  const auto watch = std::ranges::find(watches_, eventfd, &Watch::fd);
  ASSERT(watch != watches_.end());
  disarm(*watch);
  watch->fd = -1;
}

void UringDisk::park(Time deadline) {
  own();
  deferred_ = true;
  if (signalled_.exchange(false, std::memory_order_acq_rel) || ring_.completed() != 0) return;
  if (!all_armed_) {
    for (uint32_t i = 0; i < watches_.size(); ++i) {
      if (watches_[i].fd >= 0 && !watches_[i].armed) arm(i);
    }
    all_armed_ = true;
  }
  int result = 0;
  if (deadline == engine::kNever) {
    result = io_uring_submit_and_wait(&ring_.raw(), 1);
  } else {
    const int64_t left = std::max<int64_t>(0, (deadline - engine::system_clock().now()).count());
    __kernel_timespec timeout{left / 1'000'000'000, left % 1'000'000'000};
    io_uring_cqe* completion = nullptr;
    result = io_uring_submit_and_wait_timeout(&ring_.raw(), &completion, 1, &timeout, nullptr);
  }
  entered(result);
  signalled_.exchange(false, std::memory_order_acq_rel);
}

void UringDisk::unpark() {
  if (signalled_.exchange(true, std::memory_order_acq_rel)) return;
  const uint64_t one = 1;
  const int error = errno;  // for signal handlers
  // It fails only when the counter is full, and then the poll is ready anyway.
  (void)!::write(wake_fd_.get(), &one, sizeof one);
  errno = error;
}

// Whatever was not submitted for one of these reasons is still in the queue for the next turn.
void UringDisk::entered(int result) {
  enters_.add();
  large_bytes_ = 0;
  tail_ = {};
  ASSERT(result >= 0 || result == -EINTR || result == -EAGAIN || result == -EBUSY ||
         result == -ETIME);
}

// Drives complete in bursts. If all of a burst were answered before the answers are submitted, the
// drive would have nothing to do meanwhile; so the fewer operations the kernel still has, the fewer
// are taken at once, and what they lead to is submitted before the next are taken.
bool UringDisk::harvest() {
  const unsigned ready = ring_.completed();
  if (ready == 0) return false;
  const unsigned mine = ring_.unsubmitted() + ready;
  const unsigned in_kernel = in_flight_ > mine ? in_flight_ - mine : 0;
  const unsigned most = std::max(kHarvestMin, kHarvestGrowth * in_kernel);
  unsigned head = 0;
  unsigned count = 0;
  io_uring_cqe* completion = nullptr;
  io_uring_for_each_cqe(&ring_.raw(), head, completion) {
    handle(*completion);
    if (++count == most) break;
  }
  io_uring_cq_advance(&ring_.raw(), count);
  ops_.add(std::exchange(finished_, 0));
  return true;
}

void UringDisk::handle(const io_uring_cqe& completion) {
  if ((completion.user_data & 1) != 0) return on_watched(completion);
  if ((completion.user_data & kRunBit) != 0) {
    return end_run(*reinterpret_cast<Run*>(completion.user_data & ~kRunBit), completion.res);
  }
  auto& op = *reinterpret_cast<DiskOp*>(completion.user_data);
  File& file = files_[op.file.value];
  if (advance(op, completion.res, file.direct, facts_.alignment, op.progress.aux) ==
      Progress::again) {
    retries_.add();
    start(op);
    return;
  }
  finish(op, file);
}

void UringDisk::finish(DiskOp& op, File& file) {
  ++finished_;
  --file.in_flight;
  loop_->complete(op, op.status);
  if (DiskOp* next = waiting_.pop_front()) {
    start(*next);
  } else {
    --in_flight_;
  }
}

}  // namespace penstock::disk
