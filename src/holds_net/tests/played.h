// A service in a simulation, and agents that the test plays word by word.
#pragma once

#include "../caller.h"
#include "../records.h"

#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "penstock/holds_net.h"
#include "penstock/sim.h"

namespace penstock::holds_net {

using std::chrono::milliseconds;
using std::chrono::seconds;

inline constexpr engine::Address kService{NodeId{100}, 9};
inline constexpr NodeId kA{1}, kB{2};
inline constexpr InodeId kFile{7}, kOther{8};

// The service, its database, and what it calls.
class PlayedService {
 public:
  PlayedService() { start(); }
  ~PlayedService() { stop(); }

  void start() {
    kv_ = std::make_unique<sim::SimKv>(image);
    net_ = std::make_unique<sim::SimNet>(network, loop_, kService.node);
    HoldsServiceConfig config;
    config.loop = &loop_;
    config.net = net_.get();
    config.address = kService;
    config.kv = kv_.get();
    config.fence = [this](AgentId agent, std::function<void()> done) {
      fenced.push_back(agent);
      fences_.push_back(std::move(done));
      if (fences_itself) fence();
    };
    config.settle = [this](AgentId, std::vector<InodeId> exclusives,
                           const std::function<void()>& done) {
      settled = std::move(exclusives);
      done();
    };
    config.unused = [this](InodeId inode) { unused.push_back(inode); };
    config.answers_until = [this] { return answers_until; };
    config.judge = [this](AgentId agent, InodeId inode, Hold hold) -> Judgement {
      return judge ? judge(agent, inode, hold) : Judgement{Judgement::Is::allowed, inode};
    };
    config.is_restricted = [this](NodeId node) { return restricted.contains(node); };
    config.claims_over = [this] { ++claims_over; };
    auto opened = HoldsService::open(config);
    ASSERT(opened.has_value());
    service = std::move(*opened);
    service->start();
  }
  void stop() {
    if (service == nullptr) return;
    EXPECT_TRUE(
        engine::thread_caller().call(loop_, [&](engine::Op& done) { service->stop(done); }).ok());
    service = nullptr;
    kv_ = nullptr;
    // What is on its way arrives.
    world.run_for(seconds(1));
    net_ = nullptr;
  }
  // Those that wait are done.
  void fence() {
    for (const auto& done : std::exchange(fences_, {})) done();
  }
  NodeRecord record_of(NodeId node) {
    const auto content = image.content();
    const auto found = content.find(key_of(node));
    return found == content.end() ? NodeRecord{} : *decode_node(found->second);
  }

  sim::SimWorld world{1};
  sim::SimNetwork network{world};
  sim::SimKvImage image{world};
  std::unique_ptr<HoldsService> service;
  bool fences_itself = true;
  std::vector<AgentId> fenced;
  std::vector<InodeId> settled;
  std::vector<InodeId> unused;
  int claims_over = 0;
  engine::Time answers_until = engine::kNever;
  std::function<Judgement(AgentId, InodeId, Hold)> judge;
  std::set<NodeId> restricted;

 private:
  sim::SimLoop loop_{world};
  std::unique_ptr<sim::SimKv> kv_;
  std::unique_ptr<sim::SimNet> net_;
  std::vector<std::function<void()>> fences_;
};

// An agent of which the test says each word.
class PlayedAgent {
 public:
  PlayedAgent(PlayedService& service, NodeId node, uint64_t process = 1)
      : world_(service.world),
        process_(process),
        loop_(service.world),
        net_(service.network, loop_, node) {
    config_.loop = &loop_;
    config_.net = &net_;
    config_.node = node;
    config_.service = kService;
    id = {node, 1};
  }
  ~PlayedAgent() {
    for (const auto& caller : callers_) caller->end();
    world_.run_for(seconds(3));
  }

  // Has its answer when it has come; null: none came.
  using Answered = std::shared_ptr<std::optional<Caller::Answer>>;
  Answered ask(Kind kind, std::vector<Word> words = {}, uint64_t again = 0) {
    Caller::Question question{kind, id, process_, 0, life, {}};
    if (kind == Kind::say) question.sequence = again != 0 ? again : ++sequence;
    for (const Word& word : words) encode(word, question.words);
    auto answered = std::make_shared<std::optional<Caller::Answer>>();
    callers_.push_back(std::make_unique<Caller>(
        config_, version_,
        [answered](const Caller::Answer* answer) {
          if (answer != nullptr) *answered = *answer;
        },
        [] {}));
    callers_.back()->call(std::move(question));
    return answered;
  }
  // The same, and waits for it.
  Caller::Answer hear(Kind kind, std::vector<Word> words = {}, uint64_t again = 0) {
    const Answered answered = ask(kind, std::move(words), again);
    EXPECT_TRUE(world_.run_until([&] { return answered->has_value(); }, seconds(10)));
    if (!answered->has_value()) return {};
    take(**answered);
    return **answered;
  }
  bool begin() {
    const Caller::Answer answer = hear(Kind::begin);
    life = answer.header.life;
    return answer.header.is_good == 1;
  }
  bool say(std::vector<Word> words) {
    return hear(Kind::say, std::move(words)).header.is_good == 1;
  }
  bool attend() { return hear(Kind::attend).header.is_good == 1; }
  void want(InodeId inode, Hold hold) {
    EXPECT_TRUE(say({Want{id, RequestId(++requests_), inode, hold, true}}));
  }
  // Attends until it has one of a kind, which is taken out.
  template <class One>
  One next() {
    for (int i = 0; i < 20; ++i) {
      for (auto at = told.begin(); at != told.end(); ++at) {
        if (!std::holds_alternative<One>(*at)) continue;
        One one = std::get<One>(*at);
        told.erase(at);
        return one;
      }
      if (!attend()) break;
    }
    ADD_FAILURE() << "it was not told";
    return {};
  }
  void take(const Caller::Answer& answer) {
    told.insert(told.end(), answer.told.begin(), answer.told.end());
  }

  AgentId id;
  uint16_t life = 0;
  uint64_t sequence = 0;
  std::vector<Told> told;

 private:
  sim::SimWorld& world_;
  const uint64_t process_;
  sim::SimLoop loop_;
  sim::SimNet net_;
  HoldsAgentConfig config_;
  uint16_t version_ = wire::kNodeVersion;
  std::vector<std::unique_ptr<Caller>> callers_;
  uint64_t requests_ = 0;
};

}  // namespace penstock::holds_net
