// A service and agents in a simulation: rules one by one, and stories from a seed.
#include "penstock/locks_net.h"

#include "../limits.h"
#include "../messages.h"

#include <array>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <set>

#include "penstock/sim.h"

namespace penstock::locks_net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr NodeId kNames{100}, kA{1}, kB{2};
constexpr InodeId kFile{7}, kOther{8};

// The node with the names: what of its holds counts here is a list of sessions.
struct Names {
  explicit Names(uint64_t seed) : world(seed), network(world) { start({}); }
  ~Names() { stop(); }

  void start(std::vector<AgentId> before) {
    net = std::make_unique<sim::SimNet>(network, loop, kNames);
    LocksServiceConfig config;
    config.loop = &loop;
    config.net = net.get();
    config.address = {kNames, kLocksService};
    config.life = ++life;
    config.before = std::move(before);
    config.is_good = [this](AgentId agent) { return good.contains(agent); };
    config.expel = [this](NodeId node) { expelled.push_back(node); };
    config.judge = [this](AgentId agent, const Wanted& wanted) {
      return !judge || judge(agent, wanted);
    };
    config.is_restricted = [this](NodeId node) { return restricted.contains(node); };
    service = LocksService::make(config);
    service->start();
  }
  void stop() {
    if (service == nullptr) return;
    EXPECT_TRUE(
        engine::thread_caller().call(loop, [&](engine::Op& done) { service->stop(done); }).ok());
    service = nullptr;
    world.run_for(seconds(1));
    net = nullptr;
  }

  sim::SimWorld world;
  sim::SimNetwork network;
  sim::SimLoop loop{world};
  std::unique_ptr<sim::SimNet> net;
  std::unique_ptr<LocksService> service;
  uint16_t life = 0;
  std::set<AgentId> good;
  std::vector<NodeId> expelled;
  std::function<bool(AgentId, const Wanted&)> judge;
  std::set<NodeId> restricted;
};

struct Process {
  Process(Names& its_names, NodeId its_node)
      : names(its_names), node(its_node), loop(names.world), net(names.network, loop, node) {
    LocksAgentConfig config;
    config.loop = &loop;
    config.net = &net;
    config.node = node;
    config.service = {kNames, kLocksService};
    config.standing = [this] {
      return Standing{session, names.life, names.good.contains(session),
                      is_leased && names.service != nullptr};
    };
    config.show = [this](InodeId inode, std::function<void(Status)> done) {
      shown.push_back(inode);
      shows.push_back(std::move(done));
    };
    agent = LocksAgent::make(config);
    begin(1);
    agent->start();
  }
  ~Process() {
    EXPECT_TRUE(
        engine::thread_caller().call(loop, [&](engine::Op& done) { agent->close(done); }).ok());
    names.world.run_for(seconds(3));
  }
  void begin(uint64_t number) {
    session = {node, number};
    agent->begins(session);
    names.good.insert(session);
  }

  struct Result {
    Answer answer = Answer::waits;  // until it has one
    std::optional<Held> held;
    RequestId request;
  };
  using Asked = std::shared_ptr<Result>;

  static Wanted wanted(uint64_t owner, Type type, InodeId inode = kFile, Range range = {},
                       Kind kind = Kind::range) {
    return {inode, {AgentId{}, kind, owner}, range, type, static_cast<uint32_t>(owner)};
  }
  Asked ask(locks::Open& its_open, const Wanted& what, bool waits = false) {
    auto result = std::make_shared<Result>();
    if (waits) result->request = agent->next_request();
    agent->set(its_open, what, result->request, [result](Answer answer) {
      ASSERT(result->answer == Answer::waits && answer != Answer::waits);
      result->answer = answer;
    });
    return result;
  }
  bool await(const Asked& asked, engine::Duration limit = seconds(5)) {
    return names.world.run_until([&] { return asked->answer != Answer::waits; }, limit);
  }
  Answer set(const Wanted& what) {
    const Asked asked = ask(open, what);
    EXPECT_TRUE(await(asked));
    return asked->answer;
  }
  Result get(const Wanted& what) {
    auto result = std::make_shared<Result>();
    agent->get(open, what, [result](Answer answer, std::optional<Held> held) {
      result->answer = answer;
      result->held = held;
    });
    EXPECT_TRUE(await(result));
    return *result;
  }
  void close(locks::Open& its_open) {
    bool is_over = false;
    agent->closed(its_open, [&](Answer) { is_over = true; });
    EXPECT_TRUE(names.world.run_until([&] { return is_over; }, seconds(5)));
  }

  Names& names;
  const NodeId node;
  bool is_leased = true;
  AgentId session;
  locks::Open open;
  // What it is to show, until the test ends that.
  std::vector<InodeId> shown;
  std::vector<std::function<void(Status)>> shows;
  void end_shows(Status status) {
    for (const auto& done : std::exchange(shows, {})) done(status);
  }
  bool await_show() {
    return names.world.run_until([&] { return !shows.empty(); }, seconds(5));
  }
  sim::SimLoop loop;
  sim::SimNet net;
  std::unique_ptr<LocksAgent> agent;
};

class LocksNet : public testing::Test {
 protected:
  Names names_{1};
  Process a_{names_, kA};
  Process b_{names_, kB};
};

uint64_t counted(const std::string& name) {
  for (const metrics::Sample& sample : metrics::snapshot()) {
    if (sample.name == name) return sample.value;
  }
  return 0;
}

TEST_F(LocksNet, exclude_other_nodes) {
  EXPECT_EQ(a_.set(a_.wanted(5, Type::write)), Answer::done);
  EXPECT_EQ(b_.set(b_.wanted(5, Type::read)), Answer::held);
  const Process::Result told = b_.get(b_.wanted(5, Type::read));
  EXPECT_EQ(told.answer, Answer::held);
  ASSERT_TRUE(told.held.has_value());
  EXPECT_EQ(told.held->pid, 5U);
  EXPECT_FALSE(b_.agent->is_ours(told.held->owner));
  EXPECT_EQ(a_.set(a_.wanted(5, Type::none)), Answer::done);
  EXPECT_EQ(b_.set(b_.wanted(5, Type::read)), Answer::done);
  EXPECT_EQ(b_.get(b_.wanted(9, Type::read)).answer, Answer::done);
}

TEST_F(LocksNet, who_waits_is_told_at_once) {
  EXPECT_EQ(a_.set(a_.wanted(5, Type::write)), Answer::done);
  const auto waits = b_.ask(b_.open, b_.wanted(6, Type::write), true);
  EXPECT_FALSE(b_.await(waits, seconds(7)));
  const engine::Time since = names_.world.now();
  EXPECT_EQ(a_.set(a_.wanted(5, Type::none)), Answer::done);
  EXPECT_TRUE(b_.await(waits));
  EXPECT_EQ(waits->answer, Answer::done);
  EXPECT_LT(names_.world.now() - since, milliseconds(5));
}

TEST_F(LocksNet, who_waits_keeps_nobody_from_asking) {
  EXPECT_EQ(a_.set(a_.wanted(5, Type::write)), Answer::done);
  const auto waits = b_.ask(b_.open, b_.wanted(6, Type::write), true);
  names_.world.run_for(milliseconds(100));
  const engine::Time since = names_.world.now();
  EXPECT_EQ(b_.set(b_.wanted(7, Type::write, kOther)), Answer::done);
  EXPECT_LT(names_.world.now() - since, milliseconds(5));
  b_.agent->cancel(waits->request);
  EXPECT_TRUE(b_.await(waits));
  EXPECT_EQ(waits->answer, Answer::ended);
  // It waits no more.
  EXPECT_EQ(a_.set(a_.wanted(5, Type::none)), Answer::done);
  EXPECT_EQ(a_.set(a_.wanted(5, Type::write)), Answer::done);
}

TEST_F(LocksNet, a_ring_over_two_nodes_is_a_deadlock) {
  EXPECT_EQ(a_.set(a_.wanted(5, Type::write)), Answer::done);
  EXPECT_EQ(b_.set(b_.wanted(5, Type::write, kOther)), Answer::done);
  const auto first = a_.ask(a_.open, a_.wanted(5, Type::write, kOther), true);
  names_.world.run_for(milliseconds(100));
  const auto second = b_.ask(b_.open, b_.wanted(5, Type::write), true);
  EXPECT_TRUE(b_.await(second));
  EXPECT_EQ(second->answer, Answer::deadlock);
  EXPECT_EQ(counted("locks.deadlocks"), 1u);
  EXPECT_EQ(counted("locks.held"), 2u);
  EXPECT_EQ(counted("locks.waiting"), 1u);
  EXPECT_EQ(b_.set(b_.wanted(5, Type::none, kOther)), Answer::done);
  EXPECT_TRUE(a_.await(first));
  EXPECT_EQ(first->answer, Answer::done);
}

TEST_F(LocksNet, the_end_of_an_open_is_that_of_its_locks) {
  locks::Open other;
  EXPECT_EQ(a_.set(a_.wanted(5, Type::write, kFile, {0, 4})), Answer::done);
  const auto asked = a_.ask(other, a_.wanted(6, Type::write, kFile, {4, 8}));
  EXPECT_TRUE(a_.await(asked));
  a_.close(a_.open);
  EXPECT_EQ(b_.set(b_.wanted(1, Type::write, kFile, {0, 4})), Answer::done);
  EXPECT_EQ(b_.set(b_.wanted(1, Type::write, kFile, {4, 8})), Answer::held);
  a_.close(other);
  EXPECT_EQ(names_.service->figures().locks, 1U);
}

TEST_F(LocksNet, a_new_life_takes_what_is_had_before_it_gives_anything) {
  for (uint64_t i = 0; i < 50; ++i) {
    ASSERT_EQ(a_.set(a_.wanted(5, Type::write, kFile, {2 * i, 2 * i + 1})), Answer::done);
  }
  EXPECT_EQ(b_.set(b_.wanted(6, Type::read, kOther)), Answer::done);
  const auto waits = b_.ask(b_.open, b_.wanted(6, Type::write), true);
  names_.world.run_for(milliseconds(100));
  names_.network.set_partitioned(kA, kNames, true);
  names_.stop();
  names_.start({a_.session, b_.session});
  const auto asked = b_.ask(b_.open, b_.wanted(7, Type::write, kFile, {98, 99}));
  // Not before the other has said what it has.
  EXPECT_FALSE(b_.await(asked, seconds(4)));
  EXPECT_TRUE(names_.service->figures().is_claiming);
  names_.network.heal();
  EXPECT_TRUE(b_.await(asked, seconds(10)));
  EXPECT_EQ(asked->answer, Answer::held);
  EXPECT_EQ(names_.service->figures().locks, 51U);
  EXPECT_EQ(a_.set(a_.wanted(5, Type::none)), Answer::done);
  EXPECT_TRUE(b_.await(waits));
  EXPECT_EQ(waits->answer, Answer::done);
}

TEST_F(LocksNet, who_renews_and_does_not_say_what_it_has_is_expelled) {
  names_.stop();
  names_.start({{NodeId{9}, 4}, a_.session});
  names_.good.insert({NodeId{9}, 4});
  const auto asked = a_.ask(a_.open, a_.wanted(5, Type::write));
  EXPECT_FALSE(a_.await(asked, limits::kClaimMost - seconds(1)));
  EXPECT_TRUE(names_.expelled.empty());
  names_.world.run_for(seconds(2));
  EXPECT_EQ(names_.expelled, std::vector<NodeId>{NodeId{9}});
  names_.good.erase({NodeId{9}, 4});
  EXPECT_FALSE(a_.await(asked, seconds(2)));
  names_.service->gone({NodeId{9}, 4});
  EXPECT_TRUE(a_.await(asked));
  EXPECT_EQ(asked->answer, Answer::done);
}

TEST_F(LocksNet, of_a_session_that_is_over_are_kept_until_it_is_gone) {
  EXPECT_EQ(a_.set(a_.wanted(5, Type::write)), Answer::done);
  names_.good.erase(a_.session);
  EXPECT_EQ(b_.set(b_.wanted(6, Type::write)), Answer::held);
  const auto waits = b_.ask(b_.open, b_.wanted(6, Type::write), true);
  EXPECT_FALSE(b_.await(waits, seconds(3)));
  names_.service->gone(a_.session);
  EXPECT_TRUE(b_.await(waits));
  EXPECT_EQ(waits->answer, Answer::done);
}

TEST_F(LocksNet, a_new_session_has_lost_the_opens_that_had_some) {
  locks::Open had_none, gave_back;
  EXPECT_EQ(a_.set(a_.wanted(5, Type::write)), Answer::done);
  EXPECT_TRUE(a_.await(a_.ask(gave_back, a_.wanted(6, Type::write, kOther))));
  EXPECT_TRUE(a_.await(a_.ask(gave_back, a_.wanted(6, Type::none, kOther))));
  names_.good.erase(a_.session);
  // Asked in the old one, and answered in the next.
  const auto asked = a_.ask(had_none, a_.wanted(7, Type::write, kOther));
  const auto of_lost = a_.ask(a_.open, a_.wanted(5, Type::write, kOther, {8, 9}));
  names_.world.run_for(seconds(3));
  EXPECT_FALSE(a_.open.is_lost());
  a_.begin(2);
  EXPECT_TRUE(a_.open.is_lost());
  EXPECT_FALSE(had_none.is_lost());
  EXPECT_FALSE(gave_back.is_lost());
  EXPECT_TRUE(a_.await(of_lost));
  EXPECT_EQ(of_lost->answer, Answer::lost);
  EXPECT_TRUE(a_.await(asked));
  EXPECT_EQ(asked->answer, Answer::done);
  EXPECT_EQ(a_.set(a_.wanted(5, Type::read)), Answer::lost);
}

TEST_F(LocksNet, who_has_no_session_hears_in_time) {
  names_.good.erase(a_.session);
  a_.session.session = 2;
  const auto asked = a_.ask(a_.open, a_.wanted(5, Type::write));
  const auto waits = a_.ask(a_.open, a_.wanted(5, Type::write), true);
  EXPECT_FALSE(a_.await(asked, limits::kAskMost - seconds(1)));
  EXPECT_TRUE(a_.await(asked, seconds(2)));
  EXPECT_EQ(asked->answer, Answer::lost);
  // Which can be interrupted.
  EXPECT_FALSE(a_.await(waits, seconds(30)));
  a_.agent->cancel(waits->request);
  EXPECT_TRUE(a_.await(waits));
  EXPECT_EQ(waits->answer, Answer::ended);
}

TEST_F(LocksNet, nothing_is_taken_while_the_lease_is_over) {
  names_.world.run_for(seconds(1));
  const uint64_t calls = a_.agent->figures().calls;
  const auto asked = a_.ask(a_.open, a_.wanted(5, Type::write));
  const auto waits = b_.ask(b_.open, b_.wanted(5, Type::write), true);
  const auto is_asked = [&] { return a_.agent->figures().calls > calls; };
  ASSERT_TRUE(names_.world.run_until(is_asked, seconds(1)) && asked->answer == Answer::waits);
  a_.is_leased = b_.is_leased = false;
  // As of a table that has been replaced, which still answers.
  EXPECT_FALSE(a_.await(asked, seconds(3)));
  EXPECT_EQ(names_.service->figures().locks, 1U);
  EXPECT_FALSE(b_.await(waits, seconds(3)));
  const auto later = a_.ask(a_.open, a_.wanted(6, Type::write, kOther));
  EXPECT_FALSE(a_.await(later, seconds(3)));
  EXPECT_EQ(names_.service->figures().locks, 1U);
  a_.is_leased = b_.is_leased = true;
  EXPECT_TRUE(a_.await(asked));
  EXPECT_EQ(asked->answer, Answer::done);
  EXPECT_TRUE(a_.await(later));
  EXPECT_FALSE(a_.open.is_lost());
}

TEST_F(LocksNet, who_asks_while_nobody_answers_hears_in_time_and_keeps_what_it_has) {
  EXPECT_EQ(a_.set(a_.wanted(5, Type::write)), Answer::done);
  names_.stop();
  const auto other = a_.ask(a_.open, a_.wanted(5, Type::write, kOther));
  const auto unlock = a_.ask(a_.open, a_.wanted(5, Type::none));
  bool is_released = false;
  locks::Open closed;
  EXPECT_FALSE(a_.await(other, limits::kAskMost - seconds(1)));
  EXPECT_TRUE(a_.await(other, seconds(2)));
  EXPECT_TRUE(a_.await(unlock, seconds(2)));
  EXPECT_EQ(other->answer, Answer::lost);
  EXPECT_EQ(unlock->answer, Answer::lost);
  names_.world.run_for(seconds(60));
  // Nothing of it was said: what it had it has still.
  EXPECT_FALSE(a_.open.is_lost());
  names_.start({a_.session, b_.session});
  EXPECT_EQ(b_.set(b_.wanted(6, Type::write)), Answer::held);
  EXPECT_EQ(b_.set(b_.wanted(6, Type::write, kOther)), Answer::done);
  // Closed while nobody answers, it is released as soon as somebody does.
  names_.stop();
  a_.agent->closed(a_.open, [&](Answer) { is_released = true; });
  names_.world.run_for(seconds(60));
  EXPECT_TRUE(is_released);
  names_.start({a_.session, b_.session});
  names_.world.run_for(seconds(1));
  EXPECT_EQ(b_.set(b_.wanted(6, Type::write)), Answer::done);
}

// It has perhaps been done: neither before nor after is relied on.
TEST_F(LocksNet, what_was_said_and_has_no_answer_in_time_is_relied_on_by_nobody) {
  locks::Open beside;
  EXPECT_EQ(a_.set(a_.wanted(5, Type::write)), Answer::done);
  EXPECT_TRUE(a_.await(a_.ask(beside, a_.wanted(9, Type::write, kOther))));
  names_.network.set_cut(kNames, kA, true);
  const auto lowered = a_.ask(a_.open, a_.wanted(5, Type::read));
  names_.world.run_for(seconds(1));
  a_.is_leased = false;
  EXPECT_TRUE(a_.await(lowered, limits::kAskMost + seconds(1)));
  EXPECT_EQ(lowered->answer, Answer::lost);
  EXPECT_TRUE(a_.open.is_lost());
  EXPECT_FALSE(beside.is_lost());
  EXPECT_EQ(b_.set(b_.wanted(6, Type::read)), Answer::done);
  names_.network.heal();
  a_.is_leased = true;
  names_.world.run_for(seconds(3));
  a_.close(a_.open);
  EXPECT_EQ(b_.set(b_.wanted(6, Type::write)), Answer::done);
}

// ---- stories ----

// Owners that lock and unlock whole files over a network that loses, doubles and delays, with a
// service that dies and sessions that end. What programs are told is noted as it is told.
class Story {
 public:
  explicit Story(uint64_t seed) : names_(seed) {
    for (uint32_t i = 1; i <= 3; ++i)
      nodes_.push_back(std::make_unique<Process>(names_, NodeId{i}));
    for (size_t i = 0; i < nodes_.size(); ++i) {
      for (uint64_t number = 1; number <= 3; ++number) {
        owners_.push_back({nodes_[i].get(), number});
      }
    }
  }

  std::string run() {
    if (world().chance(800)) {
      names_.network.faults.drop_permille = 50;
      names_.network.faults.duplicate_permille = 100;
      names_.network.faults.delay_max = milliseconds(world().chance(300) ? 400 : 8);
      names_.network.faults.detection = milliseconds(300);
    }
    for (int round = 0; round < 150 && fault_.empty(); ++round) {
      if (world().chance(40)) one_fault();
      for (const auto& node : nodes_) reopen(*node);
      for (uint64_t n = world().random().below(6); n > 0; --n) one_step();
      world().run_for(milliseconds(world().random().below(world().chance(900) ? 40 : 1500)));
    }
    names_.network.faults = {};
    names_.network.heal();
    // Once nobody has anything all that waits is served.
    const bool idle = world().run_until(
        [this] {
          for (const auto& node : nodes_) reopen(*node);
          for (Owner& owner : owners_) {
            if (owner.asked == nullptr && !owner.has.empty())
              unlock(owner, owner.has.begin()->first);
          }
          return !fault_.empty() || (is_idle() && names_.service->figures().locks == 0);
        },
        seconds(120));
    if (fault_.empty() && !idle) fault_ = is_idle() ? "a lock is left" : "somebody waits";
    return fault_;
  }

 private:
  struct Owner {
    Process* process = nullptr;
    uint64_t number = 0;
    std::map<uint64_t, Type> has = {};  // of files, as it was told
    Process::Asked asked = {};
  };
  sim::SimWorld& world() { return names_.world; }
  bool is_idle() const {
    return std::all_of(owners_.begin(), owners_.end(), [](const Owner& owner) {
      return owner.asked == nullptr && owner.has.empty();
    });
  }

  void one_step() {
    Owner& owner = owners_[world().random().below(owners_.size())];
    const uint64_t file = 1 + world().random().below(3);
    if (owner.asked != nullptr) {
      if (owner.asked->request != RequestId() && world().chance(100)) {
        owner.process->agent->cancel(owner.asked->request);
      }
      return;
    }
    if (world().chance(450)) return unlock(owner, file);
    const Type type = world().chance(500) ? Type::read : Type::write;
    // What it gives up for another type it does not have from now on.
    const bool waits = world().chance(500);
    ask(owner, file, type, waits);
  }
  void unlock(Owner& owner, uint64_t file) { ask(owner, file, Type::none, false); }
  void ask(Owner& owner, uint64_t file, Type type, bool waits) {
    // What it has is less until it is told.
    const auto had = owner.has.find(file);
    const bool is_less = type != Type::write && had != owner.has.end();
    const Type before = is_less ? had->second : Type::none;
    if (is_less) owner.has.erase(had);
    const AgentId session = owner.process->session;
    auto result = std::make_shared<Process::Result>();
    if (waits) result->request = owner.process->agent->next_request();
    owner.asked = result;
    owner.process->agent->set(
        owner.process->open, Process::wanted(owner.number, type, InodeId(file)), result->request,
        [this, &owner, file, type, before, session](Answer answer) {
          owner.asked = nullptr;
          if (owner.process->open.is_lost()) forget(*owner.process);
          const bool is_as_before = answer != Answer::done && before != Type::none;
          if (owner.process->open.is_lost()) return;
          if (is_as_before && session == owner.process->session) owner.has[file] = before;
          if (answer == Answer::done && type != Type::none) told(owner, file, type);
        });
  }
  void told(Owner& owner, uint64_t file, Type type) {
    owner.has[file] = type;
    for (const Owner& other : owners_) {
      if (&other == &owner) continue;
      const auto has = other.has.find(file);
      if (has == other.has.end()) continue;
      if (type == Type::write || has->second == Type::write) {
        fault_ = "two have file " + std::to_string(file);
      }
    }
  }

  // Nothing that is locked through an open that is lost is relied on.
  void forget(const Process& process) {
    for (Owner& owner : owners_) {
      if (owner.process == &process) owner.has.clear();
    }
  }
  void reopen(Process& process) {
    if (!process.open.is_lost()) return;
    forget(process);
    for (const Owner& owner : owners_) {
      if (owner.process != &process || owner.asked == nullptr) continue;
      if (owner.asked->request != RequestId()) process.agent->cancel(owner.asked->request);
      return;
    }
    process.agent->closed(process.open, [](Answer) {});
    new (&process.open) locks::Open;
  }

  void one_fault() {
    Process& process = *nodes_[world().random().below(nodes_.size())];
    switch (world().random().below(4)) {
      case 0:
        return names_.network.set_partitioned(process.node, kNames, true);
      case 1:
        return names_.network.heal();
      case 2:
        return begin_session(process);
      default:
        names_.stop();
        // For longer than who asks waits, now and then.
        if (world().chance(500)) {
          for (uint64_t n = world().random().below(20); n > 0; --n) {
            one_step();
            world().run_for(milliseconds(world().random().below(3000)));
          }
        }
        names_.start({names_.good.begin(), names_.good.end()});
    }
  }
  // The old one ends, is fenced, and the next begins.
  void begin_session(Process& process) {
    const AgentId over = process.session;
    names_.good.erase(over);
    forget(process);
    process.begin(over.session + 1);
    world().run_for(milliseconds(world().random().below(2000)));
    names_.service->gone(over);
    new (&process.open) locks::Open;
  }

  Names names_;
  std::string fault_;
  std::vector<Owner> owners_;
  std::vector<std::unique_ptr<Process>> nodes_;  // last: who asked hears of their end
};

TEST(LocksNetStories, no_two_have_a_lock_and_all_are_served) {
  const sim::SeedRange seeds = sim::seed_range(200);
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    ASSERT_EQ(Story(seed).run(), "") << "seed " << seed;
  }
}

// ---- nodes that are restricted ----

TEST_F(LocksNet, what_is_refused_is_shown_and_asked_for_once_more) {
  Process a(names_, kA), b(names_, kB);
  bool is_known = false;
  names_.judge = [&](AgentId agent, const Wanted&) { return is_known || agent.node != kA; };
  const auto first = a.ask(a.open, Process::wanted(1, Type::write));
  ASSERT_TRUE(a.await_show());
  EXPECT_EQ(a.shown, std::vector<InodeId>{kFile});
  is_known = true;
  a.end_shows(Code::ok);
  ASSERT_TRUE(a.await(first));
  EXPECT_EQ(first->answer, Answer::done);
  is_known = false;
  // Nor is it told who has a lock.
  EXPECT_EQ(b.set(Process::wanted(2, Type::write, kOther)), Answer::done);
  auto told = std::make_shared<std::optional<Answer>>();
  a.agent->get(a.open, Process::wanted(1, Type::write, kOther),
               [told](Answer answer, const std::optional<Held>& held) {
                 EXPECT_FALSE(held.has_value());
                 *told = answer;
               });
  ASSERT_TRUE(a.await_show());
  a.end_shows(Code::ok);
  ASSERT_TRUE(names_.world.run_until([&] { return told->has_value(); }, seconds(5)));
  EXPECT_EQ(**told, Answer::refused);
  // What could not be shown is not asked for again.
  const uint64_t denied = names_.service->figures().denied;
  const auto third = a.ask(a.open, Process::wanted(1, Type::read, kOther), true);
  ASSERT_TRUE(a.await_show());
  a.end_shows(Code::stale);
  ASSERT_TRUE(a.await(third));
  EXPECT_EQ(third->answer, Answer::refused);
  EXPECT_EQ(names_.service->figures().denied, denied + 1);
  EXPECT_EQ(names_.service->figures().locks, 2U);
}

TEST_F(LocksNet, who_closes_or_is_interrupted_waits_for_no_show) {
  Process a(names_, kA);
  names_.judge = [](AgentId, const Wanted&) { return false; };
  locks::Open other;
  const auto closed = a.ask(other, Process::wanted(1, Type::write));
  const auto interrupted = a.ask(a.open, Process::wanted(2, Type::write), true);
  ASSERT_TRUE(names_.world.run_until([&] { return a.shows.size() == 2; }, seconds(5)));
  a.close(other);
  a.agent->cancel(interrupted->request);
  ASSERT_TRUE(a.await(closed) && a.await(interrupted));
  EXPECT_EQ(closed->answer, Answer::ended);
  EXPECT_EQ(interrupted->answer, Answer::ended);
  names_.judge = {};
  a.end_shows(Code::ok);
  names_.world.run_for(seconds(2));
  EXPECT_EQ(names_.service->figures().locks, 0U);
}

TEST_F(LocksNet, a_flock_that_is_refused_as_another_type_is_given_up) {
  Process a(names_, kA), b(names_, kB);
  const auto whole = [](Type type) { return Process::wanted(1, type, kFile, {}, Kind::whole); };
  EXPECT_EQ(a.set(whole(Type::read)), Answer::done);
  names_.judge = [](AgentId agent, const Wanted& wanted) {
    return agent.node != kA || wanted.type == Type::none;
  };
  const auto asked = a.ask(a.open, whole(Type::write));
  ASSERT_TRUE(a.await_show());
  a.end_shows(Code::ok);
  ASSERT_TRUE(a.await(asked));
  EXPECT_EQ(asked->answer, Answer::refused);
  EXPECT_EQ(b.set(whole(Type::write)), Answer::done);
}

TEST_F(LocksNet, a_false_claim_of_a_restricted_node_ends_its_own_session) {
  for (const bool liar_is_first : {true, false}) {
    Names names(2);
    Process honest(names, kA);
    sim::SimLoop loop(names.world);
    sim::SimNet net(names.network, loop, kB);
    const AgentId liar{kB, 1};
    names.good.insert(liar);
    EXPECT_EQ(honest.set(Process::wanted(1, Type::write)), Answer::done);
    names.stop();
    names.restricted = {kB};
    // Another life, to which the liar says that the lock is its own.
    names.start({honest.session, liar});
    const auto lie = [&] {
      struct Call : engine::CallOp {
        bool is_over = false;
      } call;
      std::string words;
      Wanted wanted = Process::wanted(1, Type::write);
      encode(Have{wanted}, words);
      encode(HaveAll{}, words);
      RequestHeader header;
      header.version = wire::kNodeVersion;
      header.words = 2;
      header.session = liar.session;
      header.sequence = 1000;
      header.life = names.life;
      header.checksum = checksum_of(header, words);
      std::string message(reinterpret_cast<const char*>(&header), sizeof header);
      message += words;
      std::array<std::byte, engine::kNetMessageMax> answered{};
      call.to = {kNames, kLocksService};
      call.method = kMethod;
      call.request = bytes_of(message);
      call.response = answered;
      call.deadline = loop.now() + seconds(5);
      call.completion = [](engine::Op& op) { static_cast<Call&>(op).is_over = true; };
      net.call(call);
      EXPECT_TRUE(names.world.run_until([&] { return call.is_over; }, seconds(6)));
      EXPECT_TRUE(call.status.ok());
    };
    if (liar_is_first) lie();
    // Whoever asks says first what it has.
    EXPECT_TRUE(names.world.run_until(
        [&] { return names.service->figures().locks == 1 || liar_is_first; }, seconds(5)));
    if (!liar_is_first) lie();
    names.world.run_for(seconds(1));
    EXPECT_FALSE(honest.open.is_lost());
    EXPECT_EQ(names.expelled, std::vector<NodeId>{kB}) << liar_is_first;
  }
}

}  // namespace
}  // namespace penstock::locks_net
