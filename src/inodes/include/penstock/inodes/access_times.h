// Times of access: noted when a file is read, recorded later and many at once.
#pragma once

#include <atomic>
#include <optional>
#include <unordered_map>

#include "penstock/inodes/inode.h"

namespace penstock::inodes {

// Whether a read at `now` is to be noted where not every one is wanted: the first after a change,
// and one a day. As Linux has it (relatime).
bool access_is_due(const Attributes& attributes, meta::FileTime now);

// Thread safe. A crash loses what was not recorded yet, which a sync does.
class AccessTimesNoted {
 public:
  explicit AccessTimesNoted(meta::Meta& meta) : meta_(meta) {}

  // Any thread, loops included: takes a mutex for as long as it takes to put it into a table. When
  // that is full (limits::kAccessesMax) it is lost once the file is closed.
  void note(InodeId inode, meta::FileTime when);
  // What is noted and not recorded yet.
  std::optional<meta::FileTime> noted(InodeId inode) const;
  void merge(Attributes& attributes) const {
    if (const std::optional<meta::FileTime> when = noted(attributes.inode)) {
      attributes.accessed = *when;
    }
  }

  // Blocks. Records all that is noted.
  Status record();
  // Blocks. A program sets the time: what is noted is forgotten, and nothing is recorded while the
  // lock is held.
  std::unique_lock<engine::Mutex> forget(InodeId inode);

 private:
  meta::Meta& meta_;
  // Relaxed: most often there is nothing, and a look at the moment of a change may find either.
  std::atomic<size_t> count_{0};
  mutable engine::Mutex mutex_;
  std::unordered_map<InodeId, meta::FileTime> noted_;
  engine::Mutex recording_;  // before mutex_
};

}  // namespace penstock::inodes
