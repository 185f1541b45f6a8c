// What waits for the file system's own thread: opens that were dropped, and removed files.
#pragma once

#include <memory>
#include <vector>

#include "penstock/inodes/open_file.h"

namespace penstock::inodes {

// A write that met a full disk, until what removed files have held is free.
struct RoomRequest : engine::Op {
  engine::Loop* loop = nullptr;
};

// Opens that were dropped without close_file(), until a thread that may block gives them back.
// Outlives the file system, as references to open files may.
class DropQueue final : public DroppedOpens {
 public:
  struct Dropped {
    std::shared_ptr<Inode> inode;
    bool writer = false;
  };
  void dropped(std::shared_ptr<Inode> inode, bool writer) override;
  std::vector<Dropped> take();

  // Waits for dropped opens, wake() or the time to pass. False after stop().
  bool wait(engine::Duration at_most);
  void wake();
  // Gives further removals the time to come, too: limits::kCollectCompany, unless hurry() is
  // called.
  void wait_for_company();
  void hurry();
  void stop();

  // Something is to be collected: for the thread that does. The second does not wake it. Relaxed,
  // all: what was removed is in meta, which is looked at after begin_collection().
  void want_collection();
  void want_more() { wanted_.store(true, std::memory_order_relaxed); }
  bool collection_wanted() const { return wanted_.load(std::memory_order_relaxed); }
  void begin_collection() { wanted_.store(false, std::memory_order_relaxed); }

  // Removed files whose chunks are still there, of which some may be in use. Relaxed: for people,
  // and a hint for writes that look for room.
  std::atomic<int64_t> removed{0};
  // There is a trash, of which more can be removed when a disk is full. Relaxed: a hint.
  std::atomic<bool> may_give_way{false};
  // There is a thread that collects.
  void serve() { served_.store(true, std::memory_order_relaxed); }
  // Any thread: the request completes on its loop when removed files were collected. False when
  // there is nothing to wait for: none are there, nor were any collected lately, nor is there a
  // trash.
  bool ask_for_room(RoomRequest& request, engine::Time now);
  // For the thread that collects: the requests so far, to be answered after the next round.
  // `now`: when some files were collected; nothing if none were.
  std::vector<RoomRequest*> take_room_requests();
  void answer(std::vector<RoomRequest*>& asked, engine::Time now);

 private:
  engine::Mutex mutex_;
  engine::Condition arrived_;
  std::vector<Dropped> dropped_;
  bool woken_ = false;
  bool hurried_ = false;
  bool stopped_ = false;
  std::vector<RoomRequest*> asked_;
  std::atomic<bool> wanted_{false};
  // Relaxed, both: hints.
  std::atomic<bool> served_{false};
  std::atomic<engine::Time> collected_{};
};

}  // namespace penstock::inodes
