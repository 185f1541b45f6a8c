// One session's share of a shard: the files and regions that its rings may use, and those rings
// that this shard serves.
#pragma once

#include "accounts.h"
#include "bus_guard.h"
#include "limits.h"
#include "shard_fills.h"

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "penstock/client.h"
#include "penstock/telemetry.h"

namespace penstock::agent {

class ShardShare;
class ServedRing;

// Operations by the route they took, of one shard, and what those of its rings took. Filled by its
// thread.
class RouteCounters {
 public:
  // As its only writer: without a locked instruction.
  void count(engine::Route route) {
    metrics::Counter& counter = counters_[static_cast<size_t>(route) % engine::kRouteCount];
    counter.set(counter.value() + 1);
  }
  telemetry::OperationFigures& figures() { return figures_; }
  telemetry::Tracer& tracer() { return tracer_; }

 private:
  metrics::Counter counters_[engine::kRouteCount] = {
      metrics::Counter("agent.route.none"),
      metrics::Counter("agent.route.hole"),
      metrics::Counter("agent.route.disk-direct"),
      metrics::Counter("agent.route.disk-staged"),
      metrics::Counter("agent.route.disk-page-cache"),
      metrics::Counter("agent.route.disk-threads"),
      metrics::Counter("agent.route.cache"),
      metrics::Counter("agent.route.device-peer"),
      metrics::Counter("agent.route.device-cache"),
      metrics::Counter("agent.route.device-gather"),
      metrics::Counter("agent.route.device-mapped"),
      metrics::Counter("agent.route.device-slots"),
  };
  telemetry::OperationFigures figures_;
  telemetry::Tracer tracer_;
};

// An open file, as a shard holds it while operations may use it.
struct ServedFile {
  client::FileRef file;
  uint32_t in_flight = 0;
  engine::Op* leaving = nullptr;  // completes when in_flight is 0: no new operations then
};

// A region, as a shard holds it. `guard` stays the session's.
struct ServedRegion {
  MutableBytes bytes;
  engine::BufferId buffer = engine::kNoBuffer;
  const BusGuard* guard = nullptr;
  uint32_t in_flight = 0;
  engine::Op* leaving = nullptr;

  bool present() const { return bytes.data() != nullptr && leaving == nullptr; }
};

// Room in the shards' tables of files, or of regions, for the numbers that a session uses: paid for
// when a number is taken, as the tables are made where nobody can be refused any more.
class TableRoom {
 public:
  // The size of a table that holds this number.
  static uint32_t entries_for(uint32_t id);
  // `bytes` for each entry, over all shards. busy, when the account has not enough.
  Status reach(const std::shared_ptr<Account>& account, uint32_t id, uint64_t bytes);

 private:
  static constexpr uint32_t kEntriesFree = 64;  // these are the session's own

  uint32_t entries_ = kEntriesFree;
  Charge heap_;
};

// One operation of a ring below the client library. Owned by its ring; reused, never allocated
// while the ring serves.
struct RingOp : FillRequest {
  ServedRing* ring = nullptr;
  bool in_use = false;
  uint32_t lane = 0;
  uint32_t slot = 0;
  uint32_t sequence = 0;
  uint64_t user_data = 0;
  uint32_t file_id = 0;
  uint32_t region_id = 0;
  bool uses_region = false;
  bool is_fill = false;
  telemetry::Kind figures_kind = telemetry::Kind::other;
  engine::Time begun;  // the turn in which it was taken from its ring
};

// Operations of one ring, in blocks that are made as it goes deeper than ever before, charged to
// its session, and given back to the kernel with the ring.
class OpPool {
 public:
  explicit OpPool(uint32_t most) : most_(most) {}
  ~OpPool();
  OpPool(const OpPool&) = delete;
  OpPool& operator=(const OpPool&) = delete;

  uint32_t size() const { return size_; }
  bool may_grow() const { return size_ < most_ && !refused_; }
  // More operations, as many again as there are; empty when there can be none for now. Those of the
  // first call are covered by what the ring itself is charged with.
  std::span<RingOp> grow(const std::shared_ptr<Account>& account);
  // Growing may be tried again.
  void retry() { refused_ = false; }
  template <class Visit>
  void for_each(const Visit& visit) {
    for (Block& block : blocks_) {
      for (RingOp& op : block.ops) visit(op);
    }
  }

 private:
  struct Block {
    std::span<RingOp> ops;
    size_t bytes = 0;
    Charge heap, mapping;
  };
  const uint32_t most_;
  uint32_t size_ = 0;
  bool refused_ = false;
  std::vector<Block> blocks_;
};

// Takes submissions from one ring, checks every field against the session, hands them to the
// shard's client and posts their completions.
class ServedRing {
 public:
  ServedRing(ShardShare& share, uint32_t id, const ring::Memory& memory, const BusGuard* guard);

  uint32_t id() const { return id_; }
  bool poll();
  // Arms the sleep flag; false when there is work after all.
  bool prepare_sleep();
  void woke() { ring_.disarm(); }
  // After poll(). True when nobody has used it for many turns: then it is armed, and stays so until
  // the application has called.
  bool dozes();
  bool was_called() const { return !ring_.is_armed(); }
  void cancel(uint32_t lane, uint32_t slot, uint32_t sequence);
  // Takes nothing more and cancels what is in flight; `done` completes when all of it has ended.
  void leave(engine::Op& done);

 private:
  friend class ShardShare;
  void fail(const char* why);
  bool take_from(uint32_t lane);
  bool grow();
  void start(uint32_t lane, const ring::Submission& entry);
  // 0, or the negative errno with which the entry ends at once.
  int check(RingOp& op, const ring::Submission& entry);
  int check_range(RingOp& op, const ring::Submission& entry);
  int check_region(RingOp& op, const ring::Submission& entry);
  void begin(RingOp& op);
  // Of an operation that is traced: what it is, and how it ended.
  void begin_trace(RingOp& op);
  void end_trace(RingOp& op, int64_t result, engine::Route route);
  void cancel(RingOp& op);
  void finish(RingOp& op);
  void post(RingOp& op, int64_t result, engine::Route route);
  void publish();

  ShardShare& share_;
  const uint32_t id_;
  ring::AgentRing ring_;
  const BusGuard* guard_;
  client::Flow flow_;
  std::vector<ring::AgentLane> lanes_;
  OpPool pool_;
  IntrusiveList<RingOp> free_;
  uint64_t unpublished_lanes_ = 0;  // a set of bits
  uint32_t in_flight_ = 0;
  uint32_t quiet_turns_ = 0;  // since something was under way
  bool serving_ = true;
  engine::Op* leaving_ = nullptr;
};

// The node cache, as one session's share of a shard sees it; nothing where there is none.
struct ShardCache {
  ShardFills* fills = nullptr;
  std::shared_ptr<arena::Segment> segment;

  explicit operator bool() const { return segment != nullptr; }
};

// Files and regions that the session has and no operation on this shard has named yet. The loop
// looks here for what it does not know: making something known, and taking back what was not used,
// needs no trip to the loop. Whoever names a number that it was told finds it here, as it was added
// before the reply that told. Thread safe.
class Announced {
 public:
  void add_file(uint32_t id, client::FileRef file);
  void add_region(uint32_t id, const ServedRegion& region);
  // What was here, and is not any more: null, or not present, if there was none.
  client::FileRef take_file(uint32_t id);
  ServedRegion take_region(uint32_t id);

 private:
  std::mutex mutex_;
  std::unordered_map<uint32_t, client::FileRef> files_;
  std::unordered_map<uint32_t, ServedRegion> regions_;
};

// What a user and one of its sessions are allowed; outlive the session's shares.
struct SessionTerms {
  client::Terms* user = nullptr;
  client::Terms* session = nullptr;
};

// Everything but the constructor and what says otherwise: owner thread of the loop only. Adding and
// removing happen on behalf of control calls and may allocate, and so does the first use of what
// was announced; serving does not.
class ShardShare {
 public:
  // `on_broken` is told once, and why, when the application broke the protocol; it runs in the
  // loop's thread and must not block.
  ShardShare(engine::Loop& loop, client::Client& client, RouteCounters& routes, ShardCache cache,
             std::shared_ptr<Account> account, SessionTerms terms,
             std::function<void(const char*)> on_broken);

  uint32_t uid() const { return account_->uid(); }
  const SessionTerms& terms() const { return terms_; }
  // Its operations take turns with those of the user's other sessions. Before the first of them.
  void join(client::Flow& user);

  // Any thread. How files and regions get here.
  Announced& announced() { return announced_; }

  // Of what is not announced any more. Completes `done` when no operation uses it any more; new
  // ones are refused from now on.
  void remove_file(uint32_t id, engine::Op& done);
  void remove_region(uint32_t id, engine::Op& done);
  void add_ring(uint32_t id, const ring::Memory& memory, const BusGuard* guard);
  void remove_ring(uint32_t id, engine::Op& done);
  void cancel(uint32_t ring, uint32_t lane, uint32_t slot, uint32_t sequence);

  bool poll();
  bool prepare_sleep();
  void woke();
  // Somebody's ring was called for.
  void called() { looks_left_ = dozing(); }

  // Any thread.
  uint64_t operations() const { return operations_.load(std::memory_order_relaxed); }

 private:
  friend class ServedRing;
  friend class ShardBatch;
  // Null for one that is not there, or leaves.
  ServedFile* file(uint32_t id);
  ServedRegion* region(uint32_t id);
  void add_file(uint32_t id, client::FileRef file);
  void add_region(uint32_t id, const ServedRegion& region);
  void release_file(uint32_t id);
  void release_region(uint32_t id);
  void ring_left(ServedRing& ring);
  void broken(const char* why);
  // Where it stands; their number if it is not there.
  size_t find(uint32_t ring) const;
  size_t dozing() const { return rings_.size() - awake_; }
  void wake(size_t ring);
  bool look_at_dozing();

  engine::Loop& loop_;
  client::Client& client_;
  RouteCounters& routes_;
  const ShardCache cache_;
  const std::shared_ptr<Account> account_;
  const SessionTerms terms_;
  client::Flow flow_;
  client::Flow batches_;  // of requests for many files, beside the rings
  std::function<void(const char*)> on_broken_;
  bool is_broken_ = false;
  Announced announced_;
  std::vector<ServedFile> files_;
  std::vector<ServedRegion> regions_;
  // In no order, but that the first are awake. The others have not been used for long: a few of
  // them are looked at in each turn, and all before the loop sleeps after it was called, as nobody
  // says by whom. So idle rings cost those that are at work little, however many there are.
  std::vector<std::unique_ptr<ServedRing>> rings_;
  size_t awake_ = 0;
  size_t next_look_ = 0;
  size_t looks_left_ = 0;
  std::atomic<uint64_t> operations_{0};  // one writer; relaxed: a count for people
};

// All shares of one shard, asked in turn by its loop.
class RingServer final : public engine::Poller {
 public:
  RouteCounters& routes() { return routes_; }
  // Before the first share: what notes the calls of applications.
  void listen_to(const engine::Parker& parker) { parker_ = &parker; }
  void add(ShardShare& share);
  // When no operation of it is under way.
  void remove(ShardShare& share);

  bool poll() override;
  bool prepare_sleep() override;
  void woke() override;

 private:
  struct User {
    client::Flow flow;
    uint32_t shares = 0;
  };

  bool was_called();

  RouteCounters routes_;
  const engine::Parker* parker_ = nullptr;
  uint64_t calls_seen_ = 0;
  std::vector<ShardShare*> shares_;
  std::map<uint32_t, User> users_;  // those with shares, by uid
};

}  // namespace penstock::agent
