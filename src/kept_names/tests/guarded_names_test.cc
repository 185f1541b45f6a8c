// Changes of names beside agents that keep them, over a net.
#include <gtest/gtest.h>

#include "penstock/kept_names.h"
#include "penstock/sim.h"

namespace penstock::kept_names {
namespace {

using engine::Thread;
using holds::Hold;
using meta::kRootInode;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr NodeId kNames{1};
constexpr NodeId kKeeper{2};
constexpr engine::Address kHolds{kNames, 90};

// One process with the names and an agent that keeps some of them, which answers when it may.
class GuardedNamesTest : public testing::Test {
 protected:
  // An agent that was told, and has not said that it has forgotten.
  class Keeping final : public holds::Keeping {
   public:
    void drop(InodeId, Hold, std::function<void()> done) override { done(); }
    void settle(InodeId, std::function<void()> done) override { done(); }
    void drop_all(bool, std::function<void()> done) override { done(); }
  };

  void SetUp() override {
    loop_ = std::make_unique<sim::SimLoop>(world_);
    net_ = std::make_unique<sim::SimNet>(network_, *loop_, kNames);
    other_net_ = std::make_unique<sim::SimNet>(network_, *loop_, kKeeper);
    meta_ = std::move(*meta::Meta::open(kv_, world_.clock(), {}));
    holds_net::HoldsServiceConfig service;
    service.loop = loop_.get();
    service.net = net_.get();
    service.address = kHolds;
    service.kv = &kv_;
    service.fence = [](auto, const auto& done) { done(); };
    service.settle = [](auto, const auto&, const auto& done) { done(); };
    service_ = std::move(*holds_net::HoldsService::open(service));
    guard_ = std::make_unique<NamesGuard>(*service_);
    holds_net::HoldsAgentConfig agent;
    agent.loop = loop_.get();
    agent.net = other_net_.get();
    agent.node = kKeeper;
    agent.service = kHolds;
    agent.keeping = &keeping_;
    agent.forget_names = [this](InodeId inode, const std::vector<std::string>& names,
                                std::function<void()> done) {
      for (const std::string& name : names) told_.push_back({inode, name});
      told_done_ = std::move(done);
      if (answers_) std::exchange(told_done_, nullptr)();
    };
    agent_ = holds_net::HoldsAgent::make(agent);
    service_->start();
    agent_->start();
    ASSERT_TRUE(world_.run_until([this] { return agent_->is_ready(); }, seconds(5)));
  }
  void TearDown() override {
    guard_->stop();
    in_loop([&](engine::Op& done) { agent_->close(done); });
    in_loop([&](engine::Op& done) { service_->stop(done); });
    agent_ = nullptr;
    service_ = nullptr;
    guard_ = nullptr;
  }
  void in_loop(const std::function<void(engine::Op&)>& what) {
    Thread caller("caller", [&] { (void)engine::thread_caller().call(*loop_, what); });
    caller.join();
  }

  void keep(InodeId inode) {
    agent_->want(inode);
    holds::Ticket ticket;
    ASSERT_TRUE(
        world_.run_until([&] { return agent_->enter(inode, Hold::shared, ticket); }, seconds(5)));
    agent_->leave(ticket);
  }
  GuardedNames names() {
    return {*meta_, *guard_, [] { return holds::AgentId{NodeId(3), 1}; }};
  }

  sim::SimWorld world_{7};
  sim::SimNetwork network_{world_};
  sim::SimKvImage image_{world_};
  sim::SimKv kv_{image_};
  Keeping keeping_;
  std::vector<std::pair<InodeId, std::string>> told_;
  std::function<void()> told_done_;
  bool answers_ = true;
  std::unique_ptr<sim::SimLoop> loop_;
  std::unique_ptr<sim::SimNet> net_, other_net_;
  std::unique_ptr<meta::Meta> meta_;
  std::unique_ptr<holds_net::HoldsService> service_;
  std::unique_ptr<NamesGuard> guard_;
  std::unique_ptr<holds_net::HoldsAgent> agent_;
};

TEST_F(GuardedNamesTest, what_nobody_keeps_changes_at_once) {
  Thread maker("maker", [this] {
    EXPECT_TRUE(names().create({}, kRootInode, "f", 0644, true, {}, nullptr, {}).has_value());
  });
  maker.join();
  EXPECT_TRUE(told_.empty());
}

TEST_F(GuardedNamesTest, what_is_kept_changes_when_it_is_forgotten) {
  keep(kRootInode);
  answers_ = false;
  std::optional<bool> is_made;
  Thread maker("maker", [&] {
    is_made = names().create({}, kRootInode, "f", 0644, true, {}, nullptr, {}).has_value();
  });
  world_.run_for(milliseconds(500));
  EXPECT_EQ(told_, (std::vector<std::pair<InodeId, std::string>>{{kRootInode, "f"}}));
  EXPECT_FALSE(is_made.has_value());
  // What is read meanwhile is not steady; other things are.
  std::vector<meta::Look> looks(2);
  looks[0] = {kRootInode, "f"};
  looks[1] = {InodeId(5000), {}};
  Thread reader("reader", [&] { EXPECT_TRUE(names().look(looks).ok()); });
  reader.join();
  EXPECT_FALSE(looks[0].is_steady);
  EXPECT_EQ(looks[0].found.error(), Code::not_found);
  EXPECT_TRUE(looks[1].is_steady);
  in_loop([&](engine::Op& done) {
    std::exchange(told_done_, nullptr)();
    loop_->complete(done, Code::ok);
  });
  maker.join();
  EXPECT_EQ(is_made, true);
  Thread again("reader", [&] { EXPECT_TRUE(names().look(looks).ok()); });
  again.join();
  EXPECT_TRUE(looks[0].is_steady && looks[0].found.has_value());
}

TEST_F(GuardedNamesTest, attributes_of_what_loses_a_name_are_told_too) {
  const InodeId file = meta_->create({}, kRootInode, "f", 0644, true)->inode;
  keep(file);
  Thread remover("remover", [&] {
    EXPECT_TRUE(names().link({}, file, kRootInode, "g").has_value());
    meta::Removed removed;
    EXPECT_TRUE(names().unlink({}, kRootInode, "g", &removed).ok());
    EXPECT_EQ(removed.inode, file);
    EXPECT_TRUE(names().rename({}, kRootInode, "f", kRootInode, "h", {}, nullptr).ok());
  });
  remover.join();
  EXPECT_EQ(told_.front(), (std::pair<InodeId, std::string>{file, ""}));
  // It was told at least once; after more of them it is to be given back.
  EXPECT_GE(told_.size(), 1U);
}

TEST_F(GuardedNamesTest, who_waits_hears_when_the_guard_stops) {
  keep(kRootInode);
  answers_ = false;
  GuardedNames changing = names();
  Status ended;
  Thread maker("maker",
               [&] { ended = changing.make_directory({}, kRootInode, "d", 0755).error(); });
  world_.run_for(milliseconds(500));
  guard_->stop();
  maker.join();
  EXPECT_EQ(ended, Code::closed);
  EXPECT_TRUE(changing.has_given_up());
  EXPECT_EQ(meta_->lookup({}, kRootInode, "d").error(), Code::not_found);
  in_loop([&](engine::Op& done) {
    std::exchange(told_done_, nullptr)();
    loop_->complete(done, Code::ok);
  });
  world_.run_for(milliseconds(500));
}

}  // namespace
}  // namespace penstock::kept_names
