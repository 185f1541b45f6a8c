// A node of a cluster that a test plays by itself: with the certificate that the cluster gave it,
// over TLS, it says whatever the test wants.
#pragma once

#include <atomic>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "penstock/chain.h"
#include "penstock/cluster.h"
#include "penstock/disk.h"
#include "penstock/holds_net.h"
#include "penstock/inodes.h"
#include "penstock/locks_net.h"
#include "penstock/meta_net.h"

namespace penstock::test {

// One thread at a time may use it; a loop of its own does what it asks.
class PlayedNode final : public chain::CapabilitySource, private holds::Keeping {
 public:
  // In an empty directory that is there. `names`: the node that has them.
  PlayedNode(const std::string& directory, const std::string& invitation, const std::string& listen,
             NodeId names)
      : names_(names) {
    const Outcome<void> joined = join(directory, invitation, listen);
    if (!joined) why_not_ = "it does not join: " + joined.error().message;
    if (joined) begin();
  }
  ~PlayedNode() override {
    end();
    if (participant_ != nullptr && thread_.joinable()) {
      participant_->set_capabilities(nullptr);
      participant_->leave();
    }
    meta_.reset();
    if (thread_.joinable()) {
      loop_->stop();
      thread_.join();
    }
    participant_.reset();
  }
  const std::string& why_not() const { return why_not_; }  // empty: it is a node of the cluster

  NodeId self() const { return participant_->self(); }
  uint64_t session() const { return session_.load(); }
  meta_net::RemoteMeta& meta() { return *meta_; }
  cluster::Participant& participant() { return *participant_; }

  // The next session, as a process that begins: what the one before had is given back.
  void begin_again() {
    end();
    begin();
  }
  // What targets see, whatever session there is.
  void say_session(uint64_t session) { participant_->set_session(session); }

  // A hold that is waited for for so long at most.
  Status hold(InodeId inode, holds::Hold hold) {
    struct Wait {
      holds::Holding* holding = nullptr;
      engine::Op* done = nullptr;
      engine::Loop* loop = nullptr;
      holds::Holding::Waiter waiter;
      engine::Timer timer;
      bool timed = true;
    } wait;
    wait.holding = holds_.get();
    wait.loop = loop_.get();
    wait.waiter.loop = loop_.get();
    wait.waiter.inode = inode;
    wait.waiter.hold = hold;
    wait.waiter.owner = wait.timer.owner = &wait;
    wait.waiter.completion = [](engine::Op& op) {
      auto& self = op.owner_as<Wait>();
      if (std::exchange(self.timed, false)) self.loop->cancel(self.timer);
      self.loop->complete(*self.done, op.status);
    };
    wait.timer.completion = [](engine::Op& op) {
      auto& self = op.owner_as<Wait>();
      self.timed = false;
      if (self.holding->cancel(self.waiter)) self.loop->complete(*self.done, Code::timed_out);
    };
    const Status status = call([&](engine::Op& done) {
      wait.done = &done;
      loop_->start(wait.timer, loop_->now() + kMost);
      holds_->wait(wait.waiter);
    });
    if (wait.waiter.entered) holds_->leave(wait.waiter.ticket);
    return status;
  }

  locks::Answer lock(InodeId inode, locks::Type type, locks::Kind kind = locks::Kind::range) {
    locks::Answer is = locks::Answer::waits;
    (void)call([&](engine::Op& done) {
      locks_->set(open_, wanted(inode, type, kind), {}, [&](locks::Answer answer) {
        is = answer;
        loop_->complete_remote(done, Code::ok);
      });
    });
    return is;
  }
  locks::Answer ask_lock(InodeId inode) {
    locks::Answer is = locks::Answer::waits;
    (void)call([&](engine::Op& done) {
      locks_->get(open_, wanted(inode, locks::Type::write, locks::Kind::range),
                  [&](locks::Answer answer, const std::optional<locks::Held>&) {
                    is = answer;
                    loop_->complete_remote(done, Code::ok);
                  });
    });
    return is;
  }

  // What targets and the names that ask are shown; none: nothing is. Chains' own client shows
  // nothing of another session.
  void show(std::optional<wire::Capability> capability) {
    const std::lock_guard lock(mutex_);
    shows_ = capability;
  }
  // What the head of a file's chain answers when it is shown this.
  Status show_to_head(const meta::Layout& layout, const wire::Capability& capability) {
    const auto view = participant_->map().view_of(inodes::Placement(layout).chain_of(0));
    if (!view || view->serving() == 0) return Code::not_serving;
    wire::ChainShowRequest request{{view->version, 0, view->chain.value, 0}, capability};
    request.header.capability = capability.session;
    Call op;
    op.to = view->members.front().address;
    op.method = static_cast<uint16_t>(wire::ChainMethod::show);
    op.request = wire::as_wire(request);
    return say(op, participant_->nodes_net(0), kMost);
  }
  // The first bytes of a file, from its chain; or new ones for it.
  Status read(InodeId inode, const meta::Layout& layout, std::string& bytes) {
    return chunk(wire::ChunkMethod::read, inode, layout, bytes, engine::Access::place);
  }
  Status write(InodeId inode, const meta::Layout& layout, std::string bytes) {
    return chunk(wire::ChunkMethod::write, inode, layout, bytes, engine::Access::fetch);
  }

 private:
  static constexpr std::chrono::seconds kMost{10};
  // What is refused is tried again until then.
  static constexpr std::chrono::milliseconds kChunkMost{600};

  Outcome<void> join(const std::string& directory, const std::string& invitation,
                     const std::string& listen) {
    TRY_ASSIGN(driver_, disk::DiskDriver::create({.root = directory}));
    loop_ = std::make_unique<engine::Loop>(engine::system_clock(), random_, driver_->parker());
    cluster::ParticipantConfig config;
    config.directory = directory;
    config.node = cluster::random_uuid();
    config.listen = {listen};
    config.roles = controller::kRoleAgent;
    config.name = "played";
    TRY_ASSIGN(config.invitation, cluster::parse_invitation(invitation));
    TRY_ASSIGN(participant_, cluster::Participant::prepare(config));
    cluster::ParticipantShard shard;
    shard.loop = loop_.get();
    shard.parker = &driver_->parker();
    shard.target_directory = directory;
    TRY(participant_->enter({shard}, nullptr));
    thread_ = std::thread([this] { loop_->run(); });
    TRY(participant_->open());
    participant_->set_capabilities(this);
    return {};
  }
  Status call(const std::function<void(engine::Op& done)>& start) const {
    return engine::thread_caller().call(*loop_, start);
  }

  void begin() {
    engine::Net& net = participant_->nodes_net(0);
    holds_net::HoldsAgentConfig holds;
    holds.loop = loop_.get();
    holds.net = &net;
    holds.node = self();
    holds.service = {names_, wire::kHoldsService};
    holds.keeping = this;
    holds.session_changes = [this](holds::AgentId session) {
      locks_->begins(session);
      participant_->set_session(session.session);
      session_.store(session.session);
    };
    holds_ = holds_net::HoldsAgent::make(holds);
    locks_net::LocksAgentConfig locks;
    locks.loop = loop_.get();
    locks.net = &net;
    locks.node = self();
    locks.service = {names_, wire::kLocksService};
    locks.standing = [this]() -> locks_net::Standing {
      const auto standing = holds_->standing();
      return {standing.session, standing.life, standing.has_begun};
    };
    locks_ = locks_net::LocksAgent::make(std::move(locks));
    if (meta_ == nullptr) {
      meta_net::RemoteMetaConfig meta;
      meta.loop = loop_.get();
      meta.net = &net;
      meta.service = {names_, wire::kMetaService};
      meta.session = [this] { return session(); };
      meta.find_given = [this](InodeId) { return shown(); };
      meta_ = meta_net::RemoteMeta::make(meta);
    }
    (void)call([this](engine::Op& done) {
      holds_->start();
      locks_->start();
      loop_->complete(done, Code::ok);
    });
    const auto until = engine::system_clock().now() + kMost;
    while (!holds_->is_ready() && engine::system_clock().now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    if (!holds_->is_ready()) why_not_ = "no session begins";
  }
  void end() {
    if (holds_ == nullptr) return;
    (void)call([this](engine::Op& done) { locks_->close(done); });
    (void)call([this](engine::Op& done) { holds_->close(done); });
    locks_.reset();
    holds_.reset();
  }

  static locks::Wanted wanted(InodeId inode, locks::Type type, locks::Kind kind) {
    return {inode, {{}, kind, 1}, {}, type, 1};
  }

  Status chunk(wire::ChunkMethod method, InodeId inode, const meta::Layout& layout,
               std::string& bytes, engine::Access access) {
    const inodes::Placement placement(layout);
    wire::ChunkRequest request;
    request.inode = inode.value;
    request.length = static_cast<uint32_t>(bytes.size());
    if (method == wire::ChunkMethod::write) request.flags = wire::kChunkDurable;
    Call op;
    op.to = chain::address_of(placement.chain_of(0));
    op.method = static_cast<uint16_t>(method);
    op.request = wire::as_wire(request);
    op.exposures[0] = {{reinterpret_cast<std::byte*>(bytes.data()), bytes.size()}, access};
    op.exposure_count = 1;
    return say(op, participant_->net(0), kChunkMost);
  }

  struct Call : engine::CallOp {
    engine::Op* done = nullptr;
    engine::Loop* loop = nullptr;
    std::array<std::byte, engine::kNetMessageMax> answered{};
  };
  Status say(Call& op, engine::Net& net, engine::Duration time) {
    op.response = op.answered;
    op.loop = loop_.get();
    op.completion = [](engine::Op& ended) {
      auto& self = static_cast<Call&>(ended);
      self.loop->complete(*self.done, self.status);
    };
    return call([&](engine::Op& done) {
      op.done = &done;
      op.deadline = loop_->now() + time;
      net.call(op);
    });
  }

  // Nothing is kept.
  void drop(InodeId, holds::Hold, std::function<void()> done) override { done(); }
  void settle(InodeId, std::function<void()> done) override { done(); }
  void drop_names(InodeId, std::vector<std::string>, std::function<void()> done) override {
    done();
  }
  void drop_all(bool, std::function<void()> done) override { done(); }

  Result<std::optional<wire::Capability>> find(InodeId, uint64_t, uint8_t) override {
    return shown();
  }
  std::optional<wire::Capability> shown() {
    const std::lock_guard lock(mutex_);
    return shows_;
  }
  void drop(const wire::Capability&) override {}

  const NodeId names_;
  std::string why_not_;
  engine::SeededRandom random_{engine::system_seed()};
  std::unique_ptr<disk::DiskDriver> driver_;
  std::unique_ptr<engine::Loop> loop_;
  std::unique_ptr<cluster::Participant> participant_;
  std::thread thread_;
  std::atomic<uint64_t> session_{0};
  std::unique_ptr<holds_net::HoldsAgent> holds_;
  std::unique_ptr<locks_net::LocksAgent> locks_;
  std::unique_ptr<meta_net::RemoteMeta> meta_;
  locks::Open open_;
  std::mutex mutex_;
  std::optional<wire::Capability> shows_;  // under it
};

}  // namespace penstock::test
