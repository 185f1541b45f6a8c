// PEs that do things together without being a team: OpenSHMEM's older calls, which bring their own
// words for it.
#pragma once

#include "penstock/symm/group.h"

namespace penstock::symm {

// Words of a program's pSync array that are used: all are 0 before and after each call.
struct ActiveSetWords {
  long arrived;   // of the first PE: how many of the others have come
  long released;  // 1: all have come
  long count;     // what this PE brings to a collect, plus one
};

class ActiveSet {
 public:
  // `words` is symmetric, and the same in all of the set. The calling PE is in `set`.
  ActiveSet(const PeSet& set, uint32_t index, long* words)
      : set_(set), index_(index), words_(reinterpret_cast<ActiveSetWords*>(words)) {}

  const PeSet& set() const { return set_; }
  uint32_t size() const { return set_.size; }
  uint32_t index() const { return index_; }

  // As Group::sync(). timed_out: some had not come at the deadline; the words are not 0 then.
  Status sync(Group& group, engine::Time deadline = engine::kNever) const;
  // The program's array, of which the first words are used.
  long* words() const { return reinterpret_cast<long*>(words_); }
  // This PE's word to bring a number in: symmetric.
  Result<uint64_t*> count(const Group& group) const;

 private:
  const PeSet set_;
  const uint32_t index_;
  ActiveSetWords* const words_;
};

static_assert(sizeof(ActiveSetWords) == 3 * sizeof(long));

}  // namespace penstock::symm
