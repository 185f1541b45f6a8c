// The service, word by word.
#include "../limits.h"
#include "played.h"

#include <algorithm>

namespace penstock::holds_net {
namespace {

class HoldsServiceTest : public testing::Test {
 protected:
  // An agent of that node has the file.
  void have(PlayedAgent& agent, Hold hold, InodeId inode = kFile) {
    agent.want(inode, hold);
    EXPECT_EQ(agent.next<Given>().hold, hold);
  }
  // What it attends is answered by then, and not because it has waited for long.
  bool is_told_before(PlayedAgent& agent, engine::Duration time) {
    const auto answered = agent.ask(Kind::attend);
    return played_.world.run_until([&] { return answered->has_value(); }, time) &&
           !(*answered)->told.empty();
  }

  PlayedService played_;
};

TEST_F(HoldsServiceTest, a_session_is_on_record_before_it_begins) {
  PlayedAgent agent(played_, kA);
  const auto answered = agent.ask(Kind::begin);
  while (!answered->has_value()) played_.world.turn();
  EXPECT_EQ(played_.record_of(kA).latest, 1U);
  EXPECT_EQ((*answered)->header.is_good, 1);
  EXPECT_EQ((*answered)->header.life, 1);
  // The answer was lost, perhaps.
  EXPECT_TRUE(agent.begin());
  EXPECT_EQ(played_.record_of(kA), (NodeRecord{1, {{1, false}}}));
}

TEST_F(HoldsServiceTest, another_process_of_a_node_gets_the_next_session) {
  PlayedAgent first(played_, kA, 5);
  ASSERT_TRUE(first.begin());
  have(first, Hold::exclusive);
  PlayedAgent second(played_, kA, 6);
  const Caller::Answer answer = second.hear(Kind::begin);
  EXPECT_EQ(answer.header.is_good, 0);
  EXPECT_EQ(answer.header.next, 2U);
  // It is not told what the other has.
  EXPECT_FALSE(second.say({Unused{kFile}}));
  second.id.session = 2;
  EXPECT_TRUE(second.begin());
  EXPECT_FALSE(first.attend());
  // The later one begins when nothing is kept of the former: nobody waits for its lease.
  have(second, Hold::exclusive);
  EXPECT_EQ(played_.fenced, (std::vector<AgentId>{{kA, 1}}));
  EXPECT_EQ(played_.settled, std::vector<InodeId>{kFile});
  played_.world.run_for(seconds(1));
  EXPECT_EQ(played_.record_of(kA), (NodeRecord{2, {{2, false}}}));
}

TEST_F(HoldsServiceTest, what_comes_twice_is_done_once) {
  PlayedAgent agent(played_, kA);
  ASSERT_TRUE(agent.begin());
  have(agent, Hold::shared);
  PlayedAgent other(played_, kB);
  ASSERT_TRUE(other.begin());
  other.want(kFile, Hold::exclusive);
  const Recall recall = agent.next<Recall>();
  // It was no longer used, then it was again, and it is given back.
  const std::vector<Word> words{Unused{kFile},
                                Back{agent.id, kFile, recall.recall, Hold::none, true}};
  EXPECT_TRUE(agent.say(words));
  other.next<Given>();
  EXPECT_EQ(agent.hear(Kind::say, words, agent.sequence).header.is_good, 1);
  // One that was late.
  EXPECT_EQ(agent.hear(Kind::say, {Unused{kFile}}, agent.sequence - 1).header.is_good, 1);
  EXPECT_TRUE(other.hear(Kind::dropped).header.is_good == 0);
  played_.world.run_for(seconds(1));
  EXPECT_TRUE(played_.service->is_in_use(kFile));
  EXPECT_TRUE(agent.say({Unused{kFile}}));
  EXPECT_FALSE(played_.service->is_in_use(kFile));
  EXPECT_EQ(played_.unused.back(), kFile);
}

TEST_F(HoldsServiceTest, who_attends_hears_of_a_recall_at_once_and_again_until_it_answers) {
  PlayedAgent agent(played_, kA), other(played_, kB);
  ASSERT_TRUE(agent.begin());
  ASSERT_TRUE(other.begin());
  have(agent, Hold::exclusive);
  const auto attends = agent.ask(Kind::attend);
  played_.world.run_for(milliseconds(100));
  EXPECT_FALSE(attends->has_value());
  other.want(kFile, Hold::shared);
  played_.world.run_for(milliseconds(10));
  ASSERT_TRUE(attends->has_value());
  const Recall recall = std::get<Recall>((*attends)->told.at(0));
  EXPECT_EQ(recall.leave, Hold::shared);
  EXPECT_EQ(agent.next<Recall>().recall, recall.recall);
  EXPECT_EQ(agent.next<Recall>().recall, recall.recall);
  EXPECT_TRUE(agent.say({Back{agent.id, kFile, recall.recall, Hold::shared, false}}));
  EXPECT_EQ(other.next<Given>().hold, Hold::shared);
  EXPECT_FALSE(is_told_before(agent, seconds(3)));
}

TEST_F(HoldsServiceTest, who_has_nothing_to_hear_is_answered_after_a_second) {
  PlayedAgent agent(played_, kA);
  ASSERT_TRUE(agent.begin());
  const engine::Time before = played_.world.now();
  EXPECT_TRUE(agent.attend());
  const engine::Duration time = played_.world.now() - before;
  EXPECT_GE(time, limits::kRenewInterval);
  EXPECT_LE(time, limits::kRenewInterval + 2 * limits::kTickInterval);
}

TEST_F(HoldsServiceTest, who_has_dropped_all_holds_nobody_up_but_for_its_fence) {
  PlayedAgent agent(played_, kA), other(played_, kB);
  ASSERT_TRUE(agent.begin());
  ASSERT_TRUE(other.begin());
  have(agent, Hold::exclusive);
  played_.fences_itself = false;
  agent.hear(Kind::dropped);
  other.want(kFile, Hold::exclusive);
  EXPECT_FALSE(is_told_before(other, milliseconds(1500)));
  EXPECT_EQ(played_.record_of(kA), (NodeRecord{1, {{1, true}}}));
  EXPECT_TRUE(played_.service->is_exclusive_somewhere(kFile));
  EXPECT_EQ(played_.service->figures().ending, 1U);
  played_.fence();
  EXPECT_TRUE(is_told_before(other, milliseconds(500)));
  EXPECT_EQ(played_.record_of(kA), (NodeRecord{1, {}}));
}

TEST_F(HoldsServiceTest, who_is_lost_ends_with_its_lease_and_the_guard) {
  PlayedAgent agent(played_, kA), other(played_, kB);
  ASSERT_TRUE(agent.begin());
  ASSERT_TRUE(other.begin());
  have(agent, Hold::exclusive);
  const engine::Time before = played_.world.now();
  other.want(kFile, Hold::exclusive);
  other.next<Given>();
  EXPECT_GE(played_.world.now() - before, limits::kAgentLease + limits::kLeaseGuard);
  EXPECT_LE(played_.world.now() - before, seconds(8));
  EXPECT_FALSE(agent.attend());
}

TEST_F(HoldsServiceTest, another_life_knows_who_has_what_once_all_have_said_it) {
  PlayedAgent agent(played_, kA), other(played_, kB);
  ASSERT_TRUE(agent.begin());
  ASSERT_TRUE(other.begin());
  have(agent, Hold::exclusive);
  EXPECT_EQ(played_.claims_over, 1);
  played_.stop();
  played_.start();
  EXPECT_EQ(played_.service->life(), 2);
  EXPECT_TRUE(played_.service->is_claiming());
  EXPECT_TRUE(played_.service->is_exclusive_somewhere(kOther));
  // Words for the life before are nothing to this one, which says its number.
  const Caller::Answer answer = agent.hear(Kind::say, {Claim{kFile, Hold::exclusive}, ClaimsEnd{}});
  EXPECT_EQ(answer.header.life, 2);
  EXPECT_EQ(answer.header.is_good, 1);
  EXPECT_TRUE(answer.told.empty());
  agent.life = other.life = 2;
  const std::vector<Word> words{Claim{kFile, Hold::exclusive}, Claim{kOther, Hold::none},
                                ClaimsEnd{}};
  const Caller::Answer taken = agent.hear(Kind::say, words);
  ASSERT_EQ(taken.told.size(), 3U);
  EXPECT_TRUE(std::holds_alternative<ClaimsTaken>(taken.told[2]));
  // The answer was lost: it is the same again.
  const Caller::Answer again = agent.hear(Kind::say, words, agent.sequence);
  ASSERT_EQ(again.told.size(), 3U);
  EXPECT_EQ(std::get<Granted>(again.told[0]).stamp, std::get<Granted>(taken.told[0]).stamp);
  EXPECT_TRUE(played_.service->is_claiming());
  EXPECT_TRUE(other.say({ClaimsEnd{}}));
  EXPECT_FALSE(played_.service->is_claiming());
  EXPECT_EQ(played_.claims_over, 2);
  EXPECT_TRUE(played_.service->is_exclusive_somewhere(kFile));
  EXPECT_FALSE(played_.service->is_exclusive_somewhere(kOther));
  EXPECT_TRUE(played_.service->is_in_use(kOther));
  EXPECT_EQ(played_.service->hold_of(agent.id, kFile), Hold::exclusive);
}

TEST_F(HoldsServiceTest, a_session_whose_end_is_on_record_ends_in_the_next_life_too) {
  PlayedAgent agent(played_, kA);
  ASSERT_TRUE(agent.begin());
  played_.fences_itself = false;
  played_.service->expel(kA);
  EXPECT_FALSE(agent.attend());
  played_.stop();
  played_.fenced.clear();
  played_.fences_itself = true;
  played_.start();
  EXPECT_FALSE(agent.attend());
  played_.world.run_for(seconds(1));
  EXPECT_EQ(played_.fenced, std::vector<AgentId>{agent.id});
  // Its lease may run until then.
  EXPECT_TRUE(played_.service->is_claiming());
  played_.world.run_for(seconds(7));
  EXPECT_FALSE(played_.service->is_claiming());
  EXPECT_EQ(played_.record_of(kA), (NodeRecord{1, {}}));
  agent.id.session = 2;
  EXPECT_TRUE(agent.begin());
}

TEST_F(HoldsServiceTest,
       a_later_session_of_a_node_waits_for_no_lease_of_the_one_before_in_any_life) {
  PlayedAgent first(played_, kA, 5), second(played_, kA, 6);
  ASSERT_TRUE(first.begin());
  played_.fences_itself = false;
  second.id.session = 2;
  ASSERT_TRUE(second.begin());
  played_.world.run_for(milliseconds(100));
  EXPECT_EQ(played_.record_of(kA), (NodeRecord{2, {{1, true}, {2, false}}}));
  played_.stop();
  played_.fences_itself = true;
  played_.start();
  second.life = 2;
  EXPECT_TRUE(second.say({ClaimsEnd{}}));
  played_.world.run_for(milliseconds(100));
  EXPECT_FALSE(played_.service->is_claiming());
  EXPECT_EQ(played_.record_of(kA), (NodeRecord{2, {{2, false}}}));
}

TEST_F(HoldsServiceTest, no_lease_outlives_that_of_the_service) {
  PlayedAgent agent(played_, kA);
  ASSERT_TRUE(agent.begin());
  const auto is_answered = [&] {
    const auto answered = agent.ask(Kind::say, {Unused{kFile}});
    played_.world.run_for(milliseconds(100));
    return answered->has_value();
  };
  played_.answers_until = played_.world.clock().lease_now() + limits::kAgentLease + seconds(1);
  EXPECT_TRUE(is_answered());
  played_.world.run_for(seconds(1));
  EXPECT_FALSE(is_answered());
  // Who could not be heard is not ended for that.
  played_.world.run_for(seconds(60));
  EXPECT_FALSE(is_answered());
  played_.answers_until = engine::kNever;
  EXPECT_TRUE(is_answered());
  EXPECT_TRUE(played_.service->is_good(agent.id));
}

TEST_F(HoldsServiceTest, an_operation_is_alone_with_what_it_changes) {
  PlayedAgent agent(played_, kA);
  ASSERT_TRUE(agent.begin());
  have(agent, Hold::shared);
  std::vector<Stamp> stamps;
  const RequestId barrier = played_.service->barrier(
      {}, {{kFile, {"a", "b"}}}, [&](std::vector<Stamp> all) { stamps = std::move(all); });
  const Recall recall = agent.next<Recall>();
  EXPECT_TRUE(recall.keeps);
  EXPECT_EQ(recall.names, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(played_.service->reading(kFile), Stamp{});
  EXPECT_TRUE(stamps.empty());
  EXPECT_TRUE(agent.say({Back{agent.id, kFile, recall.recall, Hold::shared, false}}));
  ASSERT_EQ(stamps.size(), 1U);
  EXPECT_GT(stamps[0], recall.recall);
  played_.service->over(barrier, true);
  EXPECT_GT(played_.service->reading(kFile), stamps[0]);
}

TEST_F(HoldsServiceTest, more_than_an_answer_holds_comes_in_several) {
  PlayedAgent agent(played_, kA);
  ASSERT_TRUE(agent.begin());
  constexpr uint64_t kMany = 30'000;
  std::vector<Word> words;
  for (uint64_t i = 1; i <= kMany; ++i) {
    words.emplace_back(Want{agent.id, RequestId(i), InodeId(1'000'000 + i), Hold::shared, true});
  }
  const Caller::Answer first = agent.hear(Kind::say, words);
  EXPECT_GT(first.told.size(), 1000U);
  EXPECT_LT(first.told.size(), kMany);
  while (agent.told.size() < kMany) ASSERT_TRUE(agent.attend());
  EXPECT_EQ(played_.service->figures().holds, kMany);
}

// A call with any bytes, of any peer.
class RawCall final : public engine::IncomingCall {
 public:
  engine::Peer from{kA};
  Status status;
  bool is_ended = false;

  engine::Peer peer() const override { return from; }
  uint64_t exposure_length(uint32_t) const override { return 0; }
  engine::Access exposure_access(uint32_t) const override { return engine::Access::fetch; }
  std::optional<engine::MemoryRef> direct(uint32_t) override { return std::nullopt; }
  void place(engine::TransferOp&) override { ASSERT(false); }
  void fetch(engine::TransferOp&) override { ASSERT(false); }
  void reply(Status with, Bytes) override {
    is_ended = true;
    status = with;
  }
};
class RawNet final : public engine::Net {
 public:
  void call(engine::CallOp&) override { ASSERT(false); }
  void cancel(engine::CallOp&) override { ASSERT(false); }
  void serve(engine::Address, engine::Service& its_service) override { service = &its_service; }
  void withdraw(engine::Address) override { service = nullptr; }
  engine::Service* service = nullptr;
};

TEST(HoldsServiceRefusals, are_of_who_may_not_ask_and_of_what_makes_no_sense) {
  sim::SimWorld world(1);
  sim::SimLoop loop(world);
  sim::SimKvImage image(world);
  sim::SimKv kv(image);
  RawNet net;
  HoldsServiceConfig config;
  config.loop = &loop;
  config.net = &net;
  config.address = kService;
  config.kv = &kv;
  config.fence = [](AgentId, const std::function<void()>& done) { done(); };
  config.settle = [](AgentId, const std::vector<InodeId>&, const std::function<void()>& done) {
    done();
  };
  auto service = HoldsService::open(config);
  ASSERT_TRUE(service.has_value());
  (*service)->start();
  std::string words;
  encode(Word(Unused{kFile}), words);
  RequestHeader good;
  good.version = wire::kNodeVersion;
  good.kind = static_cast<uint16_t>(Kind::say);
  good.session = good.caller = good.sequence = 1;
  good.length = static_cast<uint32_t>(words.size());
  const auto told = [&](RequestHeader header, uint8_t roles, std::string bytes, bool seals = true) {
    RawCall call;
    call.method = kMethod;
    call.from.roles = roles;
    if (seals) header.checksum = checksum_of(header, bytes);
    const std::string message =
        std::string(reinterpret_cast<const char*>(&header), sizeof header) + bytes;
    call.request = bytes_of(message);
    net.service->on_call(call);
    EXPECT_TRUE(call.is_ended);
    return call.status;
  };
  EXPECT_EQ(told(good, engine::kRoleAgent, words), Code::ok);
  EXPECT_EQ(told(good, engine::kRoleStorage, words), Code::access_denied);
  EXPECT_EQ(told(good, engine::kRoleAgent, words, false), Code::bad_message);
  std::string nonsense = words;
  nonsense[0] = 77;
  EXPECT_EQ(told(good, engine::kRoleAgent, nonsense), Code::bad_message);
  const auto changed = [&](auto change) {
    RequestHeader header = good;
    change(header);
    return told(header, engine::kRoleAgent, words);
  };
  EXPECT_EQ(changed([](auto& m) { m.version = 60; }), Code::wrong_version);
  EXPECT_EQ(changed([](auto& m) { m.kind = 0; }), Code::bad_message);
  EXPECT_EQ(changed([](auto& m) { m.kind = 5; }), Code::bad_message);
  EXPECT_EQ(changed([](auto& m) { m.kind = 3; }), Code::bad_message);
  EXPECT_EQ(changed([](auto& m) { m.session = 0; }), Code::bad_message);
  EXPECT_EQ(changed([](auto& m) { m.caller = 0; }), Code::bad_message);
  EXPECT_EQ(changed([](auto& m) { m.sequence = 0; }), Code::bad_message);
  EXPECT_EQ(changed([](auto& m) { m.life = 65536; }), Code::bad_message);
  EXPECT_EQ(changed([](auto& m) { ++m.length; }), Code::bad_message);
  RawCall shortest;
  shortest.method = kMethod;
  shortest.request = bytes_of("x");
  net.service->on_call(shortest);
  EXPECT_EQ(shortest.status, Code::bad_message);
  EXPECT_EQ((*service)->figures().refused, 13U);
  EXPECT_TRUE(
      engine::thread_caller().call(loop, [&](engine::Op& done) { (*service)->stop(done); }).ok());
}

// What a node that is restricted says of the life before takes nothing from others.
TEST_F(HoldsServiceTest, a_false_claim_of_a_restricted_node_ends_its_own_session) {
  PlayedAgent honest(played_, kA), liar(played_, kB);
  ASSERT_TRUE(honest.begin());
  ASSERT_TRUE(liar.begin());
  have(honest, Hold::exclusive);
  played_.restricted = {kB};
  played_.stop();
  played_.start();
  for (PlayedAgent* const agent : {&honest, &liar}) {
    agent->told.clear();
    agent->life = 2;
  }
  // The liar is faster, and says that it is done.
  EXPECT_TRUE(liar.say({Claim{kFile, Hold::exclusive}, Claim{kOther, Hold::shared}, ClaimsEnd{}}));
  EXPECT_TRUE(honest.say({Claim{kFile, Hold::exclusive}, ClaimsEnd{}}));
  EXPECT_TRUE(played_.service->is_good(honest.id));
  EXPECT_FALSE(played_.service->is_good(liar.id));
  EXPECT_EQ(played_.service->hold_of(honest.id, kFile), Hold::exclusive);
  EXPECT_EQ(played_.service->hold_of(liar.id, kFile), Hold::none);
  ASSERT_TRUE(played_.world.run_until(
      [&] {
        static_cast<void>(honest.attend());
        return !played_.service->is_claiming();
      },
      seconds(20)));
  EXPECT_EQ(played_.fenced, std::vector<AgentId>{liar.id});
  EXPECT_EQ(played_.settled, std::vector<InodeId>{}) << "nothing of another's";
  EXPECT_TRUE(played_.service->is_good(honest.id));
}

}  // namespace
}  // namespace penstock::holds_net
