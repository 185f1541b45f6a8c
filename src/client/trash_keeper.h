// Removes what has lain in the trash for as long as it was to, and more of it when the disk is
// full: docs/decisions/0068-trash.md.
#pragma once

#include "collector.h"
#include "names.h"

#include <optional>
#include <vector>

namespace penstock::client {

// Whether the wall clock may be believed when it says that something is over. For one thread.
class TrashClock {
 public:
  explicit TrashClock(const engine::Clock& clock) : clock_(clock) {}
  // To be asked regularly. `newest`: when something was put into the trash last, as far as is
  // known.
  bool is_believed(std::optional<engine::WallTime> newest);

 private:
  const engine::Clock& clock_;
  bool was_asked_ = false;
  engine::Time asked_{};
  engine::WallTime wall_;
  engine::Time believed_from_{};
};

// For the file system that owns recovery. A thread of its own removes, a batch at a time; there is
// none before there is a trash.
class TrashKeeper {
 public:
  TrashKeeper(Core& core, Names& names, Collector& collector);
  ~TrashKeeper() { stop(); }

  // If there is a trash, once. Thread safe.
  void start();
  // For good. Idempotent. What is over is left to the next life of the process.
  void stop();

 private:
  struct Hour {
    meta::TrashHour hour;
    InodeId inode;
  };
  void run();
  void look();
  // In the order of their hours; nothing if there is no trash, or it cannot be read.
  std::vector<Hour> hours() const;
  // Whether so many parts of the disks are free.
  bool is_free(uint64_t one_in) const;
  // All of an hour, or until `enough`.
  Status empty(const Hour& hour, const std::function<bool()>& enough);
  void give_way(const std::vector<Hour>& all);
  // For a write that found no room: a batch of the oldest. False if there is none.
  bool give_way_now();
  // False when it is to stop.
  bool pause(engine::Duration time);
  bool wait_for_collector();
  int64_t waiting() const { return core_.drops->removed.load(std::memory_order_relaxed); }

  Core& core_;
  Names& names_;
  TrashClock clock_;
  engine::Mutex mutex_;
  engine::Condition wake_;
  bool is_stopping_ = false;        // under the mutex
  std::atomic<bool> runs_ = false;  // relaxed: set once, under the mutex
  Status last_;                     // of the thread: what failed before
  engine::Thread thread_;
};

}  // namespace penstock::client
