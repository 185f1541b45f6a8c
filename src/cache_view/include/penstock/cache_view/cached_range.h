// Where a range of a file lies in the node cache, with what proves that the bytes are the file's.
#pragma once

#include "penstock/cache_view/cache_map.h"

namespace penstock::cache_view {

// Looked up in three steps, so that many can be looked up side by side: each step asks the
// processor's cache for what the next one needs.
class CachedRange {
 public:
  // The range must not be empty, and no longer than an extent.
  CachedRange() = default;
  CachedRange(CacheView& view, InodeId inode, uint64_t offset, uint32_t length);
  // False when not all of it is here, in one piece and where GPUs reach it.
  bool find();
  // False when the agent has taken it away meanwhile.
  bool verify();

  // After a verify() that was true: bytes that may be replaced at any time, but if they have this
  // remainder, they are what the file held when they were found. Fewer than asked for, or none,
  // where the file ends.
  const std::byte* data() const { return data_; }
  uint32_t length() const { return length_; }
  uint32_t remainder() const { return remainder_; }
  // The bytes lie in 2^span_log2() bytes, aligned to as many, which GPUs reach as long as the view
  // is pinned.
  uint8_t span_log2() const;
  void note_hits(CacheView::Hits* hits) const;

 private:
  // What of the range lies in one extent.
  struct Part {
    arena::Found found;
    uint32_t begin = 0;
    uint32_t end = 0;
  };
  bool find(Part& part, arena::Extent extent);
  void add(const Part& part);

  CacheView* view_ = nullptr;
  InodeId inode_;
  uint64_t offset_ = 0;
  uint32_t length_ = 0;
  Part parts_[2];
  uint32_t count_ = 0;
  const std::byte* data_ = nullptr;
  uint32_t remainder_ = 0;
};

}  // namespace penstock::cache_view
