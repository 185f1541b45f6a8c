#include "kernel_cache.h"

#include <algorithm>

namespace penstock::fuse {
namespace {

metrics::Counter& told_counter() {
  static metrics::Counter counter("fuse.invalidations");
  return counter;
}
metrics::Counter& late_counter() {
  static metrics::Counter counter("fuse.invalidations.late");
  return counter;
}

void call_all(std::vector<std::function<void()>>& done) {
  for (auto& each : done) each();
  done.clear();
}

}  // namespace

KernelCache::KernelCache(ChangeSource& source, KernelNotifier& notifier, CacheTiming timing)
    : source_(source), notifier_(notifier), timing_(timing) {
  source_.add(*this);
  known_[meta::kRootInode].references = 1;
  watch(meta::kRootInode);
  teller_ = std::thread([this] { tell_changes(); });
  releaser_ = std::thread([this] { release_late_changes(); });
}

KernelCache::~KernelCache() {
  end_telling();
  source_.remove(*this);
}

void KernelCache::end_telling() {
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    stopping_ = true;
  }
  work_.notify_all();
  late_.notify_all();
  entry_told_.notify_all();
  teller_.join();
  releaser_.join();
  std::deque<ChangePtr> rest;
  {
    std::lock_guard lock(mutex_);
    rest.swap(unfinished_);
    queue_.clear();
    for (auto& [inode, known] : known_) known.waiting.reset();
  }
  for (const ChangePtr& change : rest) call_all(change->done);
}

void KernelCache::watch(InodeId inode) {
  std::lock_guard serial(watch_mutex_);
  {
    std::lock_guard lock(mutex_);
    const auto found = known_.find(inode);
    if (found == known_.end() || found->second.watched) return;
  }
  source_.watch(inode, *this);
  std::lock_guard lock(mutex_);
  const auto found = known_.find(inode);
  if (found != known_.end()) found->second.watched = true;
}

void KernelCache::unwatch_if_unused(InodeId inode) {
  std::lock_guard serial(watch_mutex_);
  {
    std::lock_guard lock(mutex_);
    const auto found = known_.find(inode);
    if (found != known_.end()) {
      Known& known = found->second;
      if (known.touched || known.replies > 0 || known.waiting || known.telling) return;
      known.watched = false;
    }
  }
  source_.unwatch(inode, *this);
}

void KernelCache::touch(InodeId inode) {
  {
    std::lock_guard lock(mutex_);
    const auto found = known_.find(inode);
    if (found == known_.end()) return;
    found->second.touched = true;
    found->second.quiet = 0;
    if (found->second.watched) return;
  }
  watch(inode);
}

bool KernelCache::begin_entry(InodeId inode) {
  {
    std::lock_guard lock(mutex_);
    Known& known = known_[inode];
    known.replies++;
    known.touched = true;
    known.quiet = 0;
    if (known.watched) return false;
  }
  watch(inode);
  return true;
}

void KernelCache::end_entry(InodeId inode, bool delivered) noexcept {
  bool unused = false;
  {
    std::lock_guard lock(mutex_);
    const auto found = known_.find(inode);
    if (found == known_.end()) return;  // stopped meanwhile
    Known& known = found->second;
    known.replies--;
    if (delivered) known.references++;
    if (known.replies > 0) return;
    if (known.waiting) {
      if (!known.waiting->queued) enqueue(known.waiting);
    } else if (known.references == 0) {
      known_.erase(found);
      unused = true;
    }
  }
  if (unused) unwatch_if_unused(inode);
}

void KernelCache::forget(InodeId inode, uint64_t count) {
  if (inode == meta::kRootInode) return;
  {
    std::lock_guard lock(mutex_);
    const auto found = known_.find(inode);
    if (found == known_.end()) return;
    Known& known = found->second;
    known.references -= std::min(known.references, count);
    if (known.references > 0 || known.replies > 0) return;
    known_.erase(found);
  }
  unwatch_if_unused(inode);
}

void KernelCache::widen(Change& change, uint64_t offset, uint64_t length) {
  if (length == 0) return;
  // A range that ends beyond the largest file means: to the end.
  constexpr uint64_t kEnd = static_cast<uint64_t>(INT64_MAX);
  const uint64_t begin = std::min(offset, kEnd);
  const uint64_t end = length > kEnd - begin ? kEnd : begin + length;
  change.begin = change.has_pages ? std::min(change.begin, begin) : begin;
  change.end = change.has_pages ? std::max(change.end, end) : end;
  change.has_pages = true;
}

void KernelCache::attributes_changed(InodeId inode) {
  data_changed(inode, 0, 0, [] {});
}

// At once, as without pages the kernel takes no lock for it. False: a reply under way that tells it
// of the inode may come later with what was true before, so that it is to be told after that; or
// with `joins` it goes with another change that waits.
bool KernelCache::drop_attributes(InodeId inode, bool joins) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(inode);
    if (stopping_ || found == known_.end()) return true;
    const Known& known = found->second;
    if (known.replies > 0 || (joins && (known.waiting || known.telling))) return false;
  }
  told_counter().add();
  (void)notifier_.drop_inode(inode, -1, 0);
  return true;
}

void KernelCache::data_changed(InodeId inode, uint64_t offset, uint64_t length,
                               std::function<void()> done) {
  if (length == 0 && drop_attributes(inode, true)) return done();
  {
    std::lock_guard lock(mutex_);
    const auto found = stopping_ ? known_.end() : known_.find(inode);
    if (found != known_.end()) {
      Known& known = found->second;
      if (known.waiting) {
        widen(*known.waiting, offset, length);
        known.waiting->done.push_back(std::move(done));
        if (known.waiting->late) expect_in_time(known.waiting);
        return;
      }
      if (known.touched || known.telling || known.replies > 0) {
        auto change = std::make_shared<Change>();
        change->inode = inode;
        change->done.push_back(std::move(done));
        widen(*change, offset, length);
        known.waiting = change;
        expect_in_time(change);
        if (known.replies == 0) enqueue(change);
        return;
      }
    }
  }
  done();
}

// With other nodes the kernel keeps attributes, and pages of memory maps only. One of these may be
// locked by a read that waits for that other node, which is why nobody waits for them here. For
// attributes no lock is taken; a first reply under way may bring them, and is waited for.
void KernelCache::inode_recalled(InodeId inode, std::function<void()> done) {
  if (!drop_attributes(inode, false)) return data_changed(inode, 0, UINT64_MAX, std::move(done));
  data_changed(inode, 0, UINT64_MAX, [] {});
  done();
}

void KernelCache::entry_changed(InodeId parent, std::string_view name) {
  if (!drop_entry(parent, name, Clock::now() + timing_.deadline)) late_counter().add();
}

// The kernel itself forgets it then.
void KernelCache::entry_recalled(InodeId parent, std::string_view name, engine::Time until) {
  const auto left = until - engine::system_clock().now();
  const auto most = std::chrono::duration_cast<Clock::duration>(left);
  (void)drop_entry(parent, name, Clock::now() + std::max(most, Clock::duration::zero()));
}

// True once it is dropped, or there is nothing to drop; false: the deadline has come.
bool KernelCache::drop_entry(InodeId parent, std::string_view name, Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  const bool room = entry_told_.wait_until(
      lock, deadline, [this] { return stopping_ || entries_waiting_ < kEntryChangesMax; });
  if (stopping_ || !known_.contains(parent)) return true;
  if (!room) return false;
  auto change = std::make_shared<Change>();
  change->inode = parent;
  change->name = name;
  change->is_entry = true;
  entries_waiting_++;
  enqueue(change);
  return entry_told_.wait_until(lock, deadline, [&] { return stopping_ || change->finished; });
}

void KernelCache::expect_in_time(const ChangePtr& change) {
  change->since = Clock::now();
  change->late = false;
  unfinished_.push_back(change);
  if (releaser_idle_) late_.notify_one();
}

void KernelCache::enqueue(const ChangePtr& change) {
  change->queued = true;
  queue_.push_back(change);
  work_.notify_one();
}

void KernelCache::tell_changes() {
  for (;;) {
    ChangePtr change;
    {
      std::unique_lock lock(mutex_);
      work_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (stopping_) return;
      change = std::move(queue_.front());
      queue_.pop_front();
    }
    told_counter().add();
    if (change->is_entry) {
      tell_entry(change);
    } else {
      tell_inode(change);
    }
  }
}

void KernelCache::tell_entry(const ChangePtr& change) {
  // The kernel takes the directory's lock for this, so it cannot be in the middle of a lookup whose
  // reply was made before the change. Not knowing the name (ENOENT) is as good as dropping it.
  (void)notifier_.drop_entry(change->inode, change->name);
  (void)notifier_.drop_inode(change->inode, -1, 0);
  std::lock_guard lock(mutex_);
  entries_waiting_--;
  change->finished = true;
  entry_told_.notify_all();
}

void KernelCache::tell_inode(const ChangePtr& change) {
  bool all = false;
  {
    std::lock_guard lock(mutex_);
    const auto found = known_.find(change->inode);
    if (found != known_.end()) {
      Known& known = found->second;
      if (known.replies > 0) {
        change->queued = false;
        return;
      }
      const auto now = Clock::now();
      if (now - known.told > timing_.quiet_gap) known.quiet = 0;
      known.told = now;
      known.quiet++;
      all = change->has_pages && known.quiet > kQuietChangesMax;
      if (all) known.touched = false;
      known.telling = true;
      known.waiting.reset();
    }
  }
  // From here on no other change is added to this one.
  if (all) {
    (void)notifier_.drop_inode(change->inode, 0, 0);
  } else if (change->has_pages) {
    (void)notifier_.drop_inode(change->inode, static_cast<int64_t>(change->begin),
                               static_cast<int64_t>(change->end - change->begin));
  } else {
    (void)notifier_.drop_inode(change->inode, -1, 0);
  }
  {
    std::lock_guard lock(mutex_);
    const auto found = known_.find(change->inode);
    if (found != known_.end()) found->second.telling = false;
  }
  if (all) unwatch_if_unused(change->inode);
  finish(change);
}

void KernelCache::finish(const ChangePtr& change) {
  std::vector<std::function<void()>> done;
  {
    std::lock_guard lock(mutex_);
    change->finished = true;
    done.swap(change->done);
    while (!unfinished_.empty() && unfinished_.front()->finished) unfinished_.pop_front();
  }
  call_all(done);
}

void KernelCache::release_late_changes() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (unfinished_.empty()) {
      releaser_idle_ = true;
      late_.wait(lock);
      releaser_idle_ = false;
      continue;
    }
    const ChangePtr oldest = unfinished_.front();
    const auto deadline = oldest->since + timing_.deadline;
    if (oldest->finished) {
      unfinished_.pop_front();
    } else if (Clock::now() < deadline) {
      late_.wait_until(lock, deadline);
    } else {
      // The kernel is still told when it takes it; only the change's maker waits no longer.
      unfinished_.pop_front();
      oldest->late = true;
      std::vector<std::function<void()>> done;
      done.swap(oldest->done);
      lock.unlock();
      late_counter().add();
      log::warning("mount: the kernel did not drop inode {} within {} ms; going on without",
                   oldest->inode.value, timing_.deadline.count());
      call_all(done);
      lock.lock();
    }
  }
}

}  // namespace penstock::fuse
