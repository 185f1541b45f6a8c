#include "penstock/membership/member.h"

#include "pieces.h"
#include "sample_state.h"

#include <deque>
#include <gtest/gtest.h>

#include "penstock/sim.h"

namespace penstock::membership {
namespace {

using controller::Grant;
using controller::Heartbeat;
using controller::Incarnation;
using controller::MapVersion;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr engine::Address kFakeController{NodeId{1}, wire::kControllerService};
constexpr NodeId kSelf{2};
constexpr controller::NodeIncarnation kLife{5};
constexpr engine::Duration kLeaseGiven = seconds(4);

// Answers as the test says: questions for the map by its state, as soon as there is news; all
// others when the test comes to them.
class FakeController final : public engine::Service {
 public:
  explicit FakeController(sim::SimWorld& world) : world_(world) {}

  struct Asked {
    engine::IncomingCall* call = nullptr;
    Request request;
    engine::Time arrived{};
    std::string bytes;
    engine::TransferOp transfer;
    FakeController* owner = nullptr;
  };
  using Question = std::unique_ptr<Asked>;

  void on_call(engine::IncomingCall& call) override {
    auto* asked = new Asked;
    asked->call = &call;
    asked->owner = this;
    asked->arrived = world_.now();
    asked->bytes.resize(call.exposure_length(0));
    asked->transfer.call = &call;
    asked->transfer.local = {reinterpret_cast<std::byte*>(asked->bytes.data()),
                             asked->bytes.size()};
    asked->transfer.owner = asked;
    asked->transfer.completion = [](engine::Op& op) {
      FakeController& owner = *op.owner_as<Asked>().owner;
      owner.fetched(Question(&op.owner_as<Asked>()));
    };
    call.fetch(asked->transfer);
  }

  void answer(Question asked, const Answer& answer) {
    if (asked == nullptr) return;
    Asked* to = asked.release();
    to->bytes = encode(answer);
    to->transfer.exposure = 1;
    to->transfer.local = {reinterpret_cast<std::byte*>(to->bytes.data()), to->bytes.size()};
    to->transfer.completion = [](engine::Op& op) {
      const Question self(&op.owner_as<Asked>());
      const wire::MembershipResponse response{static_cast<uint32_t>(self->bytes.size())};
      self->call->reply(Code::ok, std::as_bytes(std::span(&response, 1)));
    };
    to->call->place(to->transfer);
  }
  // The map is published: who waits for news has it.
  void publish() {
    std::deque<Question> waiting = std::exchange(maps, {});
    for (Question& asked : waiting) answer_map(std::move(asked));
  }
  void let_go() {
    for (auto* list : {&maps, &others}) {
      for (Question& asked : *list) asked->call->reply(Code::peer_gone, {});
      list->clear();
    }
  }

  controller::State state = state_of(4, 6);
  bool answers_maps = true;
  std::deque<Question> maps;    // that wait
  std::deque<Question> others;  // heartbeats and all the rest, the oldest first
  size_t asked_maps = 0;

 private:
  void fetched(Question asked) {
    auto request = decode_request(asked->bytes);
    ASSERT_TRUE(request.has_value());
    asked->request = std::move(*request);
    if (!std::holds_alternative<AskMap>(asked->request)) return others.push_back(std::move(asked));
    ++asked_maps;
    answer_map(std::move(asked));
  }
  void answer_map(Question asked) {
    const auto& ask = std::get<AskMap>(asked->request);
    const bool waits = ask.from == MapPlace{} && ask.known == state.version;
    if (!answers_maps || waits) return maps.push_back(std::move(asked));
    const MapPiece piece = piece_of(state, ask.known, ask.from);
    answer(std::move(asked), piece);
  }

  sim::SimWorld& world_;
};

class MemberTest : public testing::Test, private LocalNode {
 protected:
  MemberTest() {
    net_.serve(kFakeController, controller_);
    member_ = Member::make({.controller = {&loop_, &own_, kFakeController},
                            .admitted = {{controller::Uuid{{9}}, kSelf, kLife}, kLeaseGiven},
                            .node = this,
                            .chains = &chains_});
  }
  ~MemberTest() override {
    member_ = nullptr;
    controller_.let_go();
    for (engine::Op* done : std::exchange(held_, {})) loop_.complete(*done, Code::ok);
    world_.run_for(seconds(4));
    controller_.let_go();
    world_.run_for(seconds(1));
  }

  // The next heartbeat that arrives, with the targets that are reported by now.
  FakeController::Question next(engine::Duration within = seconds(2)) {
    const auto there = [this] { return !controller_.others.empty(); };
    if (!world_.run_until(there, within)) return nullptr;
    auto asked = std::move(controller_.others.front());
    controller_.others.pop_front();
    return asked;
  }
  static const Heartbeat& heartbeat_of(const FakeController::Question& asked) {
    return std::get<Heartbeat>(asked->request);
  }
  // Answers heartbeats without leases until one says so.
  FakeController::Question await(const std::function<bool(const Heartbeat&)>& says) {
    for (int left = 40; left > 0; --left) {
      auto asked = next();
      if (asked == nullptr) return nullptr;
      if (says(heartbeat_of(asked))) return asked;
      const Grant grant = grant_for(asked, false);
      controller_.answer(std::move(asked), grant);
    }
    return nullptr;
  }
  Grant grant_for(const FakeController::Question& asked, bool lease) {
    Grant grant{kSelf, kLife, heartbeat_of(asked).from.sequence, controller_.state.version,
                lease, {}};
    for (const auto& target : heartbeat_of(asked).targets) {
      grant.targets.push_back({target.target, target.incarnation});
    }
    return grant;
  }
  void start_with_target(TargetId target = TargetId{2}) {
    member_->start();
    member_->serve({target, Incarnation{1}});
    auto reported = await([](const Heartbeat& beat) { return !beat.targets.empty(); });
    ASSERT_NE(reported, nullptr);
    controller_.answer(std::move(reported), grant_for_nothing());
  }
  static Answer grant_for_nothing() { return controller::Refused{Code::busy, "later"}; }
  // The first chain gets its next version.
  void change_chain() {
    controller::State& state = controller_.state;
    state.version.value++;
    state.chains[0].version.value++;
    state.chains[0].changed = state.version;
  }

  void fence(NodeId node, uint64_t lowest) {
    controller::State& state = controller_.state;
    state.version.value++;
    state.fences[node] = {node, lowest, state.version};
    controller_.publish();
  }

  void map_changed(const ClusterMap& map, const MapChanges& changes) override {
    changed_nodes_ += changes.nodes.size();
    EXPECT_GE(map.nodes().size(), changes.nodes.size());
  }
  void give(TargetId target, Orders orders, engine::Op& done) override {
    given_.push_back({target, std::move(orders)});
    if (holds_.contains(target)) return held_.push_back(&done);
    loop_.complete_remote(done, Code::ok);
  }
  void refused(Code code, const std::string& reason) override {
    EXPECT_FALSE(reason.empty());
    refusals_.push_back(code);
  }
  size_t leases_given() const {
    return static_cast<size_t>(std::count_if(given_.begin(), given_.end(), [](const auto& one) {
      return one.orders.lease_until.has_value();
    }));
  }

  struct Given {
    TargetId target;
    Orders orders;
  };
  sim::SimWorld world_{1};
  sim::SimNetwork network_{world_};
  sim::SimLoop loop_{world_, sim::LoopDriver::world_when_called};
  sim::SimNet net_{network_, loop_, NodeId{1}};
  sim::SimNet own_{network_, loop_, kSelf};
  FakeController controller_{world_};
  chain::KnownChains chains_{[](ChainId) {}};
  std::unique_ptr<Member> member_;
  std::vector<Given> given_;
  std::set<TargetId> holds_;  // targets that do not take their orders yet
  std::vector<engine::Op*> held_;
  std::vector<Code> refusals_;
  size_t changed_nodes_ = 0;
};

TEST_F(MemberTest, learns_the_map_and_reports_a_target_that_has_its_chains) {
  holds_.insert(TargetId{2});
  member_->start();
  member_->serve({TargetId{2}, Incarnation{1}});
  auto early = await([](const Heartbeat& beat) { return beat.applied == MapVersion{1}; });
  ASSERT_NE(early, nullptr) << "without targets it acts by what it knows";
  EXPECT_TRUE(heartbeat_of(early).targets.empty()) << "it has not taken its chains";
  EXPECT_EQ(changed_nodes_, 4U);
  ASSERT_EQ(given_.size(), 1U);
  EXPECT_EQ(given_[0].orders.views.size(), 6U);
  ASSERT_NE(chains_.find(chain_number(6)), nullptr);
  holds_.clear();
  loop_.complete(*std::exchange(held_, {}).at(0), Code::ok);
  auto reported = next(milliseconds(50));
  ASSERT_NE(reported, nullptr) << "at once";
  ASSERT_EQ(heartbeat_of(reported).targets.size(), 1U);
  EXPECT_EQ(heartbeat_of(reported).targets[0].incarnation, Incarnation{1});
}

TEST_F(MemberTest, a_lease_counts_from_the_sending_of_the_heartbeat) {
  start_with_target();
  auto asked = next();
  ASSERT_NE(asked, nullptr);
  const engine::Time arrived = asked->arrived;
  world_.run_for(milliseconds(1500));
  const Grant grant = grant_for(asked, true);
  controller_.answer(std::move(asked), grant);
  ASSERT_TRUE(world_.run_until([this] { return leases_given() == 1; }, seconds(1)));
  const engine::Time until = *given_.back().orders.lease_until;
  EXPECT_LE(until, arrived + kLeaseGiven);
  EXPECT_GE(until, arrived + kLeaseGiven - milliseconds(2)) << "and not from earlier";
  EXPECT_EQ(member_->lease_until(), until);
}

TEST_F(MemberTest, a_lease_waits_for_the_map_of_its_version) {
  start_with_target();
  controller_.answers_maps = false;
  change_chain();
  auto asked = next();
  ASSERT_NE(asked, nullptr);
  const uint64_t sequence = heartbeat_of(asked).from.sequence;
  const Grant grant = grant_for(asked, true);
  controller_.answer(std::move(asked), grant);
  auto later = next();
  ASSERT_NE(later, nullptr);
  EXPECT_EQ(leases_given(), 0U) << "the target does not know the version that it was given under";
  EXPECT_LT(heartbeat_of(later).answered, sequence);
  EXPECT_EQ(heartbeat_of(later).applied, MapVersion{1});
  controller_.answers_maps = true;
  controller_.publish();
  ASSERT_TRUE(world_.run_until([this] { return leases_given() == 1; }, seconds(1)));
  ASSERT_EQ(given_.back().orders.views.size(), 1U) << "the view goes before the lease";
  EXPECT_TRUE(given_.back().orders.lease_until.has_value());
  EXPECT_EQ(given_.back().orders.views[0].version, 2U);
  controller_.answer(std::move(later), grant_for_nothing());
  auto told = await([&](const Heartbeat& beat) { return beat.answered == sequence; });
  ASSERT_NE(told, nullptr);
  EXPECT_EQ(heartbeat_of(told).applied, MapVersion{2});
}

TEST_F(MemberTest, a_version_is_applied_when_all_targets_have_it) {
  start_with_target(TargetId{2});
  member_->serve({TargetId{1}, Incarnation{1}});
  auto both = await([](const Heartbeat& beat) { return beat.targets.size() == 2; });
  ASSERT_NE(both, nullptr);
  holds_.insert(TargetId{1});
  change_chain();
  controller_.publish();
  controller_.answer(std::move(both), grant_for_nothing());
  for (int left = 4; left > 0; --left) {
    auto asked = next();
    ASSERT_NE(asked, nullptr);
    EXPECT_EQ(heartbeat_of(asked).applied, MapVersion{1});
    EXPECT_EQ(member_->applied(), MapVersion{1});
    const Grant grant = grant_for(asked, true);
    EXPECT_LT(heartbeat_of(asked).answered, 4U);
    controller_.answer(std::move(asked), grant);
  }
  ASSERT_EQ(held_.size(), 1U) << "one at a time";
  holds_.clear();
  loop_.complete(*std::exchange(held_, {}).at(0), Code::ok);
  auto told = await([](const Heartbeat& beat) { return beat.applied == MapVersion{2}; });
  EXPECT_NE(told, nullptr);
}

TEST_F(MemberTest, a_fence_is_applied_when_all_targets_have_it_which_is_told_at_once) {
  start_with_target(TargetId{2});
  member_->serve({TargetId{1}, Incarnation{1}});
  auto both = await([](const Heartbeat& beat) { return beat.targets.size() == 2; });
  ASSERT_NE(both, nullptr);
  controller_.answer(std::move(both), grant_for_nothing());
  holds_.insert(TargetId{1});
  given_.clear();
  fence(NodeId{4}, 7);
  for (int left = 2; left > 0; --left) {
    auto asked = next();
    ASSERT_NE(asked, nullptr);
    EXPECT_EQ(heartbeat_of(asked).applied, MapVersion{1});
    controller_.answer(std::move(asked), grant_for_nothing());
  }
  ASSERT_EQ(given_.size(), 2U);
  for (const Given& given : given_) {
    const std::vector<wire::AgentSession> lowest = {{NodeId{4}, 7}};
    EXPECT_EQ(given.orders.lowest, lowest);
  }
  holds_.clear();
  loop_.complete(*std::exchange(held_, {}).at(0), Code::ok);
  auto told = next(milliseconds(50));
  ASSERT_NE(told, nullptr) << "whoever ordered it waits for that";
  EXPECT_EQ(heartbeat_of(told).applied, MapVersion{2});
}

TEST_F(MemberTest, a_target_that_is_opened_hears_of_all_fences_before_its_lease) {
  controller_.state.fences[NodeId{3}] = {NodeId{3}, 5, MapVersion{1}};
  member_->start();
  member_->serve({TargetId{2}, Incarnation{1}});
  holds_.insert(TargetId{2});
  auto first = await([](const Heartbeat& beat) { return beat.applied == MapVersion{1}; });
  ASSERT_NE(first, nullptr);
  EXPECT_TRUE(heartbeat_of(first).targets.empty());
  ASSERT_EQ(given_.size(), 1U);
  EXPECT_EQ(given_[0].orders.lowest, (std::vector<wire::AgentSession>{{NodeId{3}, 5}}));
  EXPECT_FALSE(given_[0].orders.lease_until.has_value());
  controller_.answer(std::move(first), grant_for_nothing());
  fence(NodeId{3}, 6);  // while it takes the first
  world_.run_for(milliseconds(100));
  holds_.clear();
  loop_.complete(*std::exchange(held_, {}).at(0), Code::ok);
  auto reported = await([](const Heartbeat& beat) { return !beat.targets.empty(); });
  ASSERT_NE(reported, nullptr);
  const Grant grant = grant_for(reported, true);
  controller_.answer(std::move(reported), grant);
  ASSERT_TRUE(world_.run_until([this] { return leases_given() == 1; }, seconds(1)));
  uint64_t known = 0;
  for (const Given& given : given_) {
    for (const wire::AgentSession& lowest : given.orders.lowest) known = lowest.number;
  }
  EXPECT_EQ(known, 6U);
  // Opened once more it knows nothing.
  member_->close(TargetId{2});
  given_.clear();
  member_->serve({TargetId{2}, Incarnation{2}});
  world_.run_for(milliseconds(10));
  ASSERT_FALSE(given_.empty());
  EXPECT_EQ(given_[0].orders.lowest, (std::vector<wire::AgentSession>{{NodeId{3}, 6}}));
}

TEST_F(MemberTest, grants_of_another_life_or_heartbeat_are_none) {
  start_with_target();
  const auto spoil = [this](const std::function<void(Grant&)>& how) {
    auto asked = next();
    ASSERT_NE(asked, nullptr);
    Grant grant = grant_for(asked, true);
    how(grant);
    controller_.answer(std::move(asked), grant);
    world_.run_for(milliseconds(20));
  };
  spoil([](Grant& grant) { grant.node_incarnation = controller::NodeIncarnation{4}; });
  spoil([](Grant& grant) { grant.node = NodeId{3}; });
  spoil([](Grant& grant) { grant.sequence -= 1; });
  spoil([](Grant& grant) { grant.targets[0].incarnation = Incarnation{2}; });
  spoil([](Grant& grant) { grant.lease = false; });
  EXPECT_EQ(leases_given(), 0U);
  spoil([](Grant&) {});
  EXPECT_EQ(leases_given(), 1U);
}

TEST_F(MemberTest, tells_at_once_what_hosts_report_and_each_once) {
  start_with_target();
  auto asked = next();
  ASSERT_NE(asked, nullptr);
  controller_.answer(std::move(asked), grant_for_nothing());
  world_.run_for(milliseconds(100));
  const chain::Report repaired{chain::Report::Kind::repaired, chain_number(3), 1, TargetId{1}};
  member_->report(TargetId{2}, repaired);
  member_->report(TargetId{2}, repaired);
  auto told = next(milliseconds(50));
  ASSERT_NE(told, nullptr) << "before the next interval is over";
  ASSERT_EQ(heartbeat_of(told).reports.size(), 1U);
  const controller::ChainReport& report = heartbeat_of(told).reports[0];
  EXPECT_EQ(report.kind, controller::ChainReport::Kind::repaired);
  EXPECT_EQ(report.chain, chain_number(3));
  EXPECT_EQ(report.reporter, TargetId{2});
  EXPECT_EQ(report.version, controller::ChainVersion{1});
  controller_.answer(std::move(told), grant_for_nothing());
  auto after = next();
  ASSERT_NE(after, nullptr);
  EXPECT_TRUE(heartbeat_of(after).reports.empty());
}

TEST_F(MemberTest, accuses_who_is_not_reached_for_a_while_and_nobody_who_was_missed_once) {
  start_with_target();
  const chain::Report missed{chain::Report::Kind::unreachable, chain_number(1), 1, TargetId{1}};
  const auto accused = [this] {
    auto asked = next();
    if (asked == nullptr) return std::vector<NodeId>{kSelf};
    const std::vector<NodeId> said = heartbeat_of(asked).accused;
    controller_.answer(std::move(asked), grant_for_nothing());
    return said;
  };
  member_->report(TargetId{2}, missed);
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(accused().empty());
  const engine::Time begun = world_.now();
  std::vector<NodeId> said;
  while (said.empty() && world_.now() - begun < seconds(5)) {
    member_->report(TargetId{2}, missed);
    said = accused();
  }
  EXPECT_EQ(said, std::vector<NodeId>{NodeId{1}});
  EXPECT_GE(world_.now() - begun, limits::kAccuseAfter);
  for (int i = 0; i < 4; ++i) said = accused();
  EXPECT_TRUE(said.empty()) << "it was reached since";
}

TEST_F(MemberTest, ends_when_it_is_refused_for_good_and_not_before) {
  start_with_target();
  for (const Code passing : {Code::busy, Code::not_serving, Code::wrong_version}) {
    auto asked = next();
    ASSERT_NE(asked, nullptr);
    controller_.answer(std::move(asked), controller::Refused{passing, "not now"});
  }
  auto asked = next();
  ASSERT_NE(asked, nullptr);
  EXPECT_TRUE(refusals_.empty());
  controller_.answer(std::move(asked), controller::Refused{Code::stale, "another process"});
  ASSERT_TRUE(world_.run_until([this] { return !refusals_.empty(); }, seconds(1)));
  EXPECT_EQ(refusals_, std::vector<Code>{Code::stale});
  while (auto rest = next()) controller_.answer(std::move(rest), grant_for_nothing());
  const size_t asked_maps = controller_.asked_maps;
  world_.run_for(seconds(5));
  EXPECT_TRUE(controller_.others.empty());
  EXPECT_EQ(controller_.asked_maps, asked_maps);
  EXPECT_EQ(refusals_.size(), 1U);
}

TEST_F(MemberTest, opens_a_target_as_long_as_it_takes_and_not_one_that_is_refused) {
  member_->start();
  std::vector<Outcome<TargetIdentity>> outcomes;
  const auto open = [&] {
    member_->open({.uuid = controller::Uuid{{3}}, .held = Incarnation{7}},
                  [&](Outcome<TargetIdentity> outcome) { outcomes.push_back(std::move(outcome)); });
  };
  const auto next_open = [&]() -> FakeController::Question {
    for (int left = 20; left > 0; --left) {
      auto asked = next();
      if (asked == nullptr) return nullptr;
      if (std::holds_alternative<controller::OpenTarget>(asked->request)) return asked;
      controller_.answer(std::move(asked), grant_for_nothing());
    }
    return nullptr;
  };
  open();
  auto first = next_open();
  ASSERT_NE(first, nullptr);
  const auto said = std::get<controller::OpenTarget>(first->request);
  EXPECT_EQ(said.held, Incarnation{7});
  EXPECT_NE(said.opening, 0U);
  controller_.answer(std::move(first), controller::Refused{Code::in_use, "elsewhere"});
  auto second = next_open();
  ASSERT_NE(second, nullptr);
  const auto again = std::get<controller::OpenTarget>(second->request);
  EXPECT_EQ(again.opening, said.opening);
  EXPECT_GT(again.from.sequence, said.from.sequence);
  EXPECT_TRUE(outcomes.empty());
  controller_.answer(std::move(second),
                     controller::Opened{kSelf, kLife, said.opening, TargetId{4}, Incarnation{8}});
  ASSERT_TRUE(world_.run_until([&] { return outcomes.size() == 1; }, seconds(1)));
  ASSERT_TRUE(outcomes[0].has_value());
  EXPECT_EQ(outcomes[0]->id, TargetId{4});
  EXPECT_EQ(outcomes[0]->incarnation, Incarnation{8});
  open();
  auto third = next_open();
  ASSERT_NE(third, nullptr);
  controller_.answer(std::move(third), controller::Refused{Code::stale, "a copy"});
  ASSERT_TRUE(world_.run_until([&] { return outcomes.size() == 2; }, seconds(1)));
  EXPECT_FALSE(outcomes[1].has_value());
  // One that is in use for long is so for good.
  open();
  while (outcomes.size() == 2) {
    auto asked = next_open();
    ASSERT_NE(asked, nullptr);
    controller_.answer(std::move(asked), controller::Refused{Code::in_use, "open on node 3"});
    world_.run_for(milliseconds(10));
  }
  ASSERT_FALSE(outcomes[2].has_value());
  EXPECT_EQ(outcomes[2].error().message, "open on node 3");
}

TEST_F(MemberTest, asks_beside_a_question_that_may_be_lost) {
  start_with_target();
  world_.run_for(milliseconds(100));
  ASSERT_EQ(controller_.maps.size(), 1U);
  const auto lost = std::move(controller_.maps.front());
  controller_.maps.clear();
  change_chain();
  member_->refresh();
  ASSERT_TRUE(world_.run_until([this] { return member_->map().version() == MapVersion{2}; },
                               milliseconds(100)));
  const size_t asked = controller_.asked_maps;
  for (int i = 0; i < 50; ++i) member_->refresh();
  world_.run_for(milliseconds(200));
  EXPECT_LE(controller_.asked_maps, asked + 1);
  lost->call->reply(Code::peer_gone, {});
}

TEST_F(MemberTest, leaves_in_order_and_asks_nothing_after_that) {
  start_with_target();
  while (auto asked = next(milliseconds(1))) controller_.answer(std::move(asked), Done{});
  struct Done_ : engine::Op {
    bool ended = false;
  } done;
  done.completion = [](engine::Op& op) { static_cast<Done_&>(op).ended = true; };
  member_->close(TargetId{2});
  member_->leave(done);
  auto asked = next();
  ASSERT_NE(asked, nullptr);
  ASSERT_TRUE(std::holds_alternative<controller::Leave>(asked->request));
  controller_.answer(std::move(asked), controller::Refused{Code::not_serving, "not now"});
  auto again = next();
  ASSERT_NE(again, nullptr);
  ASSERT_TRUE(std::holds_alternative<controller::Leave>(again->request));
  EXPECT_FALSE(done.ended);
  controller_.answer(std::move(again), Done{});
  ASSERT_TRUE(world_.run_until([&] { return done.ended; }, seconds(1)));
  EXPECT_TRUE(done.status.ok());
  world_.run_for(seconds(3));
  EXPECT_TRUE(controller_.others.empty());
}

}  // namespace
}  // namespace penstock::membership
