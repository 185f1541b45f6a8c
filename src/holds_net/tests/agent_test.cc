// An agent with a service, and a file system that the test plays.
#include "../limits.h"
#include "../speech.h"
#include "played.h"

#include <optional>
#include <utility>

namespace penstock::holds_net {
namespace {

// Does at once what it is told, or when the test says so.
class PlayedKeeping final : public holds::Keeping {
 public:
  bool is_slow = false;
  std::vector<std::pair<InodeId, Hold>> drops;
  std::vector<InodeId> settles;
  std::vector<std::string> forgotten;  // names that it was told last
  std::vector<bool> drop_alls;         // whether all was lost
  std::vector<std::function<void()>> dones;

  void drop(InodeId inode, Hold leave, std::function<void()> done) override {
    drops.emplace_back(inode, leave);
    end(std::move(done));
  }
  void settle(InodeId inode, std::function<void()> done) override {
    settles.push_back(inode);
    end(std::move(done));
  }
  void drop_names(InodeId, std::vector<std::string> names, std::function<void()> done) override {
    forgotten = std::move(names);
    end(std::move(done));
  }
  void drop_all(bool is_lost, std::function<void()> done) override {
    drop_alls.push_back(is_lost);
    end(std::move(done));
  }
  void end_all() {
    for (const auto& done : std::exchange(dones, {})) done();
  }

 private:
  void end(std::function<void()> done) {
    if (!is_slow) return done();
    dones.push_back(std::move(done));
  }
};

// A process.
struct Node {
  Node(PlayedService& service, NodeId node)
      : world(service.world), loop(service.world), net(service.network, loop, node) {
    HoldsAgentConfig config;
    config.loop = &loop;
    config.net = &net;
    config.node = node;
    config.service = kService;
    config.keeping = &keeping;
    config.show = [this](InodeId inode, std::function<void(Status)> done) {
      shown.push_back(inode);
      shows ? done(show) : shows_.push_back(std::move(done));
    };
    config.session_changes = [this](AgentId session) {
      EXPECT_FALSE(agent->is_ready());
      sessions.push_back(session);
    };
    agent = HoldsAgent::make(config);
    agent->start();
  }
  ~Node() { close(); }
  void close() {
    if (std::exchange(is_closed, true)) return;
    EXPECT_TRUE(
        engine::thread_caller().call(loop, [&](engine::Op& done) { agent->close(done); }).ok());
  }

  // Enters, and waits for that as long as it takes.
  struct Waiting : holds::Holding::Waiter {
    bool is_over = false;
    explicit Waiting(engine::Loop& its_loop, InodeId its_inode, Hold its_hold) {
      loop = &its_loop;
      inode = its_inode;
      hold = its_hold;
      owner = this;
      completion = [](engine::Op& op) { op.owner_as<Waiting>().is_over = true; };
    }
  };
  holds::Ticket enter(InodeId inode, Hold hold) {
    holds::Ticket ticket;
    if (agent->enter(inode, hold, ticket)) return ticket;
    Waiting waiting(loop, inode, hold);
    agent->wait(waiting);
    EXPECT_TRUE(world.run_until([&] { return waiting.is_over; }, seconds(60)));
    EXPECT_TRUE(waiting.status.ok() && waiting.entered);
    return waiting.ticket;
  }
  bool may_enter(InodeId inode, Hold hold) {
    holds::Ticket ticket;
    if (!agent->enter(inode, hold, ticket)) return false;
    agent->leave(ticket);
    return true;
  }

  sim::SimWorld& world;
  sim::SimLoop loop;
  sim::SimNet net;
  PlayedKeeping keeping;
  std::vector<AgentId> sessions;
  // What it has shown, and how that ends.
  std::vector<InodeId> shown;
  bool shows = true;
  Status show;
  std::vector<std::function<void(Status)>> shows_;
  std::unique_ptr<HoldsAgent> agent;
  bool is_closed = false;
};

class HoldsAgentTest : public testing::Test {
 protected:
  void pass(engine::Duration time) { world_.run_for(time); }

  PlayedService played_;
  sim::SimWorld& world_ = played_.world;
  Node a_{played_, kA};
  Node b_{played_, kB};
};

TEST_F(HoldsAgentTest, who_waits_has_entered_when_it_hears_of_it) {
  const holds::Ticket ticket = a_.enter(kFile, Hold::exclusive);
  EXPECT_TRUE(a_.agent->is_good(ticket));
  EXPECT_EQ(ticket.session, a_.agent->session());
  EXPECT_EQ(a_.sessions, std::vector<AgentId>{ticket.session});
  EXPECT_EQ(a_.agent->figures().running, 1U);
  a_.agent->leave(ticket);
  EXPECT_TRUE(a_.may_enter(kFile, Hold::shared));
  EXPECT_FALSE(a_.may_enter(kOther, Hold::shared));
}

TEST_F(HoldsAgentTest, what_is_recalled_is_dropped_once_nothing_runs_and_answered_after_that) {
  const holds::Ticket ticket = a_.enter(kFile, Hold::exclusive);
  a_.keeping.is_slow = true;
  Node::Waiting waits(b_.loop, kFile, Hold::shared);
  b_.agent->wait(waits);
  pass(seconds(2));
  EXPECT_TRUE(a_.keeping.drops.empty());
  EXPECT_FALSE(a_.may_enter(kFile, Hold::shared));
  EXPECT_TRUE(a_.agent->is_good(ticket));
  a_.agent->leave(ticket);
  pass(seconds(2));
  EXPECT_EQ(a_.keeping.drops, (std::vector<std::pair<InodeId, Hold>>{{kFile, Hold::shared}}));
  EXPECT_FALSE(waits.is_over);
  a_.keeping.end_all();
  pass(milliseconds(100));
  ASSERT_TRUE(waits.is_over && waits.entered);
  EXPECT_TRUE(a_.may_enter(kFile, Hold::shared));
  b_.agent->leave(waits.ticket);
}

TEST_F(HoldsAgentTest, a_recall_that_comes_with_the_grant_waits_for_who_waited) {
  const holds::Ticket first = a_.enter(kFile, Hold::exclusive);
  Node::Waiting one(b_.loop, kFile, Hold::exclusive), two(b_.loop, kFile, Hold::exclusive);
  b_.agent->wait(one);
  b_.agent->wait(two);
  pass(milliseconds(50));
  Node::Waiting again(a_.loop, kFile, Hold::exclusive);
  a_.agent->wait(again);
  a_.agent->leave(first);
  pass(seconds(1));
  // Both have entered by one grant, which is not given on before they have left.
  ASSERT_TRUE(one.is_over && two.is_over && one.entered && two.entered);
  EXPECT_FALSE(again.is_over);
  b_.agent->leave(one.ticket);
  b_.agent->leave(two.ticket);
  pass(seconds(1));
  ASSERT_TRUE(again.entered);
  a_.agent->leave(again.ticket);
}

TEST_F(HoldsAgentTest, who_waits_no_more_is_not_completed) {
  const holds::Ticket ticket = a_.enter(kFile, Hold::exclusive);
  Node::Waiting waits(b_.loop, kFile, Hold::shared);
  b_.agent->wait(waits);
  pass(seconds(1));
  EXPECT_TRUE(b_.agent->cancel(waits));
  EXPECT_FALSE(b_.agent->cancel(waits));
  a_.agent->leave(ticket);
  pass(seconds(1));
  EXPECT_FALSE(waits.is_over);
  EXPECT_EQ(b_.agent->figures().waiting, 0U);
}

TEST_F(HoldsAgentTest, nothing_of_an_old_session_runs_when_the_new_one_begins) {
  const holds::Ticket ticket = a_.enter(kFile, Hold::exclusive);
  Node::Waiting waits(a_.loop, kOther, Hold::shared);
  played_.service->expel(kA);
  pass(milliseconds(500));
  a_.agent->wait(waits);
  EXPECT_FALSE(a_.agent->is_good(ticket));
  pass(seconds(3));
  EXPECT_TRUE(a_.keeping.drop_alls.empty());
  EXPECT_EQ(a_.sessions.size(), 1U);
  a_.keeping.is_slow = true;
  a_.agent->leave(ticket);
  pass(seconds(3));
  EXPECT_EQ(a_.keeping.drop_alls, std::vector<bool>{true});
  EXPECT_EQ(a_.sessions.size(), 1U);
  a_.keeping.is_slow = false;
  a_.keeping.end_all();
  pass(seconds(1));
  EXPECT_EQ(a_.sessions.back(), (AgentId{kA, 2}));
  // What waited has waited for that.
  ASSERT_TRUE(waits.entered);
  EXPECT_EQ(waits.ticket.session, a_.sessions.back());
  EXPECT_TRUE(a_.agent->is_good(waits.ticket));
  a_.agent->leave(waits.ticket);
}

TEST_F(HoldsAgentTest, what_is_being_dropped_ends_before_another_session_begins) {
  a_.agent->leave(a_.enter(kFile, Hold::exclusive));
  a_.keeping.is_slow = true;
  Node::Waiting waits(b_.loop, kFile, Hold::exclusive);
  b_.agent->wait(waits);
  pass(milliseconds(100));
  ASSERT_EQ(a_.keeping.dones.size(), 1U);
  const auto drop_done = std::exchange(a_.keeping.dones, {});
  played_.service->expel(kA);
  pass(seconds(1));
  a_.keeping.end_all();  // all is dropped
  pass(seconds(1));
  EXPECT_EQ(a_.sessions.size(), 1U);
  drop_done.front()();
  pass(seconds(1));
  EXPECT_EQ(a_.sessions.size(), 2U);
  a_.keeping.is_slow = false;
  pass(seconds(8));
  ASSERT_TRUE(waits.entered);
  b_.agent->leave(waits.ticket);
}

TEST_F(HoldsAgentTest, an_agent_that_is_not_heard_lets_nothing_out_by_its_own_clock) {
  const holds::Ticket ticket = a_.enter(kFile, Hold::shared);
  played_.network.set_partitioned(kA, kService.node, true);
  pass(milliseconds(3900));
  EXPECT_TRUE(a_.agent->is_good(ticket));
  EXPECT_TRUE(a_.agent->standing().is_leased);
  pass(seconds(4));
  EXPECT_FALSE(a_.agent->is_good(ticket));
  EXPECT_FALSE(a_.may_enter(kFile, Hold::shared));
  EXPECT_FALSE(a_.agent->is_ready());
  EXPECT_FALSE(a_.agent->standing().is_leased);
  EXPECT_LE(a_.agent->lease_left(), engine::Duration::zero());
  // It drops nothing before it hears that it has nothing any more.
  EXPECT_TRUE(a_.agent->standing().has_begun);
  a_.agent->leave(ticket);
  pass(seconds(30));
  EXPECT_TRUE(a_.keeping.drop_alls.empty());
  played_.network.heal();
  a_.agent->leave(a_.enter(kFile, Hold::shared));
  EXPECT_EQ(a_.keeping.drop_alls, std::vector<bool>{true});
  EXPECT_EQ(a_.sessions.size(), 2U);
}

TEST_F(HoldsAgentTest, one_whose_session_was_not_ended_yet_goes_on_with_all_that_it_had) {
  const holds::Ticket ticket = a_.enter(kFile, Hold::shared);
  pass(seconds(3));
  // Its lease counts from a question that was answered, and meta's from the latest one.
  world_.suspend(milliseconds(4600));
  EXPECT_FALSE(a_.agent->is_good(ticket));
  EXPECT_TRUE(world_.run_until([&] { return a_.agent->is_ready(); }, seconds(4)));
  EXPECT_TRUE(a_.agent->is_good(ticket));
  EXPECT_TRUE(a_.may_enter(kFile, Hold::shared));
  a_.agent->leave(ticket);
  EXPECT_EQ(a_.sessions.size(), 1U);
  EXPECT_TRUE(a_.keeping.drop_alls.empty());
}

TEST_F(HoldsAgentTest, another_life_long_after_its_lease_takes_what_it_has) {
  const holds::Ticket exclusive = a_.enter(kFile, Hold::exclusive);
  a_.agent->leave(a_.enter(kOther, Hold::shared));
  a_.agent->use(kOther);
  played_.stop();
  pass(seconds(60));
  EXPECT_FALSE(a_.agent->is_good(exclusive));
  // In a life that may not answer for a while nobody's time is over.
  played_.answers_until = {};
  played_.start();
  pass(seconds(20));
  EXPECT_FALSE(a_.agent->is_good(exclusive));
  played_.answers_until = engine::kNever;
  pass(seconds(2));
  EXPECT_TRUE(a_.agent->is_good(exclusive));
  EXPECT_EQ(a_.sessions.size(), 1U);
  EXPECT_FALSE(played_.service->is_claiming());
  EXPECT_EQ(played_.service->hold_of(a_.agent->session(), kFile), Hold::exclusive);
  EXPECT_EQ(played_.service->hold_of(a_.agent->session(), kOther), Hold::none);
  EXPECT_TRUE(played_.service->is_in_use(kOther));
  a_.agent->leave(exclusive);
  a_.agent->unuse(kOther);
  b_.agent->leave(b_.enter(kFile, Hold::exclusive));
}

// Its session was ended in a life that it never heard, and whose record is all that is left of it.
TEST_F(HoldsAgentTest, one_that_was_ended_in_between_hears_of_it_in_a_later_life) {
  a_.agent->leave(a_.enter(kFile, Hold::exclusive));
  played_.network.set_partitioned(kA, kService.node, true);
  played_.stop();
  pass(seconds(10));
  played_.start();
  b_.agent->leave(b_.enter(kFile, Hold::exclusive));
  EXPECT_EQ(played_.fenced, std::vector<AgentId>{a_.agent->session()});
  played_.stop();
  pass(seconds(10));
  played_.start();
  played_.network.heal();
  pass(seconds(2));
  EXPECT_EQ(a_.keeping.drop_alls, std::vector<bool>{true});
  EXPECT_EQ(a_.sessions.size(), 2U);
  EXPECT_EQ(played_.service->hold_of(b_.agent->session(), kFile), Hold::exclusive);
}

TEST_F(HoldsAgentTest, who_waits_for_long_is_served_when_somebody_hears) {
  a_.agent->leave(a_.enter(kFile, Hold::shared));
  played_.network.set_partitioned(kA, kService.node, true);
  Node::Waiting waits(a_.loop, kOther, Hold::shared);
  a_.agent->wait(waits);
  pass(std::chrono::minutes(10));
  played_.network.heal();
  ASSERT_TRUE(world_.run_until([&] { return waits.is_over; }, seconds(20)) && waits.entered);
  a_.agent->leave(waits.ticket);
}

// However often it is to be asked again while nobody hears anything.
TEST(Speech, a_question_is_among_the_words_once) {
  Speech speech;
  const AgentId agent{kA, 1};
  engine::Time now(seconds(1));
  speech.ask({agent, RequestId(1), kFile}, now);
  const size_t once = speech.next(agent, 1).size();
  ASSERT_GT(once, 0U);
  const auto is_asking = [](const Want&) { return true; };
  for (int i = 0; i < 100; ++i, now += seconds(5)) speech.ask_again(now, is_asking);
  EXPECT_EQ(speech.next(agent, 1).size(), once);
  speech.answered();
  EXPECT_EQ(speech.next(agent, 1).size(), once);
  speech.answered();
  EXPECT_TRUE(speech.next(agent, 1).empty());
  speech.ask_again(now, is_asking);
  EXPECT_EQ(speech.next(agent, 1).size(), once);
}

TEST_F(HoldsAgentTest, a_service_that_stood_still_ends_nobody_for_that) {
  const holds::Ticket ticket = a_.enter(kFile, Hold::exclusive);
  world_.suspend(seconds(30));
  EXPECT_FALSE(a_.agent->is_good(ticket));
  pass(seconds(4));
  EXPECT_TRUE(a_.agent->is_good(ticket));
  EXPECT_EQ(a_.sessions.size(), 1U);
  a_.agent->leave(ticket);
  // Who is not heard afterwards is waited for as ever.
  played_.network.set_partitioned(kA, kService.node, true);
  pass(limits::kAgentLease + limits::kLeaseGuard + seconds(1));
  EXPECT_EQ(played_.fenced.size(), 1U);
}

TEST_F(HoldsAgentTest, suspend_counts) {
  const holds::Ticket ticket = a_.enter(kFile, Hold::shared);
  world_.suspend(seconds(6));
  EXPECT_FALSE(a_.agent->is_good(ticket));
  a_.agent->leave(ticket);
}

TEST_F(HoldsAgentTest, another_life_leaves_what_is_exclusive_and_takes_the_rest) {
  const holds::Ticket exclusive = a_.enter(kFile, Hold::exclusive);
  const holds::Ticket shared = a_.enter(kOther, Hold::shared);
  played_.stop();
  played_.start();
  pass(seconds(2));
  EXPECT_TRUE(a_.agent->is_good(exclusive));
  EXPECT_FALSE(a_.agent->is_good(shared));
  EXPECT_TRUE(a_.keeping.drop_alls.empty());
  a_.agent->leave(shared);
  pass(seconds(2));
  EXPECT_EQ(a_.keeping.drop_alls, std::vector<bool>{false});
  EXPECT_FALSE(played_.service->is_claiming());
  EXPECT_EQ(played_.service->hold_of(a_.agent->session(), kFile), Hold::exclusive);
  EXPECT_TRUE(a_.agent->is_good(exclusive));
  EXPECT_EQ(a_.sessions.size(), 1U);
  a_.agent->leave(exclusive);
  b_.agent->leave(b_.enter(kFile, Hold::exclusive));
}

TEST_F(HoldsAgentTest, what_is_open_is_in_use_until_it_is_closed) {
  a_.agent->use(kFile);
  a_.agent->leave(a_.enter(kFile, Hold::shared));
  b_.agent->leave(b_.enter(kFile, Hold::exclusive));
  b_.close();
  pass(seconds(2));
  EXPECT_TRUE(played_.service->is_in_use(kFile));
  a_.agent->unuse(kFile);
  pass(milliseconds(10));
  EXPECT_FALSE(played_.service->is_in_use(kFile));
}

TEST_F(HoldsAgentTest, whoever_is_asked_settles_and_forgets_names_while_operations_go_on) {
  const holds::Ticket ticket = a_.enter(kFile, Hold::exclusive);
  PlayedAgent asks(played_, NodeId{3});
  ASSERT_TRUE(asks.begin());
  asks.want(kFile, Hold::none);
  asks.next<Given>();
  EXPECT_EQ(a_.keeping.settles, std::vector<InodeId>{kFile});
  EXPECT_TRUE(a_.agent->is_good(ticket));
  a_.agent->leave(ticket);
  b_.agent->leave(b_.enter(kOther, Hold::shared));
  bool is_ready = false;
  const RequestId barrier =
      played_.service->barrier({}, {{kOther, {"name"}}}, [&](const auto&) { is_ready = true; });
  pass(milliseconds(100));
  EXPECT_TRUE(is_ready);
  EXPECT_EQ(b_.keeping.forgotten, std::vector<std::string>{"name"});
  EXPECT_TRUE(b_.may_enter(kOther, Hold::shared));
  played_.service->over(barrier, true);
}

TEST_F(HoldsAgentTest, one_that_closes_holds_nobody_up) {
  a_.agent->leave(a_.enter(kFile, Hold::exclusive));
  const holds::Ticket other = b_.enter(kOther, Hold::exclusive);
  Node::Waiting waits(a_.loop, kOther, Hold::shared);
  a_.agent->wait(waits);
  const engine::Time before = world_.now();
  a_.close();
  EXPECT_EQ(waits.status, Code::closed);
  EXPECT_TRUE(waits.is_over && !waits.entered);
  EXPECT_FALSE(a_.may_enter(kFile, Hold::shared));
  b_.agent->leave(b_.enter(kFile, Hold::exclusive));
  EXPECT_LT(world_.now() - before, seconds(1));
  b_.agent->leave(other);
  // Whoever comes late hears the same.
  Node::Waiting late(a_.loop, kOther, Hold::shared);
  a_.agent->wait(late);
  pass(milliseconds(1));
  EXPECT_EQ(late.status, Code::closed);
  EXPECT_TRUE(late.is_over);
}

TEST_F(HoldsAgentTest, one_that_closes_waits_for_what_runs_and_not_long_for_the_service) {
  const holds::Ticket ticket = a_.enter(kFile, Hold::exclusive);
  played_.network.set_partitioned(kA, kService.node, true);
  bool is_closed = false;
  engine::Op closed;
  closed.owner = &is_closed;
  closed.completion = [](engine::Op& op) { op.owner_as<bool>() = true; };
  a_.agent->close(closed);
  a_.is_closed = true;
  pass(seconds(1));
  EXPECT_FALSE(is_closed);
  a_.agent->leave(ticket);
  EXPECT_TRUE(world_.run_until([&] { return is_closed; }, seconds(5)));
}

// ---- nodes that are restricted ----

constexpr Judgement kUnknown{Judgement::Is::unknown, {}};

TEST_F(HoldsAgentTest, what_is_refused_is_shown_and_asked_for_once_more) {
  bool is_known = false;
  played_.judge = [&](AgentId, InodeId inode, Hold) {
    return is_known ? Judgement{Judgement::Is::allowed, inode} : kUnknown;
  };
  a_.shows = false;
  Node::Waiting first(a_.loop, kFile, Hold::shared);
  a_.agent->wait(first);
  ASSERT_TRUE(world_.run_until([&] { return !a_.shown.empty(); }, seconds(5)));
  // Another one that comes meanwhile.
  Node::Waiting second(a_.loop, kFile, Hold::exclusive);
  a_.agent->wait(second);
  pass(seconds(3));
  EXPECT_FALSE(first.is_over || second.is_over);
  EXPECT_EQ(a_.shown, std::vector<InodeId>{kFile});
  is_known = true;
  for (const auto& done : std::exchange(a_.shows_, {})) done(Code::ok);
  ASSERT_TRUE(world_.run_until([&] { return first.is_over && second.is_over; }, seconds(5)));
  for (Node::Waiting* const one : {&first, &second}) {
    EXPECT_TRUE(one->status.ok() && one->entered);
    a_.agent->leave(one->ticket);
  }
  // Another time it is shown again.
  played_.judge = [](AgentId, InodeId, Hold) { return kUnknown; };
  Node::Waiting other(a_.loop, kOther, Hold::shared);
  a_.agent->wait(other);
  ASSERT_TRUE(world_.run_until([&] { return a_.shown.size() == 2; }, seconds(5)));
  for (const auto& done : std::exchange(a_.shows_, {})) done(Code::ok);
  ASSERT_TRUE(world_.run_until([&] { return other.is_over; }, seconds(5)));
  EXPECT_EQ(other.status, Code::stale);
  EXPECT_FALSE(other.entered);
  EXPECT_GT(played_.service->figures().denied, 0U);
}

TEST_F(HoldsAgentTest, who_cannot_show_what_it_asks_for_hears_why) {
  played_.judge = [](AgentId agent, InodeId inode, Hold) {
    return agent.node == kA ? kUnknown : Judgement{Judgement::Is::allowed, inode};
  };
  a_.show = Code::not_found;
  Node::Waiting waits(a_.loop, kFile, Hold::exclusive);
  a_.agent->wait(waits);
  ASSERT_TRUE(world_.run_until([&] { return waits.is_over; }, seconds(5)));
  EXPECT_EQ(waits.status, Code::not_found);
  EXPECT_EQ(a_.agent->figures().waiting, 0U);
  // It has not delayed anybody.
  b_.agent->leave(b_.enter(kFile, Hold::exclusive));
  EXPECT_EQ(played_.service->figures().recalls, 0U);
  // Wanted without waiting: nobody hears of it.
  a_.agent->want(kFile);
  pass(seconds(2));
  EXPECT_EQ(a_.shown.size(), 1U);
}

TEST_F(HoldsAgentTest, who_only_reads_may_share_what_it_may_not_change) {
  played_.judge = [](AgentId, InodeId inode, Hold hold) {
    const bool may = hold != Hold::exclusive;
    return Judgement{may ? Judgement::Is::allowed : Judgement::Is::only_reads, inode};
  };
  Node::Waiting writes(a_.loop, kFile, Hold::exclusive), reads(a_.loop, kFile, Hold::shared);
  a_.agent->wait(writes);
  a_.agent->wait(reads);
  ASSERT_TRUE(world_.run_until([&] { return writes.is_over && reads.is_over; }, seconds(5)));
  EXPECT_EQ(writes.status, Code::read_only);
  EXPECT_TRUE(reads.status.ok() && reads.entered);
  a_.agent->leave(reads.ticket);
  EXPECT_TRUE(a_.shown.empty());
}

TEST_F(HoldsAgentTest, who_waits_for_a_show_waits_for_the_next_life_too) {
  played_.judge = [](AgentId, InodeId, Hold) { return kUnknown; };
  a_.shows = false;
  Node::Waiting waits(a_.loop, kFile, Hold::shared);
  a_.agent->wait(waits);
  ASSERT_TRUE(world_.run_until([&] { return !a_.shown.empty(); }, seconds(5)));
  played_.stop();
  played_.judge = {};
  played_.start();
  ASSERT_TRUE(world_.run_until([&] { return waits.is_over; }, seconds(20)));
  EXPECT_TRUE(waits.status.ok() && waits.entered);
  a_.agent->leave(waits.ticket);
  // That is of nothing any more.
  for (const auto& done : std::exchange(a_.shows_, {})) done(Code::stale);
  pass(seconds(1));
  EXPECT_TRUE(a_.may_enter(kFile, Hold::shared));
}

// The root of a subtree is number 1 of such a node, and is recalled as that.
TEST_F(HoldsAgentTest, the_root_of_a_subtree_is_held_by_its_own_number) {
  constexpr InodeId kOne{1};
  InodeId root = kFile;
  played_.judge = [&](AgentId agent, InodeId inode, Hold) {
    return Judgement{Judgement::Is::allowed, agent.node == kA && inode == kOne ? root : inode};
  };
  a_.agent->leave(a_.enter(kOne, Hold::exclusive));
  EXPECT_EQ(played_.service->hold_of(a_.agent->session(), kFile), Hold::exclusive);
  EXPECT_EQ(played_.service->hold_of(a_.agent->session(), kOne), Hold::none);
  b_.agent->leave(b_.enter(kOne, Hold::exclusive));
  EXPECT_EQ(played_.service->figures().recalls, 0U);
  b_.agent->leave(b_.enter(kFile, Hold::exclusive));
  EXPECT_EQ(a_.keeping.drops, (std::vector<std::pair<InodeId, Hold>>{{kOne, Hold::none}}));
  // Another directory has the name by now: each is given back by its own stamps.
  a_.agent->leave(a_.enter(kOne, Hold::shared));
  root = kOther;
  b_.agent->leave(b_.enter(kFile, Hold::exclusive));
  a_.agent->leave(a_.enter(kOne, Hold::shared));
  b_.agent->leave(b_.enter(kOther, Hold::exclusive));
  EXPECT_EQ(a_.keeping.drops.size(), 3U);
  EXPECT_EQ(played_.service->figures().ended, 0U) << "each recall was answered";
}

}  // namespace
}  // namespace penstock::holds_net
