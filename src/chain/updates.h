// Updates on their way along the chain: taken from clients or from the predecessor, made durable,
// passed on, committed.
#pragma once

#include "shared.h"

#include <deque>
#include <map>

namespace penstock::chain {

// What a client asked the head for.
struct Request {
  store::UpdatePart part;
  std::vector<std::byte> bytes;
  Budget::Share memory;  // of `bytes`
  // Waits for its end. When the client sends it again it has given up on the earlier call.
  engine::IncomingCall* call = nullptr;
};

// The one update of a chunk that is not known to be committed.
struct Pending {
  UpdateName name;
  std::vector<store::UpdatePart> parts;
  std::vector<std::byte> bytes;
  bool has_bytes = true;        // false in a new life, until they are read
  bool durable = false;         // here
  bool durable_before = false;  // at all that stand before this replica; it stays so
  // An earlier version's commit point may have committed and shown it: nobody may be shown what was
  // there before, until it is committed here.
  bool may_be_shown = false;
  bool sending = false;    // a call to the successor is under way
  bool word_sent = false;  // the successor knows that it is durable up to here
  bool answered = false;   // by the successor: it has committed; by the syncing one: durable
  bool following = false;  // it goes to the syncing one, too
  engine::IncomingCall* from = nullptr;  // the predecessor's call, which waits for the commit
  // Of a head, as long as `parts`: calls of clients that wait for the commit, null where none does.
  std::vector<engine::IncomingCall*> calls;
  std::vector<Budget::Share> memory;
};

// A chunk on which something goes on.
struct Chunk {
  store::ChainChunk at;
  std::optional<UpdateName> committed;  // once it was looked up
  std::unique_ptr<Pending> pending;
  UpdateName arriving;                            // its bytes are on their way from the predecessor
  bool arriving_is_durable = false;               // at all that stand before
  std::deque<std::unique_ptr<Request>> waiting;   // without a number
  bool locked = false;                            // by repair: no update begins
  bool held = false;                              // it is at hand, and not to be forgotten
  bool queued = false;                            // in `full_`
  std::vector<std::function<void()>> when_quiet;  // run when none is pending or arriving
  std::vector<std::function<void()>> when_unlocked;  // what came from the predecessor meanwhile
  std::vector<std::function<void()>> when_known;     // run when `committed` is known
};

class Updates {
 public:
  explicit Updates(Core& core) : core_(core) {}
  ~Updates();

  // Calls of clients, and of the predecessor.
  void on_update(engine::IncomingCall& call, const wire::ChainUpdateRequest& request);
  void on_forward(engine::IncomingCall& call, const wire::ChainForwardRequest& request);
  void on_durable(engine::IncomingCall& call, const wire::ChainNameRequest& request);
  void on_replace(engine::IncomingCall& call, const wire::ChainReplaceRequest& request);
  void on_committed(engine::IncomingCall& call, const wire::ChainNameRequest& request);

  // Brings into memory what an earlier life left pending.
  void load();
  // Forgets all that is pending, here and in the store: repair brings what counts.
  void forget();
  // A new version was adopted: nothing is under way in it, and clients look for its head.
  void part_changed();
  // The replica is active: what it has pending goes its way. `before` is what the predecessor has
  // pending; null for the head.
  void activated(const std::map<ChunkId, UpdateName>* before);
  // The successor, or the syncing one, takes updates from now on.
  void successor_ready();
  std::vector<wire::PendingEntry> list() const;
  // Nothing that is pending goes to the syncing one any more.
  void repair_began();

  // Null if nothing is pending.
  const Pending* pending(const store::ChainChunk& at) const;
  // Of any chunk of the inode, or about to be.
  bool has_pending(InodeId inode) const;
  // The commit point has committed this one, which is pending here.
  void learn_commit(const store::ChainChunk& at, const UpdateName& name);
  // `then` runs when the committed name of the chunk is known and none is pending. No update begins
  // before unlock().
  void lock(const store::ChainChunk& at, std::function<void(const UpdateName& committed)> then);
  void unlock(const store::ChainChunk& at);
  // Of a version in which this replica has no place: what is pending stays in the store only.
  void unload();

  size_t pending_count() const { return pending_count_; }
  size_t waiting_count() const { return waiting_count_; }

 private:
  Chunk& chunk(const store::ChainChunk& at);
  void with_committed(Chunk& chunk, std::function<void()> then);
  void tidy(const store::ChainChunk& at);
  void run_when_quiet(const store::ChainChunk& at);

  bool answer_repeated(engine::IncomingCall& call, const RequestId& request);
  bool answer_waiting(engine::IncomingCall& call, const RequestId& request, Chunk& chunk);
  static void repeat(engine::IncomingCall*& earlier, engine::IncomingCall& call);
  void take_request(const store::ChainChunk& at, std::unique_ptr<Request> request);
  void begin_next(const store::ChainChunk& at);
  void begin_queued();
  void take_forward(engine::IncomingCall& call, const wire::ChainForwardRequest& request);
  void fetch_forward(engine::IncomingCall& call, const wire::ChainForwardRequest& request);
  void fetch_replacement(engine::IncomingCall& call, const wire::ChainReplaceRequest& request);
  void replace(engine::IncomingCall& call, const wire::ChainReplaceRequest& request, Bytes slots,
               std::shared_ptr<std::vector<std::byte>> bytes);
  void end_replacement(engine::IncomingCall& call, const wire::ChainReplaceRequest& request,
                       Status status);
  void begin(Chunk& chunk, std::unique_ptr<Pending> pending);
  void prepare(Chunk& chunk);
  void read_bytes(Chunk& chunk);
  void advance(Chunk& chunk);
  void send(Chunk& chunk, const Member& to);
  void send_word(Chunk& chunk, const Member& to);
  void tell_committed(const store::ChainChunk& at, const UpdateName& name, const Member& to);
  void commit(Chunk& chunk);
  void end_pending(Chunk& chunk);
  const Member* receiver(const Chunk& chunk) const;

  Core& core_;
  std::map<store::ChainChunk, std::unique_ptr<Chunk>> chunks_;
  size_t pending_count_ = 0;
  size_t waiting_count_ = 0;
  // Chunks whose next update waits for there to be fewer pending ones in the chain.
  std::deque<store::ChainChunk> full_;
};

}  // namespace penstock::chain
