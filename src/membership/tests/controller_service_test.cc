#include "tests/service_rig.h"

namespace penstock::membership {
namespace {

using controller::key_of;
using controller::RecordKind;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_F(ServiceTest, answers_after_the_commit_and_not_before) {
  ASSERT_TRUE(leads());
  records_.faults.delay_min = records_.faults.delay_max = milliseconds(300);
  Asked op;
  begin(op, join_of(1), guest_, seconds(10));
  while (!op.ended) {
    EXPECT_FALSE(op.ended);
    world_.run_for(milliseconds(1));
  }
  ASSERT_TRUE(op.status.ok());
  EXPECT_TRUE(std::holds_alternative<Admitted>(op.answer));
  EXPECT_TRUE(records_.content().contains(key_of(RecordKind::node, 1))) << "it may be lost again";
  // A commit that fails is no admission; what is asked again is.
  records_.faults = {};
  records_.faults.conflict_permille = 1000;
  Asked failing;
  begin(failing, join_of(2), guest_, seconds(20));
  world_.run_for(seconds(1));
  EXPECT_FALSE(failing.ended);
  EXPECT_FALSE(records_.content().contains(key_of(RecordKind::node, 2)));
  records_.faults = {};
  EXPECT_TRUE(end(failing));
  EXPECT_TRUE(std::holds_alternative<Admitted>(failing.answer));
}

TEST_F(ServiceTest, a_question_for_the_map_waits_for_news_or_for_its_time) {
  ASSERT_TRUE(leads());
  let_in();
  const engine::Time begun = world_.now();
  auto nothing = ask_as(peer_, AskMap{version(), {}});
  ASSERT_TRUE(nothing.has_value());
  EXPECT_TRUE(std::get<MapPiece>(*nothing).records.empty());
  EXPECT_EQ(std::get<MapPiece>(*nothing).version, version());
  EXPECT_GE(world_.now() - begun, controller::limits::kLease / 2);

  Asked waiting;
  begin(waiting, AskMap{version(), {}}, peer_, seconds(10));
  world_.run_for(milliseconds(500));
  EXPECT_EQ(service_->status().held, 1U);
  EXPECT_FALSE(waiting.ended);
  const auto joined = ask_as(guest_, join_of(3));
  ASSERT_TRUE(joined.has_value());
  world_.run_for(milliseconds(10));
  ASSERT_TRUE(waiting.ended) << "there is news";
  const auto& piece = std::get<MapPiece>(waiting.answer);
  ASSERT_EQ(piece.records.size(), 1U);
  EXPECT_EQ(piece.records[0].at, (MapPlace{RecordKind::node, 3}));
  EXPECT_EQ(service_->status().held, 0U);
  // One that begins within the map, or knows less, is answered at once.
  const engine::Time then = world_.now();
  const auto rest = ask_as(peer_, AskMap{version(), {RecordKind::target, 1}});
  EXPECT_TRUE(rest.has_value());
  EXPECT_LT(world_.now() - then, milliseconds(50));
  // A controller of an earlier time has nothing for who knows more.
  const auto behind = ask_as(peer_, AskMap{controller::MapVersion{1000}, {}}, milliseconds(300));
  ASSERT_FALSE(behind.has_value());
  EXPECT_EQ(behind.error(), Code::not_serving);
}

// Node 2 has a target, of which the test says what it has applied.
TEST_F(ServiceTest, a_fence_is_ordered_until_it_is_in_force) {
  ASSERT_TRUE(leads());
  let_in();
  const controller::Fence order{NodeId{2}, 5};
  auto done = ask_as(net_, order);
  ASSERT_TRUE(done.has_value());
  EXPECT_TRUE(std::holds_alternative<Done>(*done)) << "nothing may serve";
  uint64_t sequence = 0;
  const auto sender = [&] {
    return controller::Sender{NodeId{2}, controller::NodeIncarnation{1}, ++sequence};
  };
  const auto opened = ask_as(
      peer_, controller::OpenTarget{.from = sender(), .target = {{4}}, .held = {}, .opening = 9});
  ASSERT_TRUE(opened.has_value() && std::holds_alternative<controller::Opened>(*opened));
  const auto beat = [&](controller::MapVersion applied) {
    controller::Heartbeat heartbeat;
    heartbeat.from = sender();
    heartbeat.applied = applied;
    heartbeat.targets = {{TargetId{1}, std::get<controller::Opened>(*opened).incarnation}};
    const auto answer = ask_as(peer_, heartbeat);
    return answer && std::holds_alternative<controller::Grant>(*answer);
  };
  const controller::MapVersion before = version();
  ASSERT_TRUE(beat(before));
  EXPECT_TRUE(std::holds_alternative<Done>(*ask_as(net_, order))) << "it has been for long";
  const controller::Fence higher{NodeId{2}, 6};
  EXPECT_EQ(ask_as(net_, higher, milliseconds(500)).error(), Code::busy);
  Asked waiting;
  begin(waiting, higher, net_, seconds(10));
  world_.run_for(milliseconds(100));
  ASSERT_TRUE(beat(before));
  EXPECT_FALSE(waiting.ended);
  ASSERT_TRUE(beat(version()));
  ASSERT_TRUE(end(waiting) && waiting.status.ok());
  EXPECT_TRUE(std::holds_alternative<Done>(waiting.answer));
  EXPECT_EQ(code_of(ask_as(net_, controller::Fence{NodeId{9}, 1})), Code::not_found);
}

TEST_F(ServiceTest, only_nodes_may_ask_and_only_for_themselves) {
  ASSERT_TRUE(leads());
  let_in();
  EXPECT_EQ(code_of(ask_as(guest_, AskHealth{})), Code::access_denied);
  EXPECT_EQ(code_of(ask_as(guest_, controller::Drain{NodeId{1}, true})), Code::access_denied);
  EXPECT_EQ(code_of(ask_as(guest_, AskMap{})), Code::access_denied);
  controller::Heartbeat beat;
  beat.from = {NodeId{1}, controller::NodeIncarnation{1}, 1};
  const auto as_another = ask_as(peer_, beat);
  ASSERT_FALSE(as_another.has_value());
  EXPECT_EQ(as_another.error(), Code::access_denied);
  beat.from.node = NodeId{2};
  const auto as_itself = ask_as(peer_, beat);
  ASSERT_TRUE(as_itself.has_value());
  EXPECT_TRUE(std::get<controller::Grant>(*as_itself).lease);
  const auto health = ask_as(peer_, AskHealth{});
  ASSERT_TRUE(health.has_value());
  EXPECT_EQ(std::get<controller::Health>(*health).nodes, 2U);
  const auto nodes = ask_as(peer_, AskNodes{NodeId{2}});
  ASSERT_TRUE(nodes.has_value());
  const auto& piece = std::get<NodesPiece>(*nodes);
  ASSERT_EQ(piece.nodes.size(), 1U);
  EXPECT_EQ(piece.nodes[0].id, NodeId{2});
  EXPECT_FALSE(piece.nodes[0].silent);
  EXPECT_GE(piece.nodes[0].heard_ago, engine::Duration::zero());
}

TEST_F(ServiceTest, refuses_what_cannot_be_a_question) {
  ASSERT_TRUE(leads());
  const std::string good = encode(Request(AskHealth{}));
  RawCall garbage(good.substr(1), 1000), no_room(good, 3), later(good, 1000), longer(good, 1000),
      other(good, 1000), one(good, 1000);
  EXPECT_EQ(call(guest_, garbage), Code::bad_message);
  EXPECT_EQ(call(guest_, no_room), Code::result_too_large);
  later.words.version = wire::kNodeVersion + 1;
  EXPECT_EQ(call(guest_, later), Code::wrong_version);
  longer.words.length += 1;
  EXPECT_EQ(call(guest_, longer), Code::bad_message);
  other.method = 65;
  EXPECT_EQ(call(guest_, other), Code::bad_message);
  one.exposure_count = 1;
  EXPECT_EQ(call(guest_, one), Code::bad_message);
}

// A node of the release before, one of the same, and one that is too old.
TEST_F(ServiceTest, is_asked_in_the_highest_version_that_both_speak) {
  stop(*service_, loop_);
  speaks_ = {2, 3, 0};
  service_ = make(loop_, net_, *kv_, 1);
  ASSERT_TRUE(leads());
  const auto asked_by = [this](const wire::Protocol& speaks) {
    Asked op;
    begin(op, join_of(1), guest_, seconds(2), speaks);
    EXPECT_TRUE(end(op));
    return op.status.ok() && std::holds_alternative<Admitted>(op.answer) ? Status() : op.status;
  };
  EXPECT_EQ(asked_by({1, 2, 0}), Code::ok);
  EXPECT_EQ(asked_by({2, 3, 0}), Code::ok);
  EXPECT_EQ(asked_by({3, 4, 0}), Code::ok);
  EXPECT_EQ(asked_by({1, 1, 0}), Code::wrong_version);
  EXPECT_EQ(asked_by({4, 5, 0}), Code::wrong_version);
}

TEST_F(ServiceTest, answers_in_the_version_of_the_question) {
  stop(*service_, loop_);
  speaks_ = {1, 2, 0};
  service_ = make(loop_, net_, *kv_, 1);
  ASSERT_TRUE(leads());
  let_in();
  for (const uint32_t version : {2U, 1U, 2U}) {
    // Many ask for the same piece of the map, and it is made once.
    RawCall ask(encode(Request(AskMap{}), version), wire::kMembershipBytesMax);
    ask.words.version = version;
    EXPECT_EQ(call(peer_, ask), Code::ok);
    EXPECT_EQ(ask.answered.lowest, 1U);
    EXPECT_EQ(ask.answered.highest, 2U);
    const std::string_view answer = std::string_view(ask.memory).substr(0, ask.answered.length);
    EXPECT_TRUE(decode_answer(answer, version).has_value());
  }
  RawCall wrong(encode(Request(AskHealth{}), 2), 1000);
  wrong.words.version = 1;
  EXPECT_EQ(call(guest_, wrong), Code::wrong_version) << "the call says another than its bytes";
}

TEST_F(ServiceTest, what_it_has_no_room_for_ends_with_busy) {
  // The keeper waits for its Kv.
  records_.faults.delay_min = records_.faults.delay_max = seconds(5);
  std::vector<std::unique_ptr<RawCall>> calls;
  for (size_t i = 0; i < kCallsMax + 3; ++i) {
    calls.push_back(std::make_unique<RawCall>(encode(Request(AskHealth{})), 200));
    guest_.call(*calls.back());
  }
  world_.run_for(milliseconds(10));
  const auto count = [&](Code code) {
    return std::count_if(calls.begin(), calls.end(),
                         [&](const auto& one) { return one->ended && one->status == code; });
  };
  EXPECT_EQ(count(Code::busy), 3);
  EXPECT_EQ(service_->status().busy, 3U);
  records_.faults = {};
  ASSERT_TRUE(leads());
  EXPECT_TRUE(world_.run_until([&] { return static_cast<size_t>(count(Code::ok)) == kCallsMax; },
                               seconds(60)));
}

TEST_F(ServiceTest, while_another_leads_everything_is_refused_for_now) {
  ASSERT_TRUE(leads());
  let_in();
  sim::SimKv kv(records_);
  sim::SimLoop loop(world_, sim::LoopDriver::world_when_called);
  sim::SimNet net(network_, loop, NodeId{5});
  auto second = make(loop, net, kv, 2, NodeId{5});
  world_.run_for(seconds(2));
  EXPECT_FALSE(second->status().leads);
  Asked op;
  op.config = {&asker_loop_, &peer_, {NodeId{5}, wire::kControllerService}};
  op.request = AskHealth{};
  op.deadline = world_.now() + seconds(1);
  op.completion = [](engine::Op& done) { static_cast<Asked&>(done).ended = true; };
  ask(op);
  ASSERT_TRUE(end(op));
  EXPECT_EQ(op.status, Code::not_serving);

  // What waits is let go, and the lease given back: the other leads at once.
  Asked waiting;
  begin(waiting, AskMap{version(), {}}, peer_, milliseconds(100));
  world_.run_for(milliseconds(50));
  stop(*service_, loop_);
  service_ = nullptr;
  EXPECT_TRUE(world_.run_until([&] { return second->status().leads; }, seconds(2)));
  EXPECT_TRUE(end(waiting));
  EXPECT_FALSE(waiting.status.ok());
  stop(*second, loop);
  second = nullptr;
}

TEST_F(ServiceTest, its_own_process_is_let_in_although_another_may_run) {
  ASSERT_TRUE(leads());
  let_in();
  controller::Heartbeat beat;
  beat.from = {NodeId{2}, controller::NodeIncarnation{1}, 1};
  ASSERT_TRUE(ask_as(peer_, beat).has_value()) << "it has a lease now";
  controller::Join again = join_of(2);
  again.process = {{99}};
  again.predecessor_ended = true;
  Asked from_far;
  begin(from_far, again, guest_, seconds(1));
  ASSERT_TRUE(end(from_far));
  EXPECT_EQ(std::get<controller::Refused>(from_far.answer).code, Code::in_use)
      << "over the net nobody is believed that";
  std::optional<Answer> answer;
  service_->admit(again, [&](const Answer& given) { answer = given; });
  ASSERT_TRUE(world_.run_until([&] { return answer.has_value(); }, seconds(1)));
  ASSERT_TRUE(std::holds_alternative<Admitted>(*answer));
  EXPECT_EQ(std::get<Admitted>(*answer).admission.incarnation, controller::NodeIncarnation{2});
}

TEST_F(ServiceTest, joins_wait_for_the_process_before_and_end_where_they_are_refused_for_good) {
  ASSERT_TRUE(leads());
  let_in();
  controller::Heartbeat beat;
  beat.from = {NodeId{2}, controller::NodeIncarnation{1}, 1};
  ASSERT_TRUE(ask_as(peer_, beat).has_value());
  struct Join : JoinOp {
    bool ended = false;
  };
  const auto run = [&](Join& op, const controller::Join& join) {
    op.config = {&asker_loop_, &guest_, kController};
    op.join = join;
    op.deadline = world_.now() + seconds(30);
    op.completion = [](engine::Op& done) { static_cast<Join&>(done).ended = true; };
    membership::join(op);
    return world_.run_until([&] { return op.ended; }, seconds(60));
  };
  controller::Join again = join_of(2);
  again.process = {{99}};
  const engine::Time begun = world_.now();
  Join waits;
  ASSERT_TRUE(run(waits, again));
  ASSERT_TRUE(waits.status.ok()) << waits.refusal;
  EXPECT_GE(world_.now() - begun, controller::limits::kLease);
  EXPECT_EQ(waits.admitted.admission.node, NodeId{2});
  EXPECT_EQ(waits.admitted.lease, controller::limits::kLease);
  controller::Join strange = join_of(3);
  strange.cluster = {{8}};
  Join refused;
  ASSERT_TRUE(run(refused, strange));
  EXPECT_EQ(refused.status, Code::access_denied);
  EXPECT_NE(refused.refusal.find("another cluster"), std::string::npos) << refused.refusal;
}

TEST_F(ServiceTest, a_table_that_cannot_be_is_refused_with_the_reason) {
  ASSERT_TRUE(leads());
  let_in();
  const auto answer = ask_as(peer_, controller::TablePlan{.copies = 2, .chains = 4});
  ASSERT_TRUE(answer.has_value());
  const auto* refused = std::get_if<controller::Refused>(&*answer);
  ASSERT_NE(refused, nullptr) << "there are no targets";
  EXPECT_FALSE(refused->reason.empty());
}

}  // namespace
}  // namespace penstock::membership
