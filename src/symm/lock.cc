#include "penstock/symm/lock.h"

#include "limits.h"

#include "penstock/symm/atomics.h"

namespace penstock::symm {
namespace {

// PEs are kept plus one: 0 is nobody.
struct Words {
  uint32_t last;   // at PE 0: the end of the queue
  uint32_t place;  // whether its PE still waits, and who comes after it
};
static_assert(sizeof(Words) == sizeof(long));

constexpr uint32_t kWaits = uint32_t{1} << 31;
constexpr uint32_t kHas = uint32_t{1} << 30;
static_assert(limits::kPesMax < kHas);
constexpr uint32_t kHome = 0;

// The words of this PE, which are symmetric; null where they are not, or no long's.
Words* words_of(const Group& group, long* lock) {
  const bool is_there = group.at(lock, sizeof *lock, group.me()) != nullptr &&
                        reinterpret_cast<uintptr_t>(lock) % alignof(long) == 0;
  return is_there ? reinterpret_cast<Words*>(lock) : nullptr;
}

bool has(const Words* own) {
  return (__atomic_load_n(&own->place, __ATOMIC_RELAXED) & kHas) != 0;
}

}  // namespace

Status set_lock(Group& group, long* lock) {
  Words* const own = words_of(group, lock);
  if (own == nullptr) return Code::invalid_argument;
  if (has(own)) return Code::in_use;
  __atomic_store_n(&own->place, kWaits, __ATOMIC_RELAXED);
  TRY_ASSIGN(const uint32_t before, atomic_swap(group, &own->last, group.me() + 1, kHome));
  if (before != 0) {
    if (before > group.size()) return Code::invalid_argument;
    TRY_ASSIGN([[maybe_unused]] const uint32_t theirs,
               atomic_fetch_or(group, &own->place, group.me() + 1, before - 1));
    TRY(group.wait([&] { return (__atomic_load_n(&own->place, __ATOMIC_ACQUIRE) & kWaits) == 0; }));
  }
  __atomic_fetch_or(&own->place, kHas, __ATOMIC_RELAXED);
  return {};
}

Result<bool> test_lock(Group& group, long* lock) {
  Words* const own = words_of(group, lock);
  if (own == nullptr) return Status(Code::invalid_argument);
  TRY_ASSIGN(const uint32_t last, atomic_fetch(group, &own->last, kHome));
  if (last != 0) return false;
  __atomic_store_n(&own->place, 0, __ATOMIC_RELAXED);
  TRY_ASSIGN(const uint32_t before,
             atomic_compare_swap(group, &own->last, uint32_t{0}, group.me() + 1, kHome));
  if (before != 0) return false;
  __atomic_fetch_or(&own->place, kHas, __ATOMIC_RELAXED);
  return true;
}

Status clear_lock(Group& group, long* lock) {
  Words* const own = words_of(group, lock);
  if (own == nullptr) return Code::invalid_argument;
  if (!has(own)) return Code::not_permitted;
  TRY(group.quiet());
  const auto next = [&] {
    return __atomic_load_n(&own->place, __ATOMIC_ACQUIRE) & ~(kWaits | kHas);
  };
  if (next() == 0) {
    const uint32_t me = group.me() + 1;
    TRY_ASSIGN(const uint32_t last, atomic_compare_swap(group, &own->last, me, uint32_t{0}, kHome));
    if (last == me) {
      __atomic_store_n(&own->place, 0, __ATOMIC_RELAXED);
      return {};
    }
    // Somebody has taken the end of the queue, and is about to say who.
    TRY(group.wait([&] { return next() != 0; }));
  }
  const uint32_t pe = next() - 1;
  if (pe >= group.size()) return Code::invalid_argument;
  __atomic_store_n(&own->place, 0, __ATOMIC_RELAXED);
  TRY_ASSIGN([[maybe_unused]] const uint32_t theirs,
             atomic_fetch_and(group, &own->place, ~kWaits, pe));
  return {};
}

}  // namespace penstock::symm
