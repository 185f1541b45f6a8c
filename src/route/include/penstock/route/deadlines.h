// Deadlines: operations in progress that are to end by a certain time.
#pragma once

#include <algorithm>
#include <vector>

#include "penstock/engine.h"

namespace penstock::route {

// `Op` has a `deadline`, and an index in `progress.timed_index` that is this object's. Those
// without a deadline cost nothing. Not thread safe.
template <class Op>
class Deadlines {
 public:
  void add(Op& op) {
    if (op.deadline == engine::kNever) return;
    op.progress.timed_index = ops_.size();
    ops_.push_back(&op);
    next_ = std::min(next_, op.deadline);
  }
  void remove(Op& op) {
    if (op.deadline == engine::kNever) return;
    ops_.back()->progress.timed_index = op.progress.timed_index;
    ops_[op.progress.timed_index] = ops_.back();
    ops_.pop_back();
    if (ops_.empty()) next_ = engine::kNever;
  }

  // When check() may have something to do: no deadline to come is sooner.
  engine::Time next() const { return next_; }
  // Calls `late` for each operation whose deadline has passed, also if it was called for it before;
  // `late` may end it. True if it was called: what that has begun may need another turn of the
  // loop.
  template <class Late>
  bool check(engine::Time now, const Late& late) {
    if (now < next_) return false;
    next_ = engine::kNever;
    bool called = false;
    // A copy: an operation that ends is removed.
    for (Op* const op : std::vector<Op*>(ops_)) {
      if (op->deadline > now) {
        next_ = std::min(next_, op->deadline);
      } else {
        late(*op);
        called = true;
      }
    }
    return called;
  }

 private:
  std::vector<Op*> ops_;
  engine::Time next_ = engine::kNever;
};

}  // namespace penstock::route
