// Which inode numbers may have chunks, so that a power cut leaves no chunks without a file.
#pragma once

#include <atomic>
#include <set>

#include "penstock/inodes/target_calls.h"

namespace penstock::inodes {

// Meta and the targets lose different parts of what was not synced: a power cut may take back the
// creation of a file and leave its chunks. So the highest number that may be written to is kept in
// a record on the first target, made durable before that number is exceeded; every creation before
// is durable by then. After a crash the numbers since the last such moment are few: chunks of those
// that meta does not know are removed. Format: docs/formats/client.md. Thread safe.
class WrittenIds {
 public:
  WrittenIds(meta::Meta& meta, TargetCalls& targets, uint32_t step)
      : meta_(meta), targets_(targets), step_(step) {}

  // Reads the record, and after a crash removes what belongs to no file. Before admit().
  Status recover();
  // Instead of recover(): others see to it that what is created is durable before it is written.
  void leave_to_others() { up_to_.store(UINT64_MAX, std::memory_order_release); }
  // Before the first byte of a file is written. Costs one comparison nearly always.
  Status admit(InodeId inode) {
    // Acquire pairs with the release in extend(): the record is durable.
    if (inode.value <= up_to_.load(std::memory_order_acquire)) [[likely]]
      return Code::ok;
    return extend(inode);
  }
  // While files are written whose creation comes later: after a crash the numbers from `first` on
  // are looked at, however many there are by then. Before their admit().
  Status hold(InodeId first);
  void let_go(InodeId first);
  // Instead of let_go(): it is not known whether some of them were created. The next life looks.
  void leave_to_next_life();
  // Everything is durable, nothing will be written: the next life need not look.
  Status close();

 private:
  struct Record;
  Status extend(InodeId inode);
  Status put(const Record& record);
  Status sweep(InodeId from, InodeId up_to);

  meta::Meta& meta_;
  TargetCalls& targets_;
  const uint32_t step_;
  std::atomic<uint64_t> up_to_{0};
  engine::Mutex mutex_;
  uint64_t base_ = 0;             // as recorded
  std::multiset<uint64_t> held_;  // the first number of each
  bool recorded_ = false;         // the record does not say clean; then it covers up_to_
  bool left_some_ = false;        // it must not say clean
};

}  // namespace penstock::inodes
