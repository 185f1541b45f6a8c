// One open of one inode.
#pragma once

#include <memory>

#include "penstock/inodes/inode.h"
#include "penstock/locks.h"

namespace penstock::inodes {

// Where opens go that were dropped without FileSystem::close_file().
class DroppedOpens {
 public:
  virtual ~DroppedOpens() = default;
  // Any thread; does not block on more than a mutex.
  virtual void dropped(std::shared_ptr<Inode> inode, bool writer) = 0;
};

class OpenFile {
 public:
  // `writer`: whose writes take privileges from the file, where a write does not say; null when
  // those take none.
  OpenFile(std::shared_ptr<DroppedOpens> drops, std::shared_ptr<Inode> inode, bool read, bool write,
           AccessTimes::Mode accesses, std::unique_ptr<const meta::FileWriter> writer,
           const Observer* opener)
      : drops_(std::move(drops)),
        inode_(std::move(inode)),
        read_(read),
        write_(write),
        accesses_(accesses),
        writer_(std::move(writer)),
        opener_(opener),
        losses_seen_(inode_->behind.losses.load(std::memory_order_relaxed)) {}
  ~OpenFile() {
    if (inode_ != nullptr) drops_->dropped(std::move(inode_), write_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  // Not after take().
  Inode& inode() const { return *inode_; }
  bool may_read() const { return read_; }
  bool may_write() const { return write_; }
  // The writer for which the file's privileges must be taken away before `by` (null: the opener)
  // changes bytes; null when there is nothing to take.
  const meta::FileWriter* dropper(const meta::FileWriter* by) const {
    const meta::FileWriter* const writer = by != nullptr ? by : writer_.get();
    if (writer == nullptr || !inode_->may_lose_privileges(writer->keeps_set_ids)) return nullptr;
    return writer;
  }
  // Whether a read is to be noted.
  bool access_is_due() const {
    if (accesses_ == AccessTimes::Mode::none) return false;
    if (inode_->access_due.load(std::memory_order_relaxed)) return true;
    return accesses_ == AccessTimes::Mode::strict &&
           !inode_->no_access_times.load(std::memory_order_relaxed);
  }
  // The observer that opened it for itself, to be compared only: it knows of its own reads. Null
  // for all others.
  const Observer* opener() const { return opener_; }
  std::shared_ptr<Inode> shared_inode() const { return inode_; }
  // Whether bytes of the file were lost on their way since this open last heard of it.
  Status take_loss() {
    Behind& behind = inode_->behind;
    if (behind.losses.load(std::memory_order_relaxed) ==
        losses_seen_.load(std::memory_order_relaxed)) {
      return Code::ok;
    }
    const std::lock_guard lock(behind.mutex);
    const uint64_t losses = behind.losses.load(std::memory_order_relaxed);
    // One of the threads that ask at the same time hears of it.
    if (losses_seen_.exchange(losses, std::memory_order_relaxed) == losses) return Code::ok;
    return behind.lost;
  }
  // For close_file(), by the last user: nothing is left to do when this object dies.
  std::shared_ptr<Inode> take() { return std::move(inode_); }
  bool closed() const { return inode_ == nullptr; }
  // For locks of the file that are asked for through this open. Once they are lost what reads or
  // writes ends with io_error; to be looked at under a hold, so that nothing runs in a session in
  // which they are not had.
  locks::Open& locks() const { return locks_; }

 private:
  std::shared_ptr<DroppedOpens> drops_;
  std::shared_ptr<Inode> inode_;
  const bool read_;
  const bool write_;
  const AccessTimes::Mode accesses_;
  const std::unique_ptr<const meta::FileWriter> writer_;
  const Observer* const opener_;
  std::atomic<uint64_t> losses_seen_;  // relaxed, as Behind::losses
  mutable locks::Open locks_;
};

}  // namespace penstock::inodes
