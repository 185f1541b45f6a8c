#include "penstock/symm/lock.h"

#include "limits.h"

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

Words* words_of(Group& group, long* lock, uint32_t pe) {
  return reinterpret_cast<Words*>(group.at(lock, sizeof *lock, pe));
}

// What is used of a lock by one call; ok only where both can be reached.
struct Reached {
  Words* home;
  Words* own;
};

Result<Reached> reach(Group& group, long* lock) {
  const Reached reached = {words_of(group, lock, kHome), words_of(group, lock, group.me())};
  if (reached.home == nullptr || reached.own == nullptr) return Status(Code::invalid_argument);
  return reached;
}

bool has(const Reached& words) {
  return (__atomic_load_n(&words.own->place, __ATOMIC_RELAXED) & kHas) != 0;
}

}  // namespace

Status set_lock(Group& group, long* lock) {
  TRY_ASSIGN(const Reached words, reach(group, lock));
  if (has(words)) return Code::in_use;
  __atomic_store_n(&words.own->place, kWaits, __ATOMIC_RELAXED);
  const uint32_t before = __atomic_exchange_n(&words.home->last, group.me() + 1, __ATOMIC_ACQ_REL);
  if (before != 0) {
    if (before > group.size()) return Code::invalid_argument;
    Words* const there = words_of(group, lock, before - 1);
    __atomic_fetch_or(&there->place, group.me() + 1, __ATOMIC_ACQ_REL);
    TRY(group.wait(
        [&] { return (__atomic_load_n(&words.own->place, __ATOMIC_ACQUIRE) & kWaits) == 0; }));
  }
  __atomic_fetch_or(&words.own->place, kHas, __ATOMIC_RELAXED);
  return {};
}

Result<bool> test_lock(Group& group, long* lock) {
  TRY_ASSIGN(const Reached words, reach(group, lock));
  if (__atomic_load_n(&words.home->last, __ATOMIC_RELAXED) != 0) return false;
  __atomic_store_n(&words.own->place, 0, __ATOMIC_RELAXED);
  uint32_t nobody = 0;
  if (!__atomic_compare_exchange_n(&words.home->last, &nobody, group.me() + 1, false,
                                   __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
    return false;
  }
  __atomic_fetch_or(&words.own->place, kHas, __ATOMIC_RELAXED);
  return true;
}

Status clear_lock(Group& group, long* lock) {
  TRY_ASSIGN(const Reached words, reach(group, lock));
  if (!has(words)) return Code::not_permitted;
  group.quiet();
  const auto next = [&] {
    return __atomic_load_n(&words.own->place, __ATOMIC_ACQUIRE) & ~(kWaits | kHas);
  };
  if (next() == 0) {
    uint32_t own = group.me() + 1;
    if (__atomic_compare_exchange_n(&words.home->last, &own, 0, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_RELAXED)) {
      __atomic_store_n(&words.own->place, 0, __ATOMIC_RELAXED);
      return {};
    }
    // Somebody has taken the end of the queue, and is about to say who.
    TRY(group.wait([&] { return next() != 0; }));
  }
  const uint32_t pe = next() - 1;
  if (pe >= group.size()) return Code::invalid_argument;
  __atomic_store_n(&words.own->place, 0, __ATOMIC_RELAXED);
  __atomic_fetch_and(&words_of(group, lock, pe)->place, ~kWaits, __ATOMIC_ACQ_REL);
  return {};
}

}  // namespace penstock::symm
