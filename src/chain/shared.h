// What the replicas of one target share, and the parts of one replica of one another.
#pragma once

#include "limits.h"
#include "part.h"
#include "task.h"

#include "penstock/chain/host.h"

namespace penstock::chain {

class Updates;
class Repair;

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

struct Shared {
  explicit Shared(HostConfig its_config)
      : config(std::move(its_config)),
        budget(config.held_bytes_max > 0 ? config.held_bytes_max : limits::kHeldBytesMax) {}

  HostConfig config;
  Budget budget;
  engine::Time lease_until{};

  engine::Loop& loop() const { return *config.loop; }
  store::ChainStore& store() const { return *config.store; }
  // Looked at after what it decides about was chosen, by a clock that did not stand still
  // meanwhile.
  bool has_lease() const { return config.loop->clock().now() < lease_until; }
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

  bool may_serve() const { return part.serves() && part.active && !failed && host.has_lease(); }

  store::ChainChunk at(ChunkId chunk) const { return {chain, chunk}; }
  wire::ChainHeader header(ChunkId chunk = {}) const {
    return {part.version(), chunk.inode.value, chain.value, chunk.index};
  }
  void report(Report::Kind kind, TargetId other = {}) const {
    host.config.report({kind, chain, part.version(), other});
  }
  // Says so again and again, as reports may be lost, until there is a new version.
  void keep_reporting(Report::Kind kind, TargetId other = {}) {
    report(kind, other);
    auto& timer =
        task<engine::Timer>([this, kind, other, version = part.version()](Task<engine::Timer>&) {
          if (version == part.version()) keep_reporting(kind, other);
        });
    host.loop().start(timer, host.loop().now() + limits::kReportPeriod);
  }
  void fail() {
    if (failed) return;
    failed = true;
    keep_reporting(Report::Kind::failed);
  }

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
    return Task<T>::make([alive = alive, then = std::move(then)](Task<T>& done) {
      if (*alive) then(done);
    });
  }
  // Calls a neighbour; `then` hears of its end only while this version lasts.
  void call(const Member& to, Task<PeerCall>& call) {
    call.to = to.address;
    call.deadline = host.loop().now() + limits::kPeerDeadline;
    host.config.net->call(call);
  }
  Task<PeerCall>& peer_task(const Member& to, std::function<void(Task<PeerCall>&)> then) {
    return task<PeerCall>([this, version = part.version(), target = to.target,
                           then = std::move(then)](Task<PeerCall>& done) {
      if (version != part.version() || failed) return;
      if (done.status == Code::peer_gone || done.status == Code::timed_out) {
        report(Report::Kind::unreachable, target);
      }
      then(done);
    });
  }
  void retry(std::function<void()> again) {
    auto& timer = task<engine::Timer>(
        [this, version = part.version(), again = std::move(again)](Task<engine::Timer>&) {
          if (version == part.version() && !failed) again();
        });
    host.loop().start(timer, host.loop().now() + limits::kPeerRetry);
  }
};

}  // namespace penstock::chain
