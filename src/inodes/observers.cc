#include "penstock/inodes/observers.h"

#include <memory>

namespace penstock::inodes {

uint32_t Observers::add(Observer& observer) {
  const std::unique_lock lock(mutex_);
  for (uint32_t i = 0; i < kObserversMax; ++i) {
    if (slots_[i] != nullptr) continue;
    slots_[i] = &observer;
    return 1u << i;
  }
  ASSERT(false && "more than kObserversMax observers");
  return 0;
}

uint32_t Observers::remove(Observer& observer) {
  const std::unique_lock lock(mutex_);
  for (uint32_t i = 0; i < kObserversMax; ++i) {
    if (slots_[i] != &observer) continue;
    slots_[i] = nullptr;
    return 1u << i;
  }
  return 0;
}

uint32_t Observers::bit_of(const Observer& observer) const {
  const std::shared_lock lock(mutex_);
  for (uint32_t i = 0; i < kObserversMax; ++i) {
    if (slots_[i] == &observer) return 1u << i;
  }
  return 0;
}

bool Observers::concerns(uint32_t watchers, const Observer* origin) const {
  if (watchers == 0) return false;
  return (watchers & ~(origin == nullptr ? 0u : bit_of(*origin))) != 0;
}

void Observers::data_changed(uint32_t watchers, const Observer* origin, InodeId inode,
                             uint64_t offset, uint64_t length, std::function<void()> done) {
  // Runs `done` when the last reference is gone: that of this call, or of the slowest observer.
  struct Gathering {
    std::function<void()> done;
    ~Gathering() { done(); }
  };
  auto gathering = std::make_shared<Gathering>();
  gathering->done = std::move(done);
  const std::shared_lock lock(mutex_);
  for (uint32_t i = 0; i < kObserversMax; ++i) {
    Observer* observer = slots_[i];
    if ((watchers >> i & 1) == 0 || observer == nullptr || observer == origin) continue;
    // The callback object may outlive the call to it: what it holds is let go of when it is called.
    auto part = std::make_shared<std::shared_ptr<Gathering>>(gathering);
    observer->data_changed(inode, offset, length, [part] { part->reset(); });
  }
}

void Observers::entry_changed(uint32_t watchers, const Observer* origin, InodeId parent,
                              std::string_view name) {
  const std::shared_lock lock(mutex_);
  for (uint32_t i = 0; i < kObserversMax; ++i) {
    Observer* observer = slots_[i];
    if ((watchers >> i & 1) == 0 || observer == nullptr || observer == origin) continue;
    observer->entry_changed(parent, name);
  }
}

}  // namespace penstock::inodes
