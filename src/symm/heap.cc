#include "penstock/symm/heap.h"

#include "penstock/base.h"

namespace penstock::symm {
namespace {

// No two allocations share a cache line: PEs spin on words in them.
constexpr uint64_t kUnit = 64;

}  // namespace

Heap::Heap(uint64_t begin, uint64_t end)
    : begin_(align_up(begin, kUnit)), end_(end / kUnit * kUnit) {
  ASSERT(begin_ <= end_);
  if (begin_ < end_) add_free(begin_, end_);
}

std::optional<uint64_t> Heap::allocate(uint64_t bytes, uint64_t alignment) {
  ASSERT(alignment != 0 && (alignment & (alignment - 1)) == 0);
  if (bytes == 0 || bytes > end_ - begin_ || alignment > end_) return std::nullopt;
  const uint64_t taken = align_up(bytes, kUnit);
  const uint64_t step = std::max(alignment, kUnit);
  for (auto it = by_length_.lower_bound({taken, 0}); it != by_length_.end(); ++it) {
    const auto [length, begin] = *it;
    const uint64_t place = align_up(begin, step);
    if (place - begin > length - taken) continue;
    drop_free(begin, begin + length);
    if (begin < place) add_free(begin, place);
    if (place + taken < begin + length) add_free(place + taken, begin + length);
    parts_.emplace(place, Part{place, taken, bytes});
    used_ += taken;
    return place;
  }
  return std::nullopt;
}

bool Heap::release(uint64_t offset) {
  const auto found = parts_.find(offset);
  if (found == parts_.end()) return false;
  const Part part = found->second;
  parts_.erase(found);
  used_ -= part.taken;
  add_free(part.begin, part.begin + part.taken);
  return true;
}

std::optional<uint64_t> Heap::size_of(uint64_t offset) const {
  const auto found = parts_.find(offset);
  return found == parts_.end() ? std::nullopt : std::optional(found->second.asked);
}

std::optional<Heap::Allocation> Heap::allocation_at(uint64_t offset) const {
  const auto behind = parts_.upper_bound(offset);
  if (behind == parts_.begin()) return std::nullopt;
  const Part& part = std::prev(behind)->second;
  if (offset - part.begin >= part.asked) return std::nullopt;
  return Allocation{part.begin, part.asked};
}

bool Heap::resize(uint64_t offset, uint64_t bytes) {
  const auto found = parts_.find(offset);
  if (found == parts_.end() || bytes == 0 || bytes > end_ - begin_) return false;
  Part& part = found->second;
  const uint64_t end = part.begin + part.taken;
  const uint64_t wanted = part.begin + align_up(bytes, kUnit);
  if (wanted > end) {
    const auto after = free_.find(end);
    if (after == free_.end() || after->second < wanted) return false;
    const uint64_t last = after->second;
    drop_free(end, last);
    if (wanted < last) add_free(wanted, last);
  } else if (wanted < end) {
    add_free(wanted, end);
  }
  used_ += wanted - end;
  part.taken = wanted - part.begin;
  part.asked = bytes;
  return true;
}

uint64_t Heap::largest_free() const {
  return by_length_.empty() ? 0 : by_length_.rbegin()->first;
}

void Heap::add_free(uint64_t begin, uint64_t end) {
  ASSERT(begin < end);
  auto after = free_.lower_bound(begin);
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    ASSERT(before->second <= begin);
    if (before->second == begin) {
      begin = before->first;
      drop_free(before->first, before->second);
      after = free_.lower_bound(end);
    }
  }
  if (after != free_.end() && after->first == end) {
    const uint64_t last = after->second;
    drop_free(end, last);
    end = last;
  }
  free_.emplace(begin, end);
  by_length_.emplace(end - begin, begin);
}

void Heap::drop_free(uint64_t begin, uint64_t end) {
  const size_t known = free_.erase(begin) + by_length_.erase({end - begin, begin});
  ASSERT(known == 2);
}

}  // namespace penstock::symm
