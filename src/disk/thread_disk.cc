#include "thread_disk.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/uio.h>
#include <unistd.h>

namespace penstock::disk {

using engine::DiskOp;
using engine::DiskOpKind;

namespace {

int64_t result_of(int64_t returned) {
  return returned >= 0 ? returned : -errno;
}

int64_t write(const DiskOp& op, int fd) {
  const uint64_t done = op.progress.done;
  const iovec rest{op.memory.data + done, op.memory.length - done};
  return result_of(
      ::pwritev2(fd, &rest, 1, static_cast<off_t>(op.offset + done), op.durable ? RWF_DSYNC : 0));
}

int64_t call_kernel(const DiskOp& op, int fd) {
  const uint64_t done = op.progress.done;
  const auto offset = static_cast<off_t>(op.offset);
  switch (op.kind) {
    case DiskOpKind::read:
      return result_of(::pread(fd, op.memory.data + done, op.memory.length - done,
                               offset + static_cast<off_t>(done)));
    case DiskOpKind::write:
      return write(op, fd);
    case DiskOpKind::sync:
      return result_of(::fdatasync(fd));
    case DiskOpKind::allocate:
      return result_of(::fallocate(fd, 0, offset, static_cast<off_t>(op.length)));
    case DiskOpKind::discard:
      return result_of(::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset,
                                   static_cast<off_t>(op.length)));
  }
  return -EINVAL;
}

}  // namespace

ThreadDisk::ThreadDisk(const std::string& root, uint32_t thread_count, std::string reason)
    : LocalDisk(root),
      threads_({.name = "penstock-disk", .count_max = std::max(1u, thread_count)},
               [this](ListNode& item) { work(static_cast<DiskOp&>(item)); }) {
  facts_.backend = "threads";
  facts_.reason = std::move(reason);
  facts_.route = engine::Route::disk_threads;
}

ThreadDisk::~ThreadDisk() {
  const std::lock_guard lock(mutex_);
  ASSERT(done_.empty());
}

void ThreadDisk::submit(DiskOp& op) {
  File* file = find(op.file);
  if (const Status status = check(op, file); !status.ok()) return loop_->complete(op, status);
  op.transferred = 0;
  op.progress = {};
  ++file->in_flight;
  // The table of files is not the threads' to look at.
  op.progress.aux = static_cast<uint32_t>(file->fd) << 1 | static_cast<uint32_t>(file->direct);
  // Any number may wait, and the threads are there.
  const Status submitted = threads_.submit(op);
  ASSERT(submitted.ok());
}

void ThreadDisk::work(DiskOp& op) {
  perform(op);
  {
    const std::lock_guard lock(mutex_);
    const bool first = done_.empty();
    done_.push_back(op);
    if (!first) return;
    any_done_.store(true, std::memory_order_relaxed);
  }
  parker_.unpark();
}

bool ThreadDisk::poll() {
  if (!any_done_.load(std::memory_order_relaxed)) return false;
  IntrusiveList<DiskOp> batch;
  {
    std::lock_guard lock(mutex_);
    batch.take_all(done_);
    any_done_.store(false, std::memory_order_relaxed);
  }
  uint32_t count = 0;
  while (DiskOp* op = batch.pop_front()) {
    --files_[op->file.value].in_flight;
    loop_->complete(*op, op->status);
    ++count;
  }
  ops_.add(count);
  return count != 0;
}

void ThreadDisk::perform(DiskOp& op) const {
  const auto fd = static_cast<int>(op.progress.aux >> 1);
  const bool direct = (op.progress.aux & 1) != 0;
  uint32_t retries = 0;
  while (advance(op, call_kernel(op, fd), direct, facts_.alignment, retries) == Progress::again) {
  }
}

}  // namespace penstock::disk
