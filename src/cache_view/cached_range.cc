#include "penstock/cache_view/cached_range.h"

#include "limits.h"

#include <algorithm>
#include <bit>

#include "penstock/ring.h"

namespace penstock::cache_view {

using arena::kBlockBytes;
using arena::kExtentBytes;

namespace {

uint32_t number_of(uint64_t offset) {
  return static_cast<uint32_t>(offset / kExtentBytes);
}

void prefetch(const std::byte* bytes, uint32_t begin, uint32_t end) {
  for (uint32_t line = 0; line < limits::kPrefetchLines && begin + line * 64 < end; ++line) {
    __builtin_prefetch(bytes + begin + line * 64);
  }
}

}  // namespace

CachedRange::CachedRange(CacheView& view, InodeId inode, uint64_t offset, uint32_t length)
    : view_(&view), inode_(inode), offset_(offset), length_(length) {
  DASSERT(length > 0 && length <= kExtentBytes);
  view.prefetch_entry(inode, offset);
}

bool CachedRange::find(Part& part, arena::Extent extent) {
  part.found = view_->reader().find(extent);
  if (!part.found || !view_->is_pinned(part.found.slot)) return false;
  part.end = std::min(part.end, part.found.valid);
  __builtin_prefetch(part.found.checksums);
  // Parts of blocks are looked at themselves; the processor goes on by itself from there.
  if (part.begin % kBlockBytes != 0) prefetch(part.found.data, part.begin, part.end);
  const uint32_t last_block = part.end - part.end % kBlockBytes;
  if (part.end != last_block) prefetch(part.found.data, std::max(last_block, part.begin), part.end);
  return true;
}

bool CachedRange::find() {
  const auto begin = static_cast<uint32_t>(offset_ % kExtentBytes);
  const uint32_t end = begin + length_;
  Part& first = parts_[0];
  first.begin = begin;
  first.end = std::min(end, kExtentBytes);
  if (!find(first, {inode_, number_of(offset_)})) return false;
  count_ = 1;
  data_ = first.found.data + begin;
  length_ = first.end > begin ? first.end - begin : 0;
  if (end <= kExtentBytes || first.found.valid < kExtentBytes) return true;
  // The rest must follow in memory, and in the same slab, which was pinned as a whole.
  Part& second = parts_[1];
  second.end = end - kExtentBytes;
  const uint32_t slab_slots = view_->reader().geometry().slab_slots();
  if (!find(second, {inode_, number_of(offset_) + 1}) ||
      second.found.slot != first.found.slot + 1 || second.found.slot % slab_slots == 0) {
    return false;
  }
  count_ = 2;
  length_ += second.end;
  return true;
}

// Whole blocks have their checksums; a part of one is looked at.
void CachedRange::add(const Part& part) {
  for (uint32_t at = part.begin; at < part.end;) {
    const uint32_t block = at / kBlockBytes;
    const uint32_t block_end = std::min((block + 1) * kBlockBytes, part.found.valid);
    const uint32_t end = std::min(block_end, part.end);
    const bool whole = at % kBlockBytes == 0 && end == block_end;
    const uint32_t bytes = end - at;
    if (whole) {
      const uint32_t checksum = part.found.checksums->block[block];
      const uint32_t remainder = ring::remainder_from(checksum, bytes);
      // Nothing, or zeros alone, before: there is nothing to be moved.
      remainder_ = remainder_ == 0 ? remainder : crc32c_join(remainder_, remainder, bytes);
    } else {
      remainder_ = ring::remainder_of({part.found.data + at, bytes}, remainder_);
    }
    at = end;
  }
}

bool CachedRange::verify() {
  for (uint32_t i = 0; i < count_; ++i) add(parts_[i]);
  for (uint32_t i = 0; i < count_; ++i) {
    if (!view_->reader().still(parts_[i].found.ticket)) return false;
  }
  return true;
}

// A slab: pinned as a whole, and a power of two that lies at a multiple of itself.
uint8_t CachedRange::span_log2() const {
  return static_cast<uint8_t>(std::countr_zero(view_->reader().geometry().slab_bytes));
}

void CachedRange::note_hits(CacheView::Hits* hits) const {
  for (uint32_t i = 0; i < count_; ++i) view_->note_hit(parts_[i].found.slot, hits);
}

}  // namespace penstock::cache_view
