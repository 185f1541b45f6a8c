// Commits whose answer is lost, with a proxy that cuts connections where a commit passes by.
#include "postgres_proxy.h"
#include "postgres_rig.h"

#include <thread>

#include "penstock/base.h"

namespace penstock::kv {
namespace {

using Cut = test::PostgresProxy::Cut;
using engine::KvMode;
using engine::KvTransaction;

class PostgresCommitTest : public PostgresTest {
 protected:
  void SetUp() override {
    PostgresTest::SetUp();
    if (IsSkipped()) return;
    proxy_ = std::make_unique<test::PostgresProxy>(server_->socket());
    PostgresOptions wanted = options();
    wanted.url = server_->url(database_, proxy_->directory());
    kv_ = open(wanted);
  }
  void TearDown() override { kv_.reset(); }

  // Writes, unread, which attempt it was: nothing but the commit's number keeps attempts apart.
  Status put_attempt(const std::string& key, int* attempts) {
    return kv_->run(KvMode::write, [&, attempts](KvTransaction& transaction) -> Status {
      transaction.put(key, std::to_string(++*attempts));
      return {};
    });
  }

  std::unique_ptr<test::PostgresProxy> proxy_;
  std::unique_ptr<engine::Kv> kv_;
};

TEST_F(PostgresCommitTest, runs_again_when_its_commit_never_arrived) {
  int attempts = 0;
  proxy_->cut_next(Cut::before);
  ASSERT_TRUE(put_attempt("a", &attempts).ok());
  EXPECT_TRUE(proxy_->has_cut());
  EXPECT_EQ(attempts, 2);
  EXPECT_EQ(*get(*kv_, "a"), "2");
}

TEST_F(PostgresCommitTest, is_acknowledged_once_when_only_the_answer_was_lost) {
  int attempts = 0;
  ASSERT_TRUE(increment(*kv_, "n").ok());
  proxy_->cut_next(Cut::after);
  ASSERT_TRUE(put_attempt("a", &attempts).ok());
  EXPECT_TRUE(proxy_->has_cut());
  EXPECT_EQ(attempts, 1);
  EXPECT_EQ(*get(*kv_, "a"), "1");
  proxy_->cut_next(Cut::after);
  ASSERT_TRUE(increment(*kv_, "n").ok());
  EXPECT_EQ(*get(*kv_, "n"), "2");
}

TEST_F(PostgresCommitTest, is_refused_when_it_arrives_after_it_was_asked_for) {
  int attempts = 0;
  proxy_->cut_next(Cut::late);
  ASSERT_TRUE(put_attempt("a", &attempts).ok());
  EXPECT_EQ(attempts, 2);
  proxy_->deliver();
  EXPECT_EQ(*get(*kv_, "a"), "2") << "the first attempt overwrote the second";
}

TEST_F(PostgresCommitTest, is_refused_when_it_arrives_late_and_none_came_after_it) {
  int attempts = 0;
  proxy_->cut_next(Cut::late);
  const Status status = kv_->run(KvMode::write, [&](KvTransaction& transaction) -> Status {
    // The caller was told that nothing happened.
    if (++attempts == 2) return Code::cancelled;
    transaction.put("a", "1");
    return {};
  });
  EXPECT_EQ(status.code(), Code::cancelled);
  proxy_->deliver();
  EXPECT_EQ(*get(*kv_, "a"), std::nullopt);
}

TEST_F(PostgresCommitTest, counts_are_exact_when_connections_are_cut_all_the_time) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 60;
  std::atomic<int> running{kThreads};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      // One that all share, and one of each.
      for (int round = 0; round < kRounds; ++round) {
        EXPECT_TRUE(increment(*kv_, "all").ok());
        EXPECT_TRUE(increment(*kv_, std::to_string(i)).ok());
      }
      --running;
    });
  }
  engine::SeededRandom random(3);
  int cuts = 0;
  while (running.load() > 0) {
    if (proxy_->has_cut()) {
      constexpr Cut kCuts[] = {Cut::before, Cut::after, Cut::late};
      proxy_->cut_next(kCuts[random.below(3)]);
      ++cuts;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    if (random.chance(1, 8)) proxy_->deliver();
  }
  for (std::thread& thread : threads) thread.join();
  proxy_->deliver();
  EXPECT_GT(cuts, 20);
  EXPECT_EQ(*get(*kv_, "all"), std::to_string(kThreads * kRounds));
  for (int i = 0; i < kThreads; ++i) {
    EXPECT_EQ(*get(*kv_, std::to_string(i)), std::to_string(kRounds));
  }
}

TEST_F(PostgresCommitTest, of_many_keys_excludes_all_others) {
  // More than are locked one by one.
  std::vector<std::string> keys;
  for (int i = 0; i < 200; ++i) keys.push_back("k" + std::to_string(1000 + i));
  const auto add_to_all = [&] {
    return kv_->run(KvMode::write, [&](KvTransaction& transaction) -> Status {
      TRY_ASSIGN(const KvTransaction::Values values, transaction.get_many(keys));
      for (size_t i = 0; i < keys.size(); ++i) {
        transaction.put(keys[i], std::to_string(values[i] ? std::stoi(*values[i]) + 1 : 1));
      }
      return {};
    });
  };
  constexpr int kRounds = 20;
  std::thread other([&] {
    for (int round = 0; round < kRounds; ++round) EXPECT_TRUE(add_to_all().ok());
  });
  for (int round = 0; round < kRounds; ++round) {
    EXPECT_TRUE(add_to_all().ok());
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(increment(*kv_, keys[7]).ok());
  }
  other.join();
  EXPECT_EQ(*get(*kv_, keys[0]), std::to_string(2 * kRounds));
  EXPECT_EQ(*get(*kv_, keys[7]), std::to_string(7 * kRounds));
}

}  // namespace
}  // namespace penstock::kv
