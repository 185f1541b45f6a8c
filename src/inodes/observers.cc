#include "penstock/inodes/observers.h"

#include <memory>

namespace penstock::inodes {

uint32_t Observers::add(Observer& observer) {
  const std::unique_lock lock(mutex_);
  for (uint32_t i = 0; i < kObserversMax; ++i) {
    if (slots_[i] != nullptr) continue;
    slots_[i] = &observer;
    if (observer.hears_beginnings()) hearing_.fetch_or(1u << i);
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
    hearing_.fetch_and(~(1u << i));
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

// Each is told by `part`; `done` runs once all of them have let the change through.
void Observers::tell(uint32_t watchers, const Observer* origin, std::function<void()> done,
                     const Part& part) {
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
    auto share = std::make_shared<std::shared_ptr<Gathering>>(gathering);
    part(*observer, [share] { share->reset(); });
  }
}

void Observers::data_changed(uint32_t watchers, const Observer* origin, InodeId inode,
                             uint64_t offset, uint64_t length, std::function<void()> done) {
  tell(watchers, origin, std::move(done), [&](Observer& observer, std::function<void()> let) {
    observer.data_changed(inode, offset, length, std::move(let));
  });
}

void Observers::inode_recalled(uint32_t watchers, InodeId inode, std::function<void()> done) {
  tell(watchers, nullptr, std::move(done), [&](Observer& observer, std::function<void()> let) {
    observer.inode_recalled(inode, std::move(let));
  });
}

// Where nobody hears of it, it is only counted, in the cache line of the gate that its maker has
// just entered. Whoever watches later, and then looks, finds it counted, on the list, or over.
void Observers::begin(Change& change, Inode& inode, ByteRange range) {
  ASSERT(change.inode == nullptr && !change.linked() && !change.is_announced);
  change.inode = &inode;
  change.range = range;
  inode.changes_begun.fetch_add(1, std::memory_order_seq_cst);
  recent_.changing(inode);
  inode.unannounced.fetch_add(1, std::memory_order_seq_cst);
  const uint32_t told = inode.watchers.load(std::memory_order_seq_cst) & hearing_.load();
  if (told == 0) [[likely]]
    return;
  {
    const std::lock_guard lock(changes_mutex_);
    changes_.push_back(change);
    change.is_announced = true;
  }
  const uint32_t counted = inode.unannounced.fetch_sub(1, std::memory_order_seq_cst);
  ASSERT(counted > 0);
  const std::shared_lock lock(mutex_);
  for (uint32_t i = 0; i < kObserversMax; ++i) {
    if ((told >> i & 1) != 0 && slots_[i] != nullptr) slots_[i]->data_changing(inode.id, range);
  }
}

void Observers::end(Change& change) {
  ASSERT(change.inode != nullptr && change.linked() == change.is_announced);
  if (change.is_announced) {
    // Others look at what is on the list.
    const std::lock_guard lock(changes_mutex_);
    change.unlink();
    change.is_announced = false;
  } else {
    const uint32_t counted = change.inode->unannounced.fetch_sub(1, std::memory_order_seq_cst);
    ASSERT(counted > 0);
  }
  // After what it waits for: a change that is not counted as ended is under way.
  const uint64_t ended = change.inode->changes_ended.fetch_add(1, std::memory_order_seq_cst);
  ASSERT(ended < change.inode->changes_begun.load(std::memory_order_relaxed));
  change.inode = nullptr;
}

std::vector<ByteRange> Observers::under_way(const Inode& inode) {
  // First the count: a change that leaves it is on the list by then.
  if (inode.unannounced.load(std::memory_order_seq_cst) != 0) return {{0, UINT64_MAX}};
  std::vector<ByteRange> ranges;
  const std::lock_guard lock(changes_mutex_);
  for (Change* one = changes_.first(); one != nullptr; one = changes_.next(*one)) {
    if (one->inode == &inode) ranges.push_back(one->range);
  }
  return ranges;
}

void Observers::entry_recalled(uint32_t watchers, InodeId parent, std::string_view name,
                               engine::Time until) {
  const std::shared_lock lock(mutex_);
  for (uint32_t i = 0; i < kObserversMax; ++i) {
    const bool watches = (watchers >> i & 1) != 0 && slots_[i] != nullptr;
    if (watches) slots_[i]->entry_recalled(parent, name, until);
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
