// What the replicas of one target share, and the parts of one replica of one another.
#pragma once

#include "fence.h"
#include "limits.h"
#include "part.h"
#include "pools.h"
#include "repair_pace.h"
#include "task.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <type_traits>

#include "penstock/chain/host.h"

namespace penstock::chain {

class Credit;
class Healing;
class Updates;
class Repair;
class Tombstones;

// The least that comes behind this one in the order of keys.
inline store::ChainChunk after(store::ChainChunk at) {
  if (++at.chunk.index == 0) ++at.chunk.inode.value;
  return at;
}

// Memory for bytes of clients' requests. Shares of it may outlive it.
class Budget {
 public:
  using Share = std::shared_ptr<void>;
  explicit Budget(uint64_t most) : most_(most) {}

  // Null: so much is not left.
  Share take(uint64_t bytes) {
    if (bytes > most_ - *taken_) return nullptr;
    *taken_ += bytes;
    return {taken_.get(), [taken = taken_, bytes](void*) {
              ASSERT(*taken >= bytes);
              *taken -= bytes;
            }};
  }

 private:
  const uint64_t most_;
  std::shared_ptr<uint64_t> taken_ = std::make_shared<uint64_t>(0);
};

// What the store has room for, less what was promised of it.
class Space {
 public:
  uint64_t left(const store::ChainStore& store, engine::Time now) {
    if (!measured_ || now - *measured_ >= limits::kRoomPeriod) {
      room_ = store.room();
      measured_ = now;
    }
    const uint64_t taken = *reserved_ + limits::kSpaceSlack;
    return room_ > taken ? room_ - taken : 0;
  }
  void reserve(uint64_t bytes) { *reserved_ += bytes; }
  void release(uint64_t bytes) {
    ASSERT(bytes <= *reserved_);
    *reserved_ -= bytes;
  }
  // Reserved for as long as the share is there, which may outlive this.
  using Share = std::shared_ptr<void>;
  Share take(uint64_t bytes) {
    reserve(bytes);
    return {reserved_.get(), [reserved = reserved_, bytes](void*) {
              ASSERT(*reserved >= bytes);
              *reserved -= bytes;
            }};
  }
  // The store has taken so much.
  void used(uint64_t bytes) { room_ -= std::min(room_, bytes); }

 private:
  std::optional<engine::Time> measured_;
  uint64_t room_ = 0;  // of then, less what was used since
  const std::shared_ptr<uint64_t> reserved_ = std::make_shared<uint64_t>(0);
};

// Operations that were begun and have not completed. It outlives the host, as they may.
struct UnderWay {
  size_t count = 0;
  std::set<engine::Timer*> timers;       // those among them
  std::multiset<engine::Time> of_store;  // when those of the store began
  std::function<void()> none_left = {};  // while the host is closed
};

struct Shared {
  explicit Shared(HostConfig its_config)
      : config(std::move(its_config)),
        budget(config.held_bytes_max > 0 ? config.held_bytes_max : limits::kHeldBytesMax),
        pools(config.passed_bytes_max > 0 ? config.passed_bytes_max : limits::kPassedBytesMax),
        buffers(config.buffers != nullptr ? config.buffers : Buffers::make()),
        pace(*config.loop) {}

  HostConfig config;
  Budget budget;
  Pools pools;
  const std::shared_ptr<Buffers> buffers;
  RepairPace pace;
  Space space;
  Fence fence;
  engine::Time lease_until{};
  std::map<TargetId, engine::Time> looked;  // when it was last asked how it is
  const std::shared_ptr<UnderWay> under_way = std::make_shared<UnderWay>();
  metrics::Counter updates{"chain.updates"};
  metrics::Counter repaired{"chain.repaired"};  // chunks that were sent to a syncing one
  metrics::Counter repaired_bytes{"chain.repaired.bytes"};
  metrics::Counter dropped{"chain.dropped"};    // records of removed chunks that went
  metrics::Counter cleared{"chain.cleared"};    // chunks of chains in which it has no part any more
  metrics::Counter healed{"chain.healed"};      // damaged blocks that are right again
  metrics::Counter unhealed{"chain.unhealed"};  // of which no good copy was found when it was tried
  NextRelease next_release;

  engine::Loop& loop() const { return *config.loop; }
  store::ChainStore& store() const { return *config.store; }
  // Looked at after what it decides about was chosen.
  bool has_lease() const { return config.loop->clock().lease_now() < lease_until; }

  // How long the oldest operation on the store has been under way.
  uint64_t oldest_us() const {
    if (under_way->of_store.empty()) return 0;
    const engine::Duration oldest = loop().now() - *under_way->of_store.begin();
    return static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(oldest).count());
  }
};

// One replica.
struct Core {
  Core(Shared& its_host, ChainId its_chain)
      : host(its_host),
        chain(its_chain),
        part(its_host.config.target, its_host.config.incarnation) {}

  Shared& host;
  const ChainId chain;
  Part part;
  // Its successor, or the syncing one behind it, has adopted this version.
  bool successor_ready = false;
  // A replica that cannot do its part does nothing any more.
  bool failed = false;
  // False once it is being destroyed: what is under way then ends without effect.
  std::shared_ptr<bool> alive = std::make_shared<bool>(true);
  Updates* updates = nullptr;
  Repair* repair = nullptr;
  Healing* healing = nullptr;
  Credit* credit = nullptr;
  Tombstones* tombstones = nullptr;

  bool may_serve() const { return part.serves() && part.active && !failed && host.has_lease(); }

  store::ChainChunk at(ChunkId chunk) const { return {chain, chunk}; }
  wire::ChainHeader header(ChunkId chunk = {}, wire::Traffic traffic = {}) const {
    wire::ChainHeader header(part.version(), chunk.inode.value, chain.value, chunk.index);
    header.traffic = traffic;
    return header;
  }
  void report(Report::Kind kind, TargetId other = {}) const {
    host.config.report({kind, chain, part.version(), other});
  }
  // Says so again and again, as reports may be lost, until there is a new version.
  void keep_reporting(Report::Kind kind, TargetId other = {}) {
    report(kind, other);
    after(limits::kReportPeriod, [this, kind, other, version = part.version()] {
      if (version == part.version()) keep_reporting(kind, other);
    });
  }
  void fail();

  // When a request that arrives now is too late to be begun.
  engine::Time latest(const wire::ChainHeader& header) const {
    if (header.deadline_us == 0) return engine::kNever;
    constexpr std::chrono::microseconds kMost = limits::kDeadlineMax;
    const uint64_t us = std::min<uint64_t>(header.deadline_us, kMost.count());
    return host.loop().now() + std::chrono::microseconds(us);
  }
  bool is_late(engine::Time latest) const { return host.loop().now() >= latest; }

  // Ends a call of another version, or one that another replica should have had.
  void reply_moved(engine::IncomingCall& call) const {
    const wire::ChainMovedResponse response{part.version()};
    call.reply(Code::moved, wire::as_wire(response));
  }

  // Ends a call that this replica will not, or not yet, serve: by its version it should, or not.
  void refuse(engine::IncomingCall& call) const {
    if (!part.serves() && !part.syncs()) return reply_moved(call);
    call.reply(Code::not_serving, {});
  }

  // An operation whose end matters only as long as the replica lives.
  template <class T>
  Task<T>& task(std::function<void(Task<T>&)> then) {
    constexpr bool kOfStore = !std::is_same_v<T, engine::Timer> && !std::is_same_v<T, PeerCall> &&
                              !std::is_same_v<T, engine::TransferOp>;
    const engine::Time begun = host.loop().now();
    ++host.under_way->count;
    if (kOfStore) host.under_way->of_store.insert(begun);
    return Task<T>::make(
        [alive = alive, under_way = host.under_way, begun, then = std::move(then)](Task<T>& done) {
          if constexpr (std::is_same_v<T, engine::Timer>) under_way->timers.erase(&done);
          if (kOfStore) under_way->of_store.erase(under_way->of_store.find(begun));
          if (*alive) then(done);
          if (--under_way->count == 0 && under_way->none_left) under_way->none_left();
        });
  }
  void after(engine::Duration pause, std::function<void()> then) {
    auto& timer = task<engine::Timer>([then = std::move(then)](Task<engine::Timer>&) { then(); });
    host.under_way->timers.insert(&timer);
    host.loop().start(timer, host.loop().now() + pause);
  }
  // `then` runs with so much memory of the pool of its place, at once or when it is there. With a
  // new version it is gone.
  void hold(uint64_t bytes, std::function<void(Pools::Held)> then) {
    const size_t place = part.place();
    if (const Pools::Held held = host.pools.take(place, bytes)) return then(held);
    host.pools.wait(this, place, bytes,
                    [this, version = part.version(), then = std::move(then)](Pools::Held held) {
                      after({}, [this, version, then, held = std::move(held)] {
                        if (version == part.version() && !failed) then(held);
                      });
                    });
  }
  // Calls a neighbour; `then` hears of its end only while this version lasts.
  void call(const Member& to, Task<PeerCall>& call) {
    constexpr std::chrono::microseconds kDeadline = limits::kPeerDeadline;
    call.address(to.target, static_cast<uint64_t>(kDeadline.count()), host.next_release,
                 host.loop().now());
    call.say_in(to.protocol);
    call.to = to.address;
    call.deadline = host.loop().now() + limits::kPeerDeadline;
    host.config.net->call(call);
  }
  Task<PeerCall>& peer_task(const Member& to, std::function<void(Task<PeerCall>&)> then) {
    return task<PeerCall>(
        [this, version = part.version(), to, then = std::move(then)](Task<PeerCall>& done) {
          if (version != part.version() || failed) return;
          if (done.status == Code::peer_gone) report(Report::Kind::unreachable, to.target);
          if (done.status == Code::timed_out) look_for(to);
          then(done);
        });
  }
  // A neighbour that does not answer in time may be waiting for its own successor. It is asked how
  // it is itself, and reported if it does not answer, or is far slower than this target.
  void look_for(const Member& to) {
    host.looked[to.target] = host.loop().now();
    auto& look = task<PeerCall>([this, version = part.version(), to](Task<PeerCall>& done) {
      if (version != part.version() || failed) return;
      if (done.status == Code::peer_gone || done.status == Code::timed_out || is_stalled(done)) {
        report(Report::Kind::unreachable, to.target);
      }
    });
    look.say(host.next_release.method_for_state(to.protocol), wire::ChainStateRequest{header()});
    call(to, look);
  }
  bool is_stalled(const Task<PeerCall>& done) const {
    wire::ChainStateResponse response;
    // What asks for more than that has it in front.
    if (!done.status.ok() || done.response_length < sizeof response) return false;
    std::memcpy(&response, done.answer.data(), sizeof response);
    constexpr uint64_t kLeast = std::chrono::microseconds(limits::kStalled).count();
    const uint64_t own = host.oldest_us();
    return response.oldest_us >= kLeast && response.oldest_us / limits::kStalledTimes >= own;
  }
  void retry(std::function<void()> again) {
    after(limits::kPeerRetry, [this, version = part.version(), again = std::move(again)] {
      if (version == part.version() && !failed) again();
    });
  }
};

}  // namespace penstock::chain
