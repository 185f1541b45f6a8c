#include "penstock/symm/active_set.h"

namespace penstock::symm {

// The first of the set counts the others, and takes its count back before it lets them go: nobody
// comes again before. Each of them takes its own word back before it comes again. So the words are
// 0 whenever a call has ended.
Status ActiveSet::sync(Group& group, engine::Time deadline) const {
  if (set_.size == 1) return {};
  if (group.at(words_, sizeof *words_, group.me()) == nullptr) return Code::invalid_argument;
  if (index_ != 0) {
    const uint32_t first = set_.pe(0);
    TRY(group.tell(reinterpret_cast<uint64_t*>(&words_->arrived), 1, first, SignalOp::add));
    TRY(group.wait([&] { return __atomic_load_n(&words_->released, __ATOMIC_ACQUIRE) == 1; },
                   deadline));
    __atomic_store_n(&words_->released, 0, __ATOMIC_RELAXED);
    return {};
  }
  const long others = set_.size - 1;
  TRY(group.wait([&] { return __atomic_load_n(&words_->arrived, __ATOMIC_ACQUIRE) == others; },
                 deadline));
  __atomic_store_n(&words_->arrived, 0, __ATOMIC_RELAXED);
  for (uint32_t index = 1; index < set_.size; ++index)
    TRY(group.tell(reinterpret_cast<uint64_t*>(&words_->released), 1, set_.pe(index)));
  return {};
}

Result<uint64_t*> ActiveSet::count(const Group& group) const {
  if (group.at(&words_->count, sizeof(long), group.me()) == nullptr)
    return Status(Code::invalid_argument);
  return reinterpret_cast<uint64_t*>(&words_->count);
}

}  // namespace penstock::symm
