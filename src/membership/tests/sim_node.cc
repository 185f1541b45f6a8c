#include "sim_node.h"

#include "question.h"

#include <utility>

namespace penstock::membership {

using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr uint32_t kGuests = 100'000;  // numbers that no node has

}  // namespace

class SimNode::Process final : private LocalNode {
 public:
  explicit Process(SimNode& node)
      : node_(node),
        world_(node.world_),
        speaks_(release_of(node)),
        loop_(world_, sim::LoopDriver::world_when_called),
        host_loop_(world_, sim::LoopDriver::world_when_called),
        guest_(node.network_, loop_, NodeId{kGuests + node.number()}),
        chains_([this](ChainId) {
          if (member_ != nullptr) member_->refresh();
        }) {
    for (uint8_t& byte : uuid_.bytes) byte = static_cast<uint8_t>(1 + world_.random().below(255));
    if (node.has_storage()) store_ = &node.storage().begin(host_loop_);
    if (node.is_controller()) {
      start_controller();
      admit();
    } else {
      ask_to_join();
    }
  }

  void kill(bool power_cut) {
    *alive_ = false;
    for (sim::SimNet* net : {&guest_, controller_net_.get(), net_.get(), host_net_.get()}) {
      if (net != nullptr) net->kill();
    }
    if (node_.has_storage()) node_.storage().die(power_cut);
    if (node_.is_controller()) {
      if (power_cut) {
        node_.config_.records->power_cut();
      } else {
        node_.config_.records->kill();
      }
    }
    host_ = nullptr;
    member_ = nullptr;
    stop_controller();
  }
  void stop_controller() {
    if (service_ == nullptr) return;
    const Status stopped = engine::thread_caller().call(
        controller_loop_.value(), [this](engine::Op& done) { service_->stop(done); });
    ASSERT(stopped.ok());
    service_ = nullptr;
  }
  Status leave() {
    close_target();
    return engine::thread_caller().call(loop_, [this](engine::Op& done) { member_->leave(done); });
  }
  Result<Answer> ask(const Request& request, engine::Duration patience) {
    AskOp op;
    op.config = {&loop_, net_.get(), kController, speaks_};
    op.request = request;
    struct Waiter {
      engine::Loop* loop = nullptr;
      engine::Op* done = nullptr;
    } waiter;
    const Status status = engine::thread_caller().call(loop_, [&](engine::Op& done) {
      waiter = {&loop_, &done};
      op.owner = &waiter;
      op.completion = [](engine::Op& ended) {
        const auto& self = ended.owner_as<Waiter>();
        self.loop->complete(*self.done, ended.status);
      };
      op.deadline = loop_.now() + patience;
      membership::ask(op);
    });
    if (!status.ok()) return status;
    return op.answer;
  }
  std::unique_ptr<test::Registers> registers(test::History& history, uint32_t chains) {
    ASSERT(member_ != nullptr);
    if (chain_net_ == nullptr) {
      chain_net_ = chain::ChainNet::make({.loop = &loop_,
                                          .net = net_.get(),
                                          .chains = &chains_,
                                          .node = node_.id_,
                                          .incarnation = incarnation_.value,
                                          .first_slot = 0,
                                          .slots = 2,
                                          .session = node_.config_.session});
    }
    return std::make_unique<test::Registers>(world_, loop_, *chain_net_, history, node_.number(),
                                             chains);
  }

  Member* member() { return member_.get(); }
  chain::Host* host() { return host_.get(); }
  store::ChainStore* store() { return store_; }
  ControllerService* service() { return service_.get(); }

 private:
  static wire::Protocol release_of(SimNode& node) {
    const uint32_t newest = node.config_.newest;
    const uint32_t highest =
        newest == 1 ? 1 : newest - static_cast<uint32_t>(node.world_.random().below(2));
    return {std::max(highest, 2U) - 1, highest, 0};
  }

  controller::Join join() const {
    controller::Join join{.cluster = kCluster, .node = uuid_of(node_.number()), .process = uuid_};
    join.facts.name = "n" + std::to_string(node_.number());
    join.facts.features = wire::features_of(speaks_);
    join.facts.roles = node_.has_storage() ? controller::kRoleStorage : controller::kRoleAgent;
    return join;
  }

  void start_controller() {
    controller_loop_.emplace(world_, sim::LoopDriver::world_when_called);
    controller_net_ =
        std::make_unique<sim::SimNet>(node_.network_, *controller_loop_, kControllerNode);
    kv_.emplace(*node_.config_.records);
    ControllerServiceConfig config{.loop = &*controller_loop_,
                                   .net = controller_net_.get(),
                                   .node = kControllerNode,
                                   .keeper = {.kv = &*kv_,
                                              .clock = &world_.clock(),
                                              .process = uuid_,
                                              .cluster = kCluster,
                                              .timing = node_.config_.timing},
                                   .seed = world_.random().next()};
    config.map_wait = node_.config_.timing.lease / 2;
    config.speaks = speaks_;
    service_ = ControllerService::make(config);
    service_->start();
  }

  // It holds the lock of its directory: no process of it can be running any more.
  void admit() {
    controller::Join asked = join();
    asked.predecessor_ended = true;
    service_->admit(asked, [this, alive = alive_](const Answer& answer) {
      if (!*alive) return;
      if (const auto* admitted = std::get_if<Admitted>(&answer)) return joined(*admitted);
      world_.after(milliseconds(100), "node.admit", [this, alive] {
        if (*alive) admit();
      });
    });
  }

  void ask_to_join() {
    join_.config = {&loop_, &guest_, kController, speaks_};
    join_.join = join();
    join_.owner = this;
    join_.completion = [](engine::Op& op) {
      auto& self = op.owner_as<Process>();
      if (!*self.alive_) return;
      if (op.status.ok()) return self.joined(self.join_.admitted);
      self.node_.refusal_ = self.join_.refusal;
    };
    membership::join(join_);
  }

  void joined(const Admitted& admitted) {
    const NodeId id = admitted.admission.node;
    ASSERT(node_.id_ == NodeId() || node_.id_ == id);
    ASSERT(node_.is_controller() == (id == kControllerNode));
    node_.id_ = id;
    incarnation_ = admitted.admission.incarnation;
    world_.trace("node.joined", node_.number(), incarnation_.value);
    net_ = std::make_unique<sim::SimNet>(node_.network_, loop_, id);
    host_net_ = std::make_unique<sim::SimNet>(node_.network_, host_loop_, id);
    member_ = Member::make({.controller = {&loop_, net_.get(), kController, speaks_},
                            .admitted = admitted,
                            .node = this,
                            .chains = &chains_});
    lease_ = admitted.lease;
    member_->start();
    if (!node_.has_storage()) return;
    member_->open(
        {.uuid = uuid_of(10'000 + node_.number()), .held = node_.kept_, .capacity_bytes = kGiB},
        [this](const Outcome<TargetIdentity>& opened) {
          if (opened) return keep(*opened);
          node_.refusal_ = opened.error().message;
        });
  }

  // Keeping it takes a moment; nothing is said of it before.
  void keep(const TargetIdentity& identity) {
    ASSERT(node_.target_ == TargetId() || node_.target_ == identity.id);
    world_.after(world_.between(milliseconds(0), milliseconds(20)), "node.keep",
                 [this, alive = alive_, identity] {
                   if (!*alive) return;
                   ASSERT(identity.incarnation > node_.kept_);
                   node_.kept_ = identity.incarnation;
                   node_.target_ = identity.id;
                   serve(identity);
                 });
  }
  void serve(const TargetIdentity& identity) {
    host_ = chain::Host::make({.target = identity.id,
                               .incarnation = identity.incarnation.value,
                               .loop = &host_loop_,
                               .net = host_net_.get(),
                               .store = store_,
                               .speaks = speaks_,
                               .report = [this, id = identity.id](const chain::Report& report) {
                                 if (member_ != nullptr) member_->report(id, report);
                               }});
    host_net_->serve(replica_address(node_.id_, identity.id), host_->service());
    member_->serve(identity);
  }
  void close_target() {
    if (host_ == nullptr) return;
    host_net_->withdraw(replica_address(node_.id_, node_.target_));
    host_ = nullptr;
    member_->close(node_.target_);
  }

  void map_changed(const ClusterMap&, const MapChanges&) override {}
  void give(TargetId target, Orders orders, engine::Op& done) override {
    ASSERT(target == node_.target_);
    ASSERT(!orders.lease_until || *orders.lease_until <= world_.now() + lease_);
    auto& op = Task<engine::Op>::make(
        [this, alive = alive_, orders = std::move(orders), &done](Task<engine::Op>&) {
          if (*alive && host_ != nullptr) {
            for (const wire::AgentSession& lowest : orders.lowest) host_->fence(lowest);
            for (const chain::View& view : orders.views) host_->adopt(view);
            for (const ChainId chain : orders.others) host_->leave(chain);
            if (orders.lease_until) host_->lease(*orders.lease_until);
          }
          loop_.complete_remote(done, Code::ok);
        });
    world_.after(world_.between(engine::Duration::zero(), node_.config_.give_max), "node.give",
                 [this, &op] { host_loop_.complete_remote(op, Code::ok); });
  }
  void refused(Code code, const std::string& reason) override {
    world_.trace("node.refused", node_.number(), static_cast<uint64_t>(code));
    node_.refusal_ = reason;
  }

  SimNode& node_;
  sim::SimWorld& world_;
  const wire::Protocol speaks_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  controller::Uuid uuid_;
  sim::SimLoop loop_;
  sim::SimLoop host_loop_;
  std::optional<sim::SimLoop> controller_loop_;
  sim::SimNet guest_;
  std::unique_ptr<sim::SimNet> controller_net_, net_, host_net_;
  std::optional<sim::SimKv> kv_;
  chain::KnownChains chains_;
  store::ChainStore* store_ = nullptr;
  JoinOp join_;
  controller::NodeIncarnation incarnation_;
  engine::Duration lease_{};
  std::unique_ptr<ControllerService> service_;
  std::unique_ptr<Member> member_;
  std::unique_ptr<chain::Host> host_;
  std::unique_ptr<chain::ChainNet> chain_net_;
};

SimNode::SimNode(sim::SimWorld& world, sim::SimNetwork& network, SimNodeConfig config)
    : world_(world), network_(network), config_(std::move(config)) {}

SimNode::~SimNode() {
  ASSERT(process_ == nullptr);
}

void SimNode::start() {
  ASSERT(process_ == nullptr);
  refusal_.clear();
  process_ = std::make_unique<Process>(*this);
}

void SimNode::die(bool power_cut) {
  world_.trace("node.dies", number(), power_cut ? 1 : 0);
  ASSERT(process_ != nullptr);
  process_->kill(power_cut);
  end();
}

Status SimNode::leave() {
  const Status status = process_->leave();
  world_.trace("node.left", number(), static_cast<uint64_t>(status.code()));
  process_->stop_controller();
  process_->kill(false);
  end();
  return status;
}

// Calls and timers that were under way end; nobody hears of it.
void SimNode::end() {
  world_.run_for(seconds(2));
  process_ = nullptr;
  if (has_storage()) storage().end();
}

Member* SimNode::member() {
  return process_ == nullptr ? nullptr : process_->member();
}
chain::Host* SimNode::host() {
  return process_ == nullptr ? nullptr : process_->host();
}
store::ChainStore* SimNode::store() {
  return process_ == nullptr ? nullptr : process_->store();
}
ControllerService* SimNode::service() {
  return process_ == nullptr ? nullptr : process_->service();
}
std::unique_ptr<test::Registers> SimNode::registers(test::History& history, uint32_t chains) {
  return process_->registers(history, chains);
}
Result<Answer> SimNode::ask(const Request& request, engine::Duration patience) {
  return process_->ask(request, patience);
}

}  // namespace penstock::membership
