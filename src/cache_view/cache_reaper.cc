#include "penstock/cache_view/cache_reaper.h"

#include "limits.h"

#include <condition_variable>
#include <thread>
#include <vector>

#include "penstock/cache_view/cache_map.h"
#include "penstock/connection.h"

namespace penstock::cache_view {

struct CacheReaper::Work {
  std::mutex mutex;
  std::condition_variable ended;  // running is false
  std::vector<std::unique_ptr<CacheView>> views;
  uint32_t holds = 0;
  bool running = false;  // there is a thread, which will look at the views once more
};

CacheReaper::CacheReaper() : work_(std::make_shared<Work>()) {}

CacheReaper::~CacheReaper() {
  std::unique_lock lock(work_->mutex);
  const bool ended =
      work_->ended.wait_for(lock, limits::kReapWait, [this] { return !work_->running; });
  if (!ended) {
    log::warning("the node cache's memory stays pinned until the kernels that run have ended");
  } else if (work_->holds > 0) {
    // A kernel may use a ring that was left behind.
    for (std::unique_ptr<CacheView>& view : work_->views) connection::leave_behind(std::move(view));
    work_->views.clear();
    log::warning("the node cache's memory stays pinned, as rings for kernels were left behind");
  }
}

std::shared_ptr<CacheView> CacheReaper::keep(std::unique_ptr<CacheView> view) {
  return {view.release(),
          [work = work_](CacheView* unused) { take(work, std::unique_ptr<CacheView>(unused)); }};
}

void CacheReaper::take(const std::shared_ptr<Work>& work, std::unique_ptr<CacheView> view) {
  const std::lock_guard lock(work->mutex);
  work->views.push_back(std::move(view));
  if (work->holds > 0) {
    log::info("a node cache that is gone stays pinned while there are rings for kernels");
  }
  start(work);
}

bool CacheReaper::hold() {
  std::unique_lock lock(work_->mutex);
  ++work_->holds;
  if (work_->ended.wait_for(lock, limits::kReapWait, [this] { return !work_->running; }))
    return true;
  --work_->holds;
  return false;
}

void CacheReaper::let_go() {
  const std::lock_guard lock(work_->mutex);
  --work_->holds;
  start(work_);
}

// With the mutex held.
void CacheReaper::start(const std::shared_ptr<Work>& work) {
  if (work->holds > 0 || work->views.empty() || std::exchange(work->running, true)) return;
  Outcome<std::thread> started =
      start_thread("the thread that unpins caches", [work] { run(work); });
  if (started) {
    started->detach();
  } else {
    // The view stays until the next one comes, or the session ends.
    work->running = false;
    log::warning("{}", started.error().message);
  }
}

void CacheReaper::run(const std::shared_ptr<Work>& work) {
  std::unique_lock lock(work->mutex);
  while (!work->views.empty() && work->holds == 0) {
    std::unique_ptr<CacheView> view = std::move(work->views.back());
    work->views.pop_back();
    lock.unlock();
    view.reset();
    lock.lock();
  }
  work->running = false;
  work->ended.notify_all();
}

}  // namespace penstock::cache_view
