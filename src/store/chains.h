// A target's chunks as copies in chains (penstock/chain_store.h, decision 0045): who waits for whom
// on a chunk, what is pending, names and slots. How updates reach the disk is in chain_updates.h.
//
// What is asked of a chunk begins in the order in which it was asked. Reads and looks let a prepare
// work beside them, since it changes nothing that they see. A commit waits until the reads before
// it have their snapshot; what comes behind it waits for its instant, which is at once where the
// maps are in memory.
#pragma once

#include "chain_records.h"
#include "request.h"
#include "update_effect.h"

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>

namespace penstock::store {

class Chains;
struct ChainEntry;
struct Core;

enum class ChainTaskKind : uint8_t {
  look,
  read,
  read_pending,
  prepare,
  commit,
  forget,
  replace,
  heal,
};

// Whether it begins when nothing else of its chunk is under way, and nothing else does meanwhile.
constexpr bool is_alone(ChainTaskKind kind) {
  return kind == ChainTaskKind::commit || kind == ChainTaskKind::replace ||
         kind == ChainTaskKind::heal;
}

// One operation on a chunk, from when it is asked until it has ended.
struct ChainTask {
  ChainTaskKind kind = ChainTaskKind::look;
  Chains* chains = nullptr;
  ChainEntry* entry = nullptr;
  engine::Op* op = nullptr;    // the caller's; commits have none
  Request* request = nullptr;  // while there is one
  // Of prepares and replacements, and of the pending update that is committed.
  std::shared_ptr<PendingRecord> update;
  engine::MemoryRef bytes;
  std::optional<UpdateEffect> effect;
  struct Write {
    uint32_t block = 0;     // of the chunk
    bool combines = false;  // with what the block was before
    bool whole = false;     // the update says what all of its bytes are
    bool lost = false;      // not all of its bytes are known: it is not to verify
    uint32_t given = 0;     // of a heal: which of its blocks
  };
  std::vector<Write> writes;
  engine::Op durable;  // waits for the log or the group
  int attempts = 0;
  // Of a prepare that the log may take: the bytes of its blocks until it has joined, and what the
  // database is to have of it.
  std::vector<std::byte> log_bytes;
  std::string record;
  bool doomed = false;  // it failed, and a crash may bring it back: it ends with a mark of the log
  bool keep_damage = false;
  // Of replacements.
  ChunkState state;
  std::vector<SlotRecord> slots;
  // Of replacements, those whose bytes are lost; of heals, those that are written anew. In order.
  std::vector<uint32_t> blocks;
  // Of reads.
  ReadOp read;
  bool has_snapshot = false;
  size_t part = 0;     // of a pending update, which one is being read
  uint64_t taken = 0;  // bytes of those before
  uint8_t epoch = 0;   // of Reclaim, while a pending update is read
};

// Whether the log may take it, by its size; once it is known which blocks it writes. Not what takes
// a chunk's name away: entries go by names that count on.
inline bool is_small(const ChainTask& task) {
  return task.kind == ChainTaskKind::prepare &&
         task.request->new_blocks <= limits::kLogChainBlocks && !drops(task.update->parts);
}

// The name of a chunk of which a target has bytes, but no update of a chain: written while its
// target was the only copy. No update has it.
inline constexpr UpdateName kUnnamed{0, 1, {}};

// Where a chunk's bytes end, by its block maps in the database.
Result<uint32_t> length_by_maps(engine::KvTransaction& transaction, const ChainChunk& at);

// Reads one chunk record, or where there is none, how far the block maps go.
struct ChainLoad final : engine::KvOp {
  ChainChunk at;
  std::optional<ChunkState> state;  // out
  uint32_t length = 0;              // out, without a state; 0: there are no maps
  engine::Op flush;                 // of maps that the database does not know yet
  bool flushed = false;
  Status body(engine::KvTransaction& transaction) override;
};

// A chunk that is in use, or was of late.
struct ChainEntry : ListNode {
  ChainChunk at;
  bool known = false;     // the next two are
  bool recorded = false;  // there is a chunk record
  ChunkState state;
  std::shared_ptr<PendingRecord> pending;
  std::deque<ChainTask*> waiting;  // begin in this order
  uint32_t reads = 0;              // have begun and have no snapshot yet
  bool preparing = false;          // a prepare has begun and is not pending yet
  bool exclusive = false;          // what is_alone() has begun; nothing else may
  uint32_t unsaved = 0;            // groups that have records of it
  bool loading = false;
  ChainLoad load;
};

// Some chunk records of a chain.
struct ChainList final : engine::KvOp {
  ListOp* op = nullptr;
  size_t limit = 0;
  engine::Op flush;
  std::vector<ListEntry> found;  // out
  // What the database did not know of when this began; no name: the chunk has no record.
  std::map<ChunkId, std::optional<ChunkState>> newer;
  Status body(engine::KvTransaction& transaction) override;

 private:
  Status add_recorded(engine::KvTransaction& transaction, std::map<ChunkId, ChunkState>& all) const;
  Status add_unnamed(engine::KvTransaction& transaction, std::map<ChunkId, ChunkState>& all) const;
};

class Chains final : public ChainStore {
 public:
  explicit Chains(Core& core) : core_(core) {}
  ~Chains() override;

  // Reads slots and pending updates, and takes the blocks of these. Blocking, before the loop runs.
  // On an error `bad` says what could not be read.
  Status load(std::string& bad);

  void submit(PrepareOp& op) override;
  void submit(LookOp& op) override;
  void submit(CopyReadOp& op) override;
  void submit(PendingReadOp& op) override;
  void submit(ListOp& op) override;
  void submit(ReplaceOp& op) override;
  void submit(HealOp& op) override;
  uint64_t room() const override;
  void set_healer(Healer healer) override { healer_ = std::move(healer); }
  void commit(const ChainChunk& at) override;
  void forget(const ChainChunk& at, engine::Op* durable = nullptr) override;
  std::vector<PendingUpdate> pending(ChainId chain) const override;
  std::optional<SlotRecord> slot(ChainId chain, NodeId node, uint32_t slot) const override;
  std::vector<SlotRecord> slots_of(const ChainChunk& at) const override;

  // Nothing that was asked is unfinished.
  bool idle() const { return tasks_.empty() && lists_.empty() && loads_ == 0; }
  // Contexts for requests have become free.
  void admit();

  // From the reader.
  void on_snapshot(ChainTask& task);
  void snapshot_pending(Request& request);

  // From updates. Those that end their task say so with a status that its caller gets.
  void goes_on(ChainEntry& entry) { pump(entry); }
  void on_failed(ChainTask& task, Status status);
  // The update is pending, and will be durable, with that record of the log or with its group.
  void on_pending(ChainTask& task, std::optional<uint64_t> log_number);
  // The commit or the replacement has happened, and the records say this of the chunk.
  void on_changed(ChainTask& task, const ChunkState& state, bool recorded);
  // The blocks of a heal are others now.
  void on_healed(ChainTask& task);
  void end(ChainTask& task, Status status);
  // From scrubs: whether somebody sees to a damaged block, and says so to `ended`.
  bool heal(const ChainChunk& at, uint32_t block, std::function<void(bool)> ended);
  // Takes a slot's request if it is newer than what is known.
  bool keep(const SlotRecord& record);
  // From the updater: an update that is none of a chain.
  void on_plain_change(const ChainChunk& at);
  // From the committer: a group with records of it is on stable storage.
  void on_saved(const ChainChunk& at);
  // Something of it was added to the group that gathers.
  void note_unsaved(ChainEntry& entry);

 private:
  using SlotKey = std::tuple<ChainId, uint32_t, uint32_t>;
  static SlotKey key_of(const SlotRecord& record) {
    return {record.at.chain, record.request.node, record.request.slot};
  }

  ChainEntry& entry(const ChainChunk& at);
  ChainTask& task(ChainTaskKind kind, const ChainChunk& at, engine::Op* op);
  void enqueue(ChainTask& task);
  void pump(ChainEntry& entry);
  bool begin(ChainTask& task);
  void refuse_waiting(ChainEntry& entry);
  void settle(ChainEntry& entry);
  void start_load(ChainEntry& entry);
  void take_loaded(ChainEntry& entry);
  void on_loaded(ChainEntry& entry);
  void with_request(ChainTask& task);
  void start(ChainTask& task, Request& request);
  void forget_pending(ChainTask& task);
  void on_durable(ChainTask& task);
  void start_read(ChainTask& task);
  void begin_pending_read(ChainTask& task);
  void next_pending_part(ChainTask& task);
  void on_read(ChainTask& task);
  void on_listed(ChainList& list);
  Status load_slots(std::string& bad);
  Status load_pending(std::string& bad);
  Status take_blocks(const PendingRecord& pending);

  Core& core_;
  std::map<ChainChunk, std::unique_ptr<ChainEntry>> entries_;
  std::set<ChainChunk> unsaved_;
  IntrusiveList<ChainEntry> idle_;  // of entries_, what nothing uses; longest first
  size_t idle_count_ = 0;
  std::unordered_map<ChainTask*, std::unique_ptr<ChainTask>> tasks_;
  std::deque<ChainTask*> without_request_;
  bool admitting_ = false;
  std::unordered_map<ChainList*, std::unique_ptr<ChainList>> lists_;
  size_t loads_ = 0;
  Healer healer_;
  // What is pending once all that was asked has happened.
  std::map<ChainChunk, PendingUpdate> pending_;
  std::map<SlotKey, SlotRecord> slots_;
  std::set<std::pair<ChainChunk, SlotKey>> slots_at_;
};

}  // namespace penstock::store
