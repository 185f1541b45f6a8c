// Makes updates durable in groups.
//
// Updates that are visible gather in one group. A group first syncs the data files that its updates
// wrote to, then commits its block maps in one KV transaction; two groups may be under way, one in
// each stage, in order. The content of the maps is taken when the sync begins, so a committed map
// never points at data that a power cut may take.
//
// Replaced blocks are retired after the commit, and every commit is on stable storage: if a power
// cut could take it back, the maps before it would point at blocks that are used for something else
// by then.
//
// An error of a sync or commit is final, since it is unknown what reached the disk: the target
// takes no updates any more, and what was not committed is forgotten.
#pragma once

#include "allocator.h"
#include "request.h"

#include <vector>

namespace penstock::store {

struct Core;

struct Group final : engine::KvOp {
  Core* core = nullptr;
  enum class Stage : uint8_t { idle, gathering, syncing, synced, committing };
  Stage stage = Stage::idle;
  bool wanted = false;     // starts as soon as the group before it has left the first stage
  bool abandoned = false;  // the target failed while its syncs were under way
  int attempts = 0;
  Status sync_status;
  uint32_t next_file = 0;
  uint32_t syncs = 0;  // in flight
  std::vector<CachedMap*> maps;
  std::vector<Extent> freed;
  std::vector<uint32_t> files;
  // The maps' keys and records as they are committed, in slots of equal size; an empty record
  // means that the key goes.
  std::vector<char> records;
  std::vector<uint16_t> lengths;
  IntrusiveList<engine::Op> waiters;
  struct FileSync : engine::DiskOp {};
  std::array<FileSync, limits::kGroupSyncs> sync_ops;
  std::array<FileSync*, limits::kGroupSyncs> idle_syncs{};

  Status body(engine::KvTransaction& transaction) override;
};

class Committer {
 public:
  explicit Committer(Core& core);
  ~Committer();

  // Part of making an update visible; all of one update without a turn of the loop in between, and
  // only while there is room().
  void add(CachedMap& map);
  void add_freed(Extent extent);
  void add_file(uint32_t file);
  bool room() const { return gathering_->maps.size() < limits::kGroupMapsMax; }
  // The update waits until there is room() and is resumed then.
  void wait_for_room(Request& request);

  // Completes `op` when everything that was added so far is committed and on stable storage.
  void wait(engine::Op& op);
  // Whether changes of the inode (InodeId{}: of any) are not committed yet.
  bool holds(InodeId inode) const;
  // Whether replaced blocks wait for a commit.
  bool holds_freed() const;
  // Commits soon what has gathered.
  void kick();
  bool idle() const;

 private:
  void start();
  void next_syncs(Group& group);
  void on_synced(Group& group, Group::FileSync& op);
  void try_commit();
  void on_committed(Group& group);
  bool try_again(Group& group);
  void encode(Group& group);
  void fail(Group& group, Status status);
  void abandon(Group& group, Status status);
  void complete_all(IntrusiveList<engine::Op>& list, Status status);
  void recycle(Group& group);
  void schedule_start();

  Core& core_;
  std::array<Group, limits::kGroups> groups_;
  Group* gathering_ = nullptr;
  Group* syncing_ = nullptr;
  Group* committing_ = nullptr;
  engine::Timer timer_;
  engine::Timer retry_timer_;  // until a commit that found no room is tried again
  engine::Op start_op_;  // runs start() in the next turn, so that one turn's updates share a group
  IntrusiveList<Request> room_waiters_;
};

}  // namespace penstock::store
