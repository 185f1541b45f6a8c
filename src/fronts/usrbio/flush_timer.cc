#include "flush_timer.h"

#include "penstock.h"

#include <chrono>

#include "penstock/base.h"

namespace penstock::usrbio {

FlushTimer::Entry* FlushTimer::find(const Flushable& ring) {
  for (Entry& entry : entries_) {
    if (entry.ring == &ring) return &entry;
  }
  return nullptr;
}

FlushTimer::Entry* FlushTimer::earliest() {
  Entry* first = nullptr;
  for (Entry& entry : entries_) {
    if (entry.time != 0 && (first == nullptr || entry.time < first->time)) first = &entry;
  }
  return first;
}

bool FlushTimer::add(Flushable& ring) {
  const std::lock_guard lock(mutex_);
  if (!started_) {
    Outcome<std::thread> thread =
        start_thread("the thread for the time-outs of rings", [this] { run(); });
    if (!thread) {
      log::warning("usrbio: {}", thread.error().message);
      return false;
    }
    thread->detach();
    started_ = true;
  }
  entries_.push_back({&ring, 0});
  return true;
}

void FlushTimer::remove(Flushable& ring) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return calling_ != &ring; });
  std::erase_if(entries_, [&](const Entry& entry) { return entry.ring == &ring; });
}

void FlushTimer::arm(Flushable& ring, uint64_t time) {
  const std::lock_guard lock(mutex_);
  Entry* entry = find(ring);
  if (entry == nullptr || (entry->time != 0 && entry->time <= time)) return;
  entry->time = time;
  changed_.notify_all();
}

void FlushTimer::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    const Entry* next = earliest();
    if (next == nullptr) {
      changed_.wait(lock);
      continue;
    }
    const uint64_t now = penstock_now();
    if (next->time > now) {
      changed_.wait_for(lock, std::chrono::nanoseconds(next->time - now));
      continue;
    }
    Flushable& ring = *next->ring;
    find(ring)->time = 0;
    calling_ = &ring;
    lock.unlock();
    const uint64_t again = ring.flush(now);
    lock.lock();
    calling_ = nullptr;
    Entry* entry = find(ring);
    if (again != 0 && entry != nullptr && (entry->time == 0 || again < entry->time)) {
      entry->time = again;
    }
    changed_.notify_all();
  }
}

}  // namespace penstock::usrbio
