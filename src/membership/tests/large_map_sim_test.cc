// A map of the largest clusters, on its way to many nodes at once.
#include "sim_node.h"

#include <gtest/gtest.h>

#include "penstock/membership.h"

namespace penstock::membership {
namespace {

using controller::Incarnation;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr uint32_t kNodes = 1000;
constexpr uint32_t kManyChains = 20'000;
constexpr uint32_t kMembers = 100;

// Nodes that joined, with a target each, and a table over all of them.
controller::State large_state() {
  controller::State state;
  state.cluster = kCluster;
  const engine::Time now{seconds(1)};
  controller::begin(state, now);
  const auto say = [&](const controller::Event& event) {
    controller::Actions actions = controller::step(state, event, now);
    while (actions.more) actions.more = controller::step(state, controller::Tick{}, now).more;
  };
  for (uint32_t number = 1; number <= kNodes; ++number) {
    controller::Join join{.cluster = kCluster, .node = uuid_of(number), .process = uuid_of(number)};
    join.facts.name = "node" + std::to_string(number) + ".of.a.large.cluster";
    join.facts.cards = {{"10.0.0." + std::to_string(number), 7000, 0, 0}};
    say(join);
    const controller::Sender from{NodeId{number}, controller::NodeIncarnation{1}, 1};
    say(controller::OpenTarget{.from = from,
                               .target = uuid_of(100'000 + number),
                               .held = {},
                               .opening = number,
                               .capacity_bytes = kTiB});
    controller::Heartbeat beat;
    beat.from = {NodeId{number}, controller::NodeIncarnation{1}, 2};
    beat.targets.push_back({TargetId{number}, Incarnation{1}});
    say(beat);
  }
  controller::CreateTable create;
  create.copies = 3;
  for (uint32_t chain = 0; chain < kManyChains; ++chain) {
    auto& targets = create.chains.emplace_back();
    for (uint32_t copy = 0; copy < 3; ++copy) {
      targets.emplace_back(1 + (chain * 7 + copy * 331) % kNodes);
    }
  }
  say(create);
  return state;
}

void keep(const controller::State& state, engine::Kv& kv) {
  using controller::key_of;
  using controller::RecordKind;
  const Status kept =
      kv.run(engine::KvMode::write_durable, [&](engine::KvTransaction& transaction) -> Status {
        const auto put = [&](RecordKind kind, const auto& records) {
          for (const auto& record : records) {
            transaction.put(key_of(kind, record.id.value), controller::encode(record));
          }
        };
        // Its last controller has ended in order.
        const controller::LeaseRecord nobody{1, {}, 1};
        transaction.put(key_of(RecordKind::lease), controller::encode(nobody));
        transaction.put(key_of(RecordKind::root), controller::encode(root_of(state)));
        put(RecordKind::node, state.nodes);
        put(RecordKind::target, state.targets);
        put(RecordKind::table, state.tables);
        put(RecordKind::chain, state.chains);
        return Code::ok;
      });
  ASSERT_TRUE(kept.ok());
}

// A node that has nothing but its member.
class Listener final : private LocalNode {
 public:
  Listener(sim::SimWorld& world, sim::SimNetwork& network, NodeId id)
      : world_(world),
        loop_(world, sim::LoopDriver::world_when_called),
        net_(network, loop_, id),
        chains_([](ChainId) {}),
        member_(Member::make(
            {.controller = {&loop_, &net_, kController},
             .admitted = {{uuid_of(id.value), id, controller::NodeIncarnation{1}}, seconds(4)},
             .node = this,
             .chains = &chains_})) {
    member_->start();
  }
  void end() {
    net_.kill();
    member_ = nullptr;
  }
  Result<Answer> ask(const Request& request) {
    AskOp op;
    op.config = {&loop_, &net_, kController};
    op.request = request;
    bool ended = false;
    op.owner = &ended;
    op.completion = [](engine::Op& done) { done.owner_as<bool>() = true; };
    membership::ask(op);
    world_.run_until([&] { return ended; });
    if (!op.status.ok()) return op.status;
    return op.answer;
  }
  const Member& member() const { return *member_; }
  const chain::KnownChains& chains() const { return chains_; }
  size_t nodes_told() const { return nodes_told_; }

 private:
  void map_changed(const ClusterMap&, const MapChanges& changes) override {
    nodes_told_ += changes.nodes.size();
  }
  void give(TargetId, Orders, engine::Op& done) override { loop_.complete(done, Code::ok); }
  void refused(Code, const std::string& reason) override { ADD_FAILURE() << reason; }

  sim::SimWorld& world_;
  sim::SimLoop loop_;
  sim::SimNet net_;
  chain::KnownChains chains_;
  std::unique_ptr<Member> member_;
  size_t nodes_told_ = 0;
};

TEST(MembershipSim, a_map_of_the_largest_clusters_reaches_many_nodes_within_a_second) {
  sim::SimWorld world(1);
  sim::SimNetwork network(world);
  sim::SimKvImage records(world);
  sim::SimKv kv(records);
  const controller::State state = large_state();
  ASSERT_EQ(controller::find_fault(state), "");
  keep(state, kv);
  sim::SimLoop loop(world, sim::LoopDriver::world_when_called);
  sim::SimNet net(network, loop, kControllerNode);
  auto service = ControllerService::make({.loop = &loop,
                                          .net = &net,
                                          .node = kControllerNode,
                                          .keeper = {.kv = &kv,
                                                     .clock = &world.clock(),
                                                     .process = uuid_of(5),
                                                     .cluster = kCluster,
                                                     .timing = {}}});
  service->start();
  ASSERT_TRUE(world.run_until([&] { return service->status().leads; }, seconds(10)));

  std::vector<std::unique_ptr<Listener>> listeners;
  for (uint32_t i = 0; i < kMembers; ++i) {
    listeners.push_back(std::make_unique<Listener>(world, network, NodeId{2 + i}));
  }
  const auto all_know = [&] {
    return std::all_of(listeners.begin(), listeners.end(), [&](const auto& listener) {
      return listener->member().map().version() == service->status().version;
    });
  };
  EXPECT_TRUE(world.run_until(all_know, seconds(1))) << "the whole map";
  for (const auto& listener : listeners) {
    EXPECT_EQ(listener->member().map().chains().size(), kManyChains);
    EXPECT_EQ(listener->nodes_told(), kNodes);
  }
  const ChainId last{kFirstSharedChain.value + kManyChains - 1};
  ASSERT_NE(listeners[0]->chains().find(last), nullptr);
  EXPECT_EQ(listeners[0]->chains().find(last)->members.size(), 3U);

  // News, which all of them wait for.
  const controller::MapVersion before = service->status().version;
  Result<Answer> drained = listeners[0]->ask(controller::Drain{NodeId{500}, true});
  ASSERT_TRUE(drained.has_value());
  EXPECT_TRUE(std::holds_alternative<Done>(*drained));
  ASSERT_TRUE(world.run_until([&] { return service->status().version > before; }, seconds(1)));
  EXPECT_TRUE(world.run_until(all_know, milliseconds(10))) << "news";
  EXPECT_EQ(listeners[7]->member().map().find(NodeId{500})->standing,
            controller::Standing::draining);

  for (const auto& listener : listeners) listener->end();
  const Status stopped =
      engine::thread_caller().call(loop, [&](engine::Op& done) { service->stop(done); });
  EXPECT_TRUE(stopped.ok());
  service = nullptr;
  world.run_for(seconds(2));
}

}  // namespace
}  // namespace penstock::membership
