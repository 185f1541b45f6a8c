#include "penstock/symm/active_set.h"

namespace penstock::symm {

// The first of the set counts the others, and takes its count back before it lets them go: nobody
// comes again before. Each of them takes its own word back before it comes again. So the words are
// 0 whenever a call has ended.
Status ActiveSet::sync(Group& group) const {
  if (set_.size == 1) return {};
  if (index_ != 0) {
    auto* const first =
        reinterpret_cast<ActiveSetWords*>(group.at(words_, sizeof *words_, set_.pe(0)));
    if (first == nullptr) return Code::invalid_argument;
    __atomic_fetch_add(&first->arrived, 1, __ATOMIC_ACQ_REL);
    TRY(group.wait([&] { return __atomic_load_n(&words_->released, __ATOMIC_ACQUIRE) == 1; }));
    __atomic_store_n(&words_->released, 0, __ATOMIC_RELAXED);
    return {};
  }
  if (group.at(words_, sizeof *words_, group.me()) == nullptr) return Code::invalid_argument;
  const long others = set_.size - 1;
  TRY(group.wait([&] { return __atomic_load_n(&words_->arrived, __ATOMIC_ACQUIRE) == others; }));
  __atomic_store_n(&words_->arrived, 0, __ATOMIC_RELAXED);
  for (uint32_t index = 1; index < set_.size; ++index) {
    auto* const there =
        reinterpret_cast<ActiveSetWords*>(group.at(words_, sizeof *words_, set_.pe(index)));
    if (there == nullptr) return Code::invalid_argument;
    __atomic_store_n(&there->released, 1, __ATOMIC_RELEASE);
  }
  return {};
}

Result<uint64_t*> ActiveSet::count(const Group& group, uint32_t index) const {
  std::byte* const there = group.at(&words_->count, sizeof(long), set_.pe(index));
  if (there == nullptr) return Status(Code::invalid_argument);
  return reinterpret_cast<uint64_t*>(there);
}

}  // namespace penstock::symm
