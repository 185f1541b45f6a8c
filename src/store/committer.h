// Makes updates durable in groups.
//
// Updates that are visible gather in one group. A group first syncs the data files that its updates
// wrote to, then commits its block maps in one KV transaction. Several groups may be under way;
// they enter the second stage in order, overlap there only if they share no map and only one has
// records of chains, and end in order.
// The content of the maps is taken when the sync begins, so a committed map never points at data
// that a power cut may take.
//
// Small updates gather while a sync is under way, so that many share the next one; what fills a
// group by itself need not wait.
//
// Replaced blocks are retired after the commit, and every commit is on stable storage: if a power
// cut could take it back, the maps before it would point at blocks that are used for something else
// by then.
//
// A commit that finds no room in the KV store has had no effect that counts, and is tried again
// until there is some, or the target is closed. When that takes long the target is full(): an
// operation that waits for a commit is told so, and no new writes are taken. What they had made
// visible stays visible.
//
// Where the target has a log (write_log.h), each group carries the mark that says which of the
// logged writes its maps hold. A transaction with a new mark is alone: others end before it begins.
//
// Any other error of a sync or commit is final, since it is unknown what reached the disk: the
// target takes no updates any more, and what was not committed is forgotten.
#pragma once

#include "allocator.h"
#include "log_record.h"
#include "request.h"

#include <bitset>
#include <map>
#include <string>
#include <vector>

namespace penstock::store {

struct Core;

// What is committed of chunks of chains beside their block maps; an empty value: the key goes.
struct ChainRecord {
  std::string key;
  std::string value;
};

struct Group final : engine::KvOp {
  Core* core = nullptr;
  enum class Stage : uint8_t { idle, gathering, syncing, synced, committing, committed, failed };
  Stage stage = Stage::idle;
  bool wanted = false;     // an operation waits for it, or it is large or old enough
  bool abandoned = false;  // the target failed while its syncs were under way
  int attempts = 0;
  Status sync_status;
  uint32_t next_file = 0;
  uint32_t syncs = 0;           // in flight
  uint32_t new_blocks = 0;      // written by its updates
  Group* batch_next = nullptr;  // committed in the same transaction, that of the first
  std::vector<CachedMap*> maps;
  std::vector<BlockRun> freed;
  std::map<std::string, std::string> chain_records;  // by key, the newest each
  std::vector<ChainChunk> chain_chunks;              // whose changes these are
  uint64_t chain_bytes = 0;
  std::vector<uint32_t> files;
  // Inodes and chunks with changes that are not in the log, by hash: the next plain writes of such
  // inodes and the next prepares of such chunks are not either.
  std::bitset<limits::kGroupInodes> unlogged;
  std::bitset<limits::kGroupInodes> unlogged_chunks;
  // Where the log begins once this is committed.
  std::optional<LogMark> mark;
  // Failed writes with their status, which end when the log does not hold them any more.
  IntrusiveList<engine::Op> doomed;
  // The maps' keys and records as they are committed, one behind the other, and how long each
  // record is; an empty one means that the key goes.
  std::vector<char> records;
  std::vector<uint16_t> lengths;
  IntrusiveList<engine::Op> waiters;
  struct FileSync : engine::DiskOp {};
  std::array<FileSync, limits::kGroupSyncs> sync_ops;
  std::array<FileSync*, limits::kGroupSyncs> idle_syncs{};

  bool has_changes() const { return !maps.empty() || !chain_records.empty(); }
  Status body(engine::KvTransaction& transaction) override;
  void write(engine::KvTransaction& transaction) const;
  void encode(CachedMap& map);
  void append(const EncodedMapKey& key, std::string_view record);
};

class Committer {
 public:
  explicit Committer(Core& core);
  ~Committer();

  // Part of making an update visible; all of one update without a turn of the loop in between, and
  // only while there is room().
  void add(CachedMap& map);
  void add_freed(BlockRun run);
  void add_block(BlockNumber physical);
  void add_chain_records(const ChainChunk& at, std::vector<ChainRecord> records);
  bool room() const {
    return gathering_->maps.size() < limits::kGroupMapsMax &&
           gathering_->chain_bytes < limits::kGroupChainBytes;
  }
  // The update waits until there is room() and is resumed then.
  void wait_for_room(Request& request);

  // The change of this chunk that was just added is in no record of the log.
  void note_unlogged(const ChainChunk& at);
  // It is a commit of a chain, or something pending was forgotten: the next prepare says so itself.
  void note_chain_commit(InodeId inode) { gathering_->unlogged.set(bit_of(inode)); }
  // Whether the inode, or the chunk, may have changes that are neither committed nor in the log.
  bool holds_unlogged(InodeId inode) const;
  bool holds_unlogged(const ChainChunk& at) const;
  // Commits find no room at this moment.
  bool lacks_space() const { return no_space_since_ != engine::kNever; }
  // Completes `op` with `status` when a mark behind all that is in the log now is committed.
  void wait_for_mark(engine::Op& op, Status status);

  // Completes `op` when everything that was added so far is committed and on stable storage.
  void wait(engine::Op& op);
  // Whether changes of the inode (InodeId{}: of any), or of the chunk's maps, are not committed
  // yet.
  bool holds(InodeId inode) const;
  bool holds(const ChainChunk& at) const;
  // Whether replaced blocks wait for a commit.
  bool holds_freed() const;
  // Commits have found no room for a while, and wait for some.
  bool full() const { return full_; }
  // Commits soon what has gathered.
  void kick();
  // What has become visible cannot be committed: the target takes no updates any more.
  void fail(Status status);
  // Called by the log when start() need not wait for it any more.
  void start_later() { schedule_start(); }
  bool idle() const;

 private:
  static size_t bit_of(InodeId inode) { return mix64(inode.value) % limits::kGroupInodes; }
  static size_t bit_of(const ChainChunk& at);
  bool nothing_to_commit() const;
  void start();
  void next_syncs(Group& group);
  void on_synced(Group& group, Group::FileSync& op);
  void commit_ready();
  Group* take_batch();
  bool ready(const Group& group) const;
  void on_group_committed(Group& group);
  void on_committed(Group& group);
  bool try_again(Group& group);
  void wait_for_space(Group& group);
  void retry();
  void become_full();
  void found_space();
  void end_committed();
  void end_doomed(Group& group);
  void encode(Group& group);
  void begin_group();
  void report_failure(Status status, const char* what);
  void begin_failure(Group& group, Status status);
  void finish_failure();
  void abandon(Group& group, Status status);
  void complete_all(IntrusiveList<engine::Op>& list, Status status);
  void recycle(Group& group);
  void schedule_start();
  Group* idle_group();

  Core& core_;
  std::array<Group, limits::kGroups> groups_;
  Group* gathering_ = nullptr;
  std::vector<Group*> queue_;       // under way, oldest first
  size_t submitted_ = 0;            // so many of them have entered the second stage
  uint32_t syncing_ = 0;            // groups in the first stage
  uint32_t committing_ = 0;         // in the second
  bool committing_chains_ = false;  // one of these transactions has records of chains
  std::vector<Group*> retrying_;    // first ones of batches that wait for room in the KV store
  engine::Time no_space_since_ = engine::kNever;
  bool full_ = false;
  engine::Timer timer_;
  engine::Timer retry_timer_;  // until a commit that found no room is tried again
  engine::Op start_op_;  // runs start() in the next turn, so that one turn's updates share a group
  IntrusiveList<Request> room_waiters_;
};

}  // namespace penstock::store
