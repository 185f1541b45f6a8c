// Updates on their way along the chain: taken from clients or from the predecessor, made durable,
// passed on, committed.
#pragma once

#include "shared.h"
#include "words.h"

#include <array>
#include <deque>
#include <map>

namespace penstock::chain {

// What a client asked the head for.
struct Request {
  store::UpdatePart part;
  wire::AgentSession session;  // for which it is made
  Payload bytes;
  Budget::Share memory;  // of `bytes`
  // Waits for its end. When the client sends it again it has given up on the earlier call.
  engine::IncomingCall* call = nullptr;
  engine::Time latest = engine::kNever;  // it is not begun then or later
};

// The one update of a chunk that is not known to be committed.
struct Pending {
  UpdateName name;
  std::vector<store::UpdatePart> parts;
  Payload bytes;
  Pools::Held held;       // what it takes here, if it comes from another replica
  bool has_bytes = true;  // false if they have to be read before they are sent
  bool durable = false;   // here
  // An earlier version's commit point may have committed and shown it: nobody may be shown what was
  // there before, until it is committed here.
  bool may_be_shown = false;
  bool sending = false;    // a call to the successor is under way
  bool word_sent = false;  // the commit point is told that it is durable here
  bool answered = false;   // by the successor: it has committed; by the syncing one: durable
  bool following = false;  // it goes to the syncing one, too
  uint64_t space = 0;      // that it takes at most
  uint32_t space_tries = 0;
  Space::Share reserved;                 // so much, until the store has it
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
  engine::IncomingCall* arrives = nullptr;        // its call, while it waits for memory
  Words words;                                    // of the commit point
  std::deque<std::unique_ptr<Request>> waiting;   // without a number
  bool locked = false;                            // by repair: no update begins
  bool wants_space = false;                       // it waits for credit
  bool held = false;                              // it is at hand, and not to be forgotten
  bool queued = false;                            // in `full_`
  std::vector<std::function<void()>> when_quiet;  // run when none is pending or arriving
  std::vector<std::function<void()>> when_unlocked;  // what came from the predecessor meanwhile
  std::vector<std::function<void()>> when_known;     // run when `committed` is known
};

// Answers a client whose update has become committed, with others or alone, under this name.
void reply_done(engine::IncomingCall& call, const UpdateName& name);

class Updates {
 public:
  explicit Updates(Core& core) : core_(core) {}

  // Calls of clients, and of the predecessor.
  void on_update(engine::IncomingCall& call, const wire::ChainUpdateRequest& request);
  void on_forward(engine::IncomingCall& call, const wire::ChainForwardRequest& request);
  void on_durable(engine::IncomingCall& call, const wire::ChainWordRequest& request);
  void on_replace(engine::IncomingCall& call, const wire::ChainReplaceRequest& request);
  void on_committed(engine::IncomingCall& call, const wire::ChainNameRequest& request);

  // Sessions were fenced: what waits for its number and is of one of them never gets it.
  void refuse_fenced();
  // Brings into memory what an earlier life left pending.
  void load();
  // Forgets all that is pending, here and, durably, in the store: repair brings what counts.
  void forget(std::function<void()> then);
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
  // Those from `first` on that have something pending, in order.
  std::vector<InodeId> inodes(InodeId first) const;
  // The commit point has committed this one, which is pending here.
  void learn_commit(const store::ChainChunk& at, const UpdateName& name);
  // `then` runs when the committed name of the chunk is known, none is pending, and nobody else has
  // the lock. No update begins before unlock(). With a new version it is gone, and so is who waits
  // for it.
  void lock(const store::ChainChunk& at, std::function<void(const UpdateName& committed)> then);
  void unlock(const store::ChainChunk& at);
  // As the head: the chunk's record goes by an update of its own, if this is what it has committed
  // and nothing goes on with it; false if it is not begun. `ended` runs when it is committed, in
  // this version.
  bool drop(const store::ChainChunk& at, const UpdateName& committed, std::function<void()> ended);
  // Of a version in which this replica has no place: what is pending stays in the store only.
  void unload();

  size_t pending_count() const { return pending_count_; }
  size_t waiting_count() const { return waiting_count_; }

 private:
  Chunk& chunk(const store::ChainChunk& at);
  void with_committed(Chunk& chunk, std::function<void()> then);
  void tidy(const store::ChainChunk& at);
  void run_when_quiet(const store::ChainChunk& at);

  bool answer_repeated(engine::IncomingCall& call, const RequestId& request, engine::Time latest);
  bool answer_waiting(engine::IncomingCall& call, const RequestId& request, engine::Time latest,
                      Chunk& chunk);
  bool refuse_if_fenced(engine::IncomingCall& call, const wire::AgentSession& session);
  void end_waiting(Chunk& chunk, const std::function<bool(const Request&)>& ends, Status status);
  bool may_begin_waiting(Chunk& chunk);
  static void repeat(engine::IncomingCall*& earlier, engine::IncomingCall& call);
  void take_request(const store::ChainChunk& at, std::unique_ptr<Request> request);
  void begin_next(const store::ChainChunk& at);
  void begin_queued();
  void take_forward(engine::IncomingCall& call, const wire::ChainForwardRequest& request);
  static bool came_before(const UpdateName& name, const UpdateName& committed);
  static bool is_done(const Chunk& chunk, const wire::ChainForwardRequest& request);
  void take_word(engine::IncomingCall& call, const wire::ChainWordRequest& request);
  void hear_in_forward(Chunk& chunk, const wire::ChainForwardRequest& request);
  void hear(Chunk& chunk, const UpdateName& name, const Member& from, engine::IncomingCall* call);
  void end_words(Chunk& chunk, Status status);
  static void repeat_arrival(Chunk& known, engine::IncomingCall& call);
  void begin_arrival(Chunk& known, engine::IncomingCall& call, const UpdateName& name);
  void end_arrival(Chunk& known);
  void fetch_forward(engine::IncomingCall& call, const wire::ChainForwardRequest& request,
                     const Pools::Held& held);
  // The memory of what a replacement exposes.
  struct Replacement {
    Pools::Held held;
    std::array<std::shared_ptr<std::vector<std::byte>>, 3> parts;
  };
  void fetch_part(engine::IncomingCall& call, const wire::ChainReplaceRequest& request,
                  const std::shared_ptr<Replacement>& memory, uint32_t index);
  void fetch_replacement(engine::IncomingCall& call, const wire::ChainReplaceRequest& request,
                         const Pools::Held& held);
  void replace(engine::IncomingCall& call, const wire::ChainReplaceRequest& request,
               const std::shared_ptr<Replacement>& memory);
  void end_replacement(engine::IncomingCall& call, const wire::ChainReplaceRequest& request,
                       Status status);
  void begin(Chunk& chunk, std::unique_ptr<Pending> pending);
  void prepare(Chunk& chunk, bool keep_damage = false);
  void heal_and_prepare(Chunk& chunk);
  void wait_and_prepare(const store::ChainChunk& at, const UpdateName& name, bool keep_damage);
  void wait_for_space(const store::ChainChunk& at);
  static void let_go(Pending& pending);
  void read_bytes(Chunk& chunk);
  void read_bytes(Chunk& chunk, const Pools::Held& held);
  void advance(Chunk& chunk);
  void send(Chunk& chunk, const Member& to);
  void send_word(Chunk& chunk);
  bool is_durable_before(const Chunk& chunk) const;
  void tell_committed(const store::ChainChunk& at, const UpdateName& name, const Member& to);
  void commit(Chunk& chunk);
  void end_pending(Chunk& chunk);
  const Member* receiver(const Chunk& chunk) const;
  void forgotten();

  Core& core_;
  std::map<store::ChainChunk, std::unique_ptr<Chunk>> chunks_;
  size_t pending_count_ = 0;
  size_t waiting_count_ = 0;
  size_t chunks_with_words_ = 0;
  size_t arriving_count_ = 0;
  // What was pending before a repair is being forgotten, and who waits for that.
  size_t forgetting_ = 0;
  std::vector<std::function<void()>> when_forgotten_;
  // Chunks whose next update waits for there to be fewer pending ones in the chain.
  std::deque<store::ChainChunk> full_;
};

}  // namespace penstock::chain
