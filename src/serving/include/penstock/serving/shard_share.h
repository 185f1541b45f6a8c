// One session's share of a shard: the files and regions that its rings may use, and those rings
// that this shard serves.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "penstock/arena.h"
#include "penstock/client.h"
#include "penstock/node_cache.h"
#include "penstock/resources.h"
#include "penstock/ring.h"
#include "penstock/serving/limits.h"
#include "penstock/serving/route_counters.h"
#include "penstock/serving/tables.h"

namespace penstock::serving {

class ServedRing;

// The node cache, as one session's share of a shard sees it; nothing where there is none.
struct ShardCache {
  node_cache::ShardFills* fills = nullptr;
  std::shared_ptr<arena::Segment> segment;

  explicit operator bool() const { return segment != nullptr; }
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
             std::shared_ptr<resources::Account> account, SessionTerms terms,
             std::function<void(const char*)> on_broken);
  ~ShardShare();

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
  void add_ring(uint32_t id, const ring::Memory& memory, const resources::BusGuard* guard);
  void remove_ring(uint32_t id, engine::Op& done);
  void cancel(uint32_t ring, uint32_t lane, uint32_t slot, uint32_t sequence);

  bool poll();
  bool prepare_sleep();
  void woke();
  // The eventfd of a ring of this shard was written: which one, the shard is not told.
  void called() { looks_left_ = dozing(); }

  // Any thread.
  uint64_t operations() const { return operations_.load(std::memory_order_relaxed); }

 private:
  friend class ServedRing;
  friend class ShardBatch;
  struct RetiredRing;

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
  const std::shared_ptr<resources::Account> account_;
  const SessionTerms terms_;
  client::Flow flow_;
  client::Flow batches_;  // of requests for many files, beside the rings
  std::function<void(const char*)> on_broken_;
  bool is_broken_ = false;
  Announced announced_;
  std::vector<ServedFile> files_;
  std::vector<ServedRegion> regions_;
  // In no order, but that the first are awake. The others have not been used for long: a few of
  // them are looked at in each turn, and all before the loop sleeps after it was called, since the
  // call does not say for which ring. So idle rings cost those that are at work little, however
  // many there are.
  std::vector<std::unique_ptr<ServedRing>> rings_;
  size_t awake_ = 0;
  size_t next_look_ = 0;
  size_t looks_left_ = 0;
  std::atomic<uint64_t> operations_{0};  // one writer; relaxed: a count for people
};

}  // namespace penstock::serving
