#include "trash_keeper.h"

#include "limits.h"

#include <algorithm>

namespace penstock::client {
namespace {

Credentials trash_owner() {
  Credentials unchecked;
  unchecked.enforce = false;
  return unchecked;
}

engine::Duration between(engine::WallTime from, engine::WallTime to) {
  return engine::Duration(to.nanoseconds - from.nanoseconds);
}

}  // namespace

bool TrashClock::is_believed(std::optional<engine::WallTime> newest) {
  // Goes on while the machine is suspended, as the wall clock does.
  const engine::Time now = clock_.lease_now();
  const engine::WallTime wall = clock_.wall();
  ASSERT(!was_asked_ || now >= asked_);
  bool has_jumped = false;
  if (was_asked_) {
    const engine::Duration apart = between(wall_, wall) - (now - asked_);
    has_jumped = std::chrono::abs(apart) > limits::kTrashClockJump;
  } else if (newest) {
    has_jumped = std::chrono::abs(between(*newest, wall)) > limits::kTrashClockAway;
  }
  was_asked_ = true;
  asked_ = now;
  wall_ = wall;
  if (has_jumped) {
    believed_from_ = now + limits::kTrashClockTrust;
    log::info(
        "trash: the clock is not where it was expected; nothing is removed before it has run for "
        "an hour");
  }
  return now >= believed_from_;
}

TrashKeeper::TrashKeeper(Core& core, Names& names, Collector& collector)
    : core_(core), names_(names), clock_(core.clock()) {
  if (!core.config.owns_recovery) return;
  collector.set_trash(
      {.give_way = [this] { return give_way_now(); }, .round = [this] { start(); }});
}

void TrashKeeper::start() {
  if (!core_.config.owns_recovery || !core_.meta.has_trash()) return;
  if (runs_.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(mutex_);
  if (is_stopping_ || runs_.exchange(true, std::memory_order_relaxed)) return;
  thread_ = engine::Thread("penstock-trash", [this] { run(); });
}

void TrashKeeper::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool TrashKeeper::pause(engine::Duration time) {
  std::unique_lock lock(mutex_);
  wake_.wait_for(lock, time, [this] { return is_stopping_; });
  return !is_stopping_;
}

void TrashKeeper::run() {
  engine::Duration next = limits::kTrashFirstLook;
  while (pause(next)) {
    look();
    next = limits::kTrashLook;
  }
}

std::vector<TrashKeeper::Hour> TrashKeeper::hours() const {
  std::vector<Hour> all;
  const auto top = core_.meta.lookup(trash_owner(), meta::kRootInode, meta::kTrashName);
  if (!top || top->type != meta::FileType::directory) return all;
  const Status read = core_.meta.read_directory(
      top->inode, 0, SIZE_MAX, false, [&](const meta::DirectoryEntry& entry, const Attributes*) {
        const auto hour = meta::parse_trash_hour(entry.name);
        if (hour && entry.type == meta::FileType::directory) all.push_back({*hour, entry.inode});
        return true;
      });
  if (!read.ok()) return {};
  std::sort(all.begin(), all.end(), [](const Hour& a, const Hour& b) { return a.hour < b.hour; });
  return all;
}

void TrashKeeper::look() {
  const std::vector<Hour> all = hours();
  core_.drops->may_give_way.store(!all.empty(), std::memory_order_relaxed);
  std::optional<engine::WallTime> newest;
  if (!all.empty()) newest = meta::over_at({all.back().hour.hour, 0});
  const bool is_believed = clock_.is_believed(newest);
  Status status;
  for (const Hour& hour : all) {
    if (!is_believed || meta::over_at(hour.hour) > core_.clock().wall()) continue;
    status = empty(hour, [] { return false; });
    if (!status.ok()) break;
  }
  // Once for each kind of trouble: it is tried again at the next look.
  if (!status.ok() && status != last_ && status != Code::closed) {
    log::error("trash: removing what is over: {}; it is tried again later", status.name());
  }
  last_ = status;
  if (status.ok() && !is_free(limits::kTrashGivesWay)) give_way(hours());
}

Status TrashKeeper::empty(const Hour& hour, const std::function<bool()>& enough) {
  ASSERT(hour.inode != InodeId() && enough != nullptr);
  uint64_t after = 0;
  while (!enough()) {
    TRY(core_.check_open());
    const engine::Time began = core_.clock().now();
    const auto step = names_.empty_trash(hour.inode, after, limits::kTrashBatch);
    if (!step && step.error() == Code::not_found) return Code::ok;
    if (!step) return step.error();
    if (step->finished) return Code::ok;
    ASSERT(step->last > after);
    after = step->last;
    // As long as it took, so that others get half of what there is at least.
    const engine::Duration took = core_.clock().now() - began;
    if (!pause(std::max<engine::Duration>(took, limits::kTrashPause))) return Code::closed;
    if (!wait_for_collector()) return Code::closed;
  }
  return Code::ok;
}

bool TrashKeeper::wait_for_collector() {
  while (waiting() > limits::kTrashWaitingMax) {
    if (!pause(std::chrono::milliseconds(100))) return false;
  }
  return true;
}

bool TrashKeeper::is_free(uint64_t one_in) const {
  ASSERT(one_in > 0);
  if (!core_.config.space) return true;
  const engine::DiskSpace space = core_.config.space();
  return space.total_bytes == 0 || space.free_bytes >= space.total_bytes / one_in;
}

void TrashKeeper::give_way(const std::vector<Hour>& all) {
  if (all.empty()) return;
  log::warning(
      "trash: less than 1/{} of the disks is free: the oldest of it is removed before its time",
      limits::kTrashGivesWay);
  for (const Hour& hour : all) {
    // What was removed makes room when it is collected.
    const Status status = empty(hour, [this] {
      for (int i = 0; i < 10 && waiting() > 0; ++i) {
        if (!pause(std::chrono::milliseconds(100))) return true;
      }
      return is_free(limits::kTrashGaveWay);
    });
    if (!status.ok() || is_free(limits::kTrashGaveWay)) return;
  }
}

bool TrashKeeper::give_way_now() {
  for (const Hour& hour : hours()) {
    const auto step = names_.empty_trash(hour.inode, 0, limits::kCollectBatch);
    if (!step) return false;
    if (step->removed == 0) continue;
    log::warning("trash: a disk is full: {} entries of {} are removed before their time",
                 step->removed, meta::name_of(hour.hour));
    return true;
  }
  core_.drops->may_give_way.store(false, std::memory_order_relaxed);
  return false;
}

}  // namespace penstock::client
