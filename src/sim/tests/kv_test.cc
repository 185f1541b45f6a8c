#include <gtest/gtest.h>

#include "penstock/sim.h"

namespace penstock::sim {
namespace {

using engine::KvMode;
using engine::KvTransaction;
using engine::Op;

// Adds one to a counter.
struct Increment final : engine::KvOp {
  std::string key = "n";
  int bodies = 0;
  int completions = 0;

  Increment() {
    mode = KvMode::write;
    completion = [](Op& op) { ++static_cast<Increment&>(op).completions; };
  }
  Status body(KvTransaction& transaction) override {
    ++bodies;
    TRY_ASSIGN(const std::optional<std::string> value, transaction.get(key));
    transaction.put(key, std::to_string(value ? std::stoi(*value) + 1 : 1));
    return Code::ok;
  }
};

class SimKvTest : public testing::Test {
 protected:
  std::string value(const std::string& key) {
    const auto content = image_.content();
    const auto found = content.find(key);
    return found == content.end() ? "" : found->second;
  }
  void put(const std::string& key, const std::string& value, KvMode mode = KvMode::write) {
    ASSERT_TRUE(kv_->run(mode,
                         [&](KvTransaction& t) {
                           t.put(key, value);
                           return Status();
                         })
                    .ok());
  }
  void restart() {
    kv_.reset();
    kv_ = std::make_unique<SimKv>(image_);
  }

  SimWorld world_{3};
  SimLoop loop_{world_};
  SimKvImage image_{world_};
  std::unique_ptr<SimKv> kv_ = std::make_unique<SimKv>(image_);
};

TEST_F(SimKvTest, scans_see_the_transactions_own_writes_in_order) {
  put("a", "1");
  put("b", "2");
  put("d", "4");
  std::string seen;
  ASSERT_TRUE(kv_->run(KvMode::write,
                       [&](KvTransaction& t) {
                         t.erase("b");
                         t.put("c", "3");
                         t.put("d", "5");
                         seen.clear();
                         return t.scan("a", "e", [&](std::string_view key, std::string_view value) {
                           seen += std::string(key) + std::string(value) + " ";
                           return key < "d";
                         });
                       })
                  .ok());
  EXPECT_EQ(seen, "a1 c3 d5 ");
  EXPECT_EQ(image_.content(),
            (std::map<std::string, std::string>{{"a", "1"}, {"c", "3"}, {"d", "5"}}));
}

TEST_F(SimKvTest, a_body_that_fails_changes_nothing) {
  EXPECT_EQ(kv_->run(KvMode::write,
                     [](KvTransaction& t) {
                       t.put("a", "1");
                       return Status(Code::not_empty);
                     }),
            Status(Code::not_empty));
  EXPECT_TRUE(image_.content().empty());
}

TEST_F(SimKvTest, concurrent_transactions_conflict_and_none_is_lost) {
  std::vector<Increment> ops(40);
  for (Increment& op : ops) {
    op.home = &loop_;
    kv_->submit(op);
    EXPECT_EQ(op.completions, 0);
  }
  ASSERT_TRUE(world_.run_until([&] {
    return std::all_of(ops.begin(), ops.end(), [](auto& op) { return op.completions == 1; });
  }));
  int bodies = 0;
  int succeeded = 0;
  for (const Increment& op : ops) {
    bodies += op.bodies;
    succeeded += op.status.ok();
    EXPECT_TRUE(op.status.ok() || op.status == Status(Code::busy));
  }
  EXPECT_EQ(value("n"), std::to_string(succeeded));
  EXPECT_GT(bodies, 40) << "nothing ever conflicted";
}

TEST_F(SimKvTest, injected_conflicts_run_the_body_again_and_end_as_busy) {
  image_.faults.conflict_permille = 500;
  for (int i = 0; i < 20; ++i) {
    Increment op;
    EXPECT_TRUE(kv_->run(op).ok());
  }
  EXPECT_EQ(value("n"), "20");
  image_.faults.conflict_permille = 1000;
  Increment op;
  EXPECT_EQ(kv_->run(op), Status(Code::busy));
  EXPECT_EQ(op.bodies, engine::kKvAttemptsMax);
  EXPECT_EQ(value("n"), "20");
}

TEST_F(SimKvTest, unknown_commits_are_resolved_or_reported) {
  image_.faults.unknown_commit_permille = 1000;
  for (int i = 0; i < 20; ++i) {
    Increment op;
    EXPECT_TRUE(kv_->run(op).ok());
  }
  EXPECT_EQ(value("n"), "20");
  image_.faults.unknown_commit_permille = 0;
  image_.faults.unresolved_commit_permille = 1000;
  int happened = 0;
  for (int i = 0; i < 20; ++i) {
    const std::string before = value("n");
    Increment op;
    EXPECT_EQ(kv_->run(op), Status(Code::may_have_happened));
    happened += value("n") != before;
  }
  EXPECT_GT(happened, 0);
  EXPECT_LT(happened, 20);
}

TEST_F(SimKvTest, a_power_cut_loses_only_the_newest_commits_that_are_not_durable) {
  std::set<int> survivors;
  for (int round = 0; round < 50; ++round) {
    put("base", std::to_string(round), KvMode::write_durable);
    ASSERT_TRUE(kv_->run(KvMode::write,
                         [](KvTransaction& t) {
                           for (const char* key : {"0", "1", "2", "3"}) t.erase(key);
                           return Status();
                         })
                    .ok());
    ASSERT_TRUE(kv_->sync().ok());
    for (const char* key : {"0", "1", "2", "3"}) put(key, "x");
    image_.power_cut();
    restart();
    EXPECT_EQ(value("base"), std::to_string(round));
    int kept = 0;
    while (kept < 4 && value(std::to_string(kept)) == "x") ++kept;
    for (int rest = kept; rest < 4; ++rest) EXPECT_EQ(value(std::to_string(rest)), "");
    survivors.insert(kept);
  }
  EXPECT_EQ(survivors.size(), 5u);
}

TEST_F(SimKvTest, a_kill_keeps_what_is_committed_and_ends_the_rest) {
  std::vector<Increment> ops(20);
  for (size_t i = 0; i < ops.size(); ++i) {
    ops[i].home = &loop_;
    ops[i].key = std::to_string(i);
    kv_->submit(ops[i]);
  }
  world_.after(std::chrono::microseconds(120), "kill", [&] { image_.kill(); });
  world_.run_for(std::chrono::milliseconds(10));
  int acknowledged = 0;
  for (size_t i = 0; i < ops.size(); ++i) {
    ASSERT_EQ(ops[i].completions, 1);
    if (ops[i].status.ok()) {
      ++acknowledged;
      EXPECT_EQ(value(ops[i].key), "1");
    } else {
      EXPECT_EQ(ops[i].status, Status(Code::closed));
    }
  }
  EXPECT_LT(acknowledged, 20);
  EXPECT_EQ(kv_->sync(), Status(Code::closed));
  restart();
  put("again", "1");
}

TEST_F(SimKvTest, reads_fail_when_told_to) {
  image_.faults.read_error_permille = 1000;
  Increment op;
  EXPECT_EQ(kv_->run(op), Status(Code::io_error));
}

}  // namespace
}  // namespace penstock::sim
