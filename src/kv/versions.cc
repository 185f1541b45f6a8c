#include "versions.h"

#include <algorithm>

namespace penstock::kv {
namespace {

uint32_t version_of(std::string_view key) {
  return static_cast<uint32_t>(std::hash<std::string_view>()(key)) & (kVersionCount - 1);
}

uint32_t lock_of(uint32_t version) {
  return version & (kVersionLocks - 1);
}

void sort_unique(std::vector<uint32_t>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

}  // namespace

void Versions::Footprint::read(std::string_view key) {
  reads_.push_back(version_of(key));
}

void Versions::Footprint::write(std::string_view key) {
  writes_.push_back(version_of(key));
}

void Versions::Footprint::normalise() {
  sort_unique(reads_);
  sort_unique(writes_);
}

Versions::Guard::Guard(Versions& versions, Footprint& footprint)
    : versions_(versions), footprint_(footprint) {
  footprint.normalise();
  held_.reserve(footprint.reads_.size() + footprint.writes_.size());
  for (const uint32_t version : footprint.reads_) held_.push_back({lock_of(version), false});
  for (const uint32_t version : footprint.writes_) held_.push_back({lock_of(version), true});
  // Ascending, and of one lock the exclusive claim first, which then is the one that stays.
  std::sort(held_.begin(), held_.end(), [](const Held& a, const Held& b) {
    return a.lock != b.lock ? a.lock < b.lock : a.exclusive > b.exclusive;
  });
  held_.erase(std::unique(held_.begin(), held_.end(),
                          [](const Held& a, const Held& b) { return a.lock == b.lock; }),
              held_.end());
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
    value = std::max(value, version);
  }
}

}  // namespace penstock::kv
