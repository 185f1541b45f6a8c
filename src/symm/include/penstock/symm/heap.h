// Which parts of a PE's heap are in use.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>

namespace penstock::symm {

// Places are offsets. PEs that make the same calls in the same order get the same places, without
// asking one another: what is handed out depends on the calls alone. What it knows stands in
// private memory, out of reach of other PEs' stores. One thread at a time.
class Heap {
 public:
  // Bytes from `begin` to `end` are given out.
  Heap(uint64_t begin, uint64_t end);

  // The smallest free part that it fits into, the lowest of equal ones. `alignment`: a power of
  // two. None: no part is large enough, or there is nothing to allocate.
  std::optional<uint64_t> allocate(uint64_t bytes, uint64_t alignment);
  // False: nothing begins there.
  bool release(uint64_t offset);
  // What was asked for at this place; none when nothing begins there.
  std::optional<uint64_t> size_of(uint64_t offset) const;
  // The one in which this place is, of what was asked for: where it begins, and its length. None:
  // in no one.
  struct Allocation {
    uint64_t begin;
    uint64_t bytes;
  };
  std::optional<Allocation> allocation_at(uint64_t offset) const;
  // Makes it smaller or larger where it stands. False: it stays as it was.
  bool resize(uint64_t offset, uint64_t bytes);

  uint64_t used_bytes() const { return used_; }
  uint64_t largest_free() const;
  uint64_t begin() const { return begin_; }
  uint64_t end() const { return end_; }

 private:
  struct Part {
    uint64_t begin;
    uint64_t taken;  // with what fills it up to the unit of allocation
    uint64_t asked;
  };
  void add_free(uint64_t begin, uint64_t end);
  void drop_free(uint64_t begin, uint64_t end);

  const uint64_t begin_;
  const uint64_t end_;
  uint64_t used_ = 0;
  std::map<uint64_t, Part> parts_;                     // by where they begin
  std::map<uint64_t, uint64_t> free_;                  // begin to end; never two that touch
  std::set<std::pair<uint64_t, uint64_t>> by_length_;  // {length, begin} of the same
};

}  // namespace penstock::symm
