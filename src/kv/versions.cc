#include "versions.h"

#include <algorithm>
#include <array>
#include <bit>

namespace penstock::kv {
namespace {

uint32_t version_of(std::string_view key) {
  return static_cast<uint32_t>(std::hash<std::string_view>()(key)) & (kVersionCount - 1);
}

uint32_t lock_of(uint32_t version) {
  return version & (kVersionLocks - 1);
}

// A set of locks, walked in ascending order. Sorting their numbers instead would cost a commit of
// hundreds of records more than the locks do.
class LockSet {
 public:
  void add(uint32_t lock) {
    ASSERT(lock < kVersionLocks);
    words_[lock / kWordBits] |= uint64_t{1} << lock % kWordBits;
  }
  bool contains(uint32_t lock) const { return (words_[lock / kWordBits] >> lock % kWordBits) & 1; }
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (uint32_t i = 0; i < words_.size(); ++i) {
      for (uint64_t left = words_[i]; left != 0; left &= left - 1) {
        visit(i * kWordBits + static_cast<uint32_t>(std::countr_zero(left)));
      }
    }
  }

 private:
  static constexpr uint32_t kWordBits = 64;
  static_assert(kVersionLocks % kWordBits == 0);
  std::array<uint64_t, kVersionLocks / kWordBits> words_{};
};

}  // namespace

void Versions::Footprint::read(std::string_view key) {
  reads_.push_back(version_of(key));
}

void Versions::Footprint::write(std::string_view key) {
  writes_.push_back(version_of(key));
}

Versions::Guard::Guard(Versions& versions, const Footprint& footprint)
    : versions_(versions), footprint_(footprint) {
  LockSet all;
  LockSet exclusive;
  for (const uint32_t version : footprint.reads_) all.add(lock_of(version));
  for (const uint32_t version : footprint.writes_) {
    all.add(lock_of(version));
    exclusive.add(lock_of(version));
  }
  held_.reserve(
      std::min<size_t>(footprint.reads_.size() + footprint.writes_.size(), kVersionLocks));
  all.for_each([&](uint32_t lock) { held_.push_back({lock, exclusive.contains(lock)}); });
  // In one order for all, each once: else two commits could wait for each other.
  ASSERT(std::adjacent_find(held_.begin(), held_.end(), [](const Held& a, const Held& b) {
           return a.lock >= b.lock;
         }) == held_.end());
  for (const Held& held : held_) {
    FairLock& mutex = versions_.locks_[held.lock];
    if (held.exclusive) {
      mutex.lock();
    } else {
      mutex.lock_shared();
    }
  }
}

Versions::Guard::~Guard() {
  for (const Held& held : held_) {
    FairLock& mutex = versions_.locks_[held.lock];
    if (held.exclusive) {
      mutex.unlock();
    } else {
      mutex.unlock_shared();
    }
  }
}

bool Versions::Guard::unchanged_since(Version snapshot) const {
  return std::all_of(footprint_.reads_.begin(), footprint_.reads_.end(),
                     [&](uint32_t version) { return versions_.values_[version] <= snapshot; });
}

void Versions::Guard::raise(Version version) {
  for (const uint32_t written : footprint_.writes_) {
    Version& value = versions_.values_[written];
    DASSERT(std::any_of(held_.begin(), held_.end(), [&](const Held& held) {
      return held.lock == lock_of(written) && held.exclusive;
    }));
    value = std::max(value, version);
  }
}

}  // namespace penstock::kv
