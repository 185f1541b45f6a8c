// What every engine::Kv must do, asked of each of them.
#include "../limits.h"

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <gtest/gtest.h>
#include <map>
#include <thread>

#include "penstock/kv.h"
#include "penstock/kv_move.h"
#include "penstock/sim.h"
#include "penstock/testing.h"
#include "penstock/testing_postgres.h"

namespace penstock::kv {
namespace {

using engine::KvMode;
using engine::KvTransaction;

// One implementation, with what it needs to live.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual engine::Kv& kv() = 0;
  virtual bool threads() const { return true; }
  // A reading transaction may stay open while another commits.
  virtual bool concurrent() const { return false; }
};

class MemoryBackend final : public Backend {
 public:
  engine::Kv& kv() override { return *kv_; }

 private:
  std::unique_ptr<engine::Kv> kv_ = make_memory_kv();
};

class RocksDbBackend final : public Backend {
 public:
  RocksDbBackend() {
    auto opened = open_rocksdb({.path = directory_ / "db", .create = true});
    EXPECT_TRUE(opened.has_value()) << opened.error().message;
    kv_ = std::move(*opened);
  }
  engine::Kv& kv() override { return *kv_; }
  bool concurrent() const override { return true; }

 private:
  const test::ScratchDirectory directory_;
  std::unique_ptr<engine::Kv> kv_;
};

// Names that could move, and do not.
class MovableBackend final : public Backend {
 public:
  engine::Kv& kv() override { return kv_; }
  bool concurrent() const override { return true; }

 private:
  RocksDbBackend inner_;
  MovableKv kv_{std::shared_ptr<engine::Kv>(&inner_.kv(), [](engine::Kv*) {}), 2};
};

class PostgresBackend final : public Backend {
 public:
  explicit PostgresBackend(std::unique_ptr<engine::Kv> kv) : kv_(std::move(kv)) {}
  engine::Kv& kv() override { return *kv_; }
  bool concurrent() const override { return true; }

 private:
  std::unique_ptr<engine::Kv> kv_;
};

class SimBackend final : public Backend {
 public:
  SimBackend() {
    image_.faults.conflict_permille = 100;
    image_.faults.unknown_commit_permille = 50;
  }
  engine::Kv& kv() override { return kv_; }
  bool threads() const override { return false; }

 private:
  sim::SimWorld world_{7};
  sim::SimKvImage image_{world_};
  sim::SimKv kv_{image_};
};

std::unique_ptr<Backend> make_backend(const std::string& name) {
  if (name == "memory") return std::make_unique<MemoryBackend>();
  if (name == "rocksdb") return std::make_unique<RocksDbBackend>();
  if (name == "movable") return std::make_unique<MovableBackend>();
  if (name == "postgres") {
    test::PostgresServer* const server = test::PostgresServer::shared();
    if (server == nullptr) return nullptr;
    auto opened = open_postgres(
        {.url = server->url(server->new_database()), .cluster = "conformance", .create = true});
    if (!opened && opened.error().status.code() == Code::not_supported) return nullptr;
    if (!opened) {
      ADD_FAILURE() << opened.error().message;
      return nullptr;
    }
    return std::make_unique<PostgresBackend>(std::move(*opened));
  }
  return std::make_unique<SimBackend>();
}

using Content = std::map<std::string, std::string>;

Content scan_all(KvTransaction& transaction, std::string_view begin, std::string_view end) {
  Content found;
  std::string previous;
  const Status status = transaction.scan(begin, end, [&](auto key, auto value) {
    EXPECT_TRUE(found.empty() || previous < key);
    previous = key;
    found.emplace(key, value);
    return true;
  });
  EXPECT_TRUE(status.ok());
  return found;
}

class KvConformance : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (backend_ == nullptr) GTEST_SKIP() << test::PostgresServer::kMissing;
  }
  engine::Kv& kv() { return backend_->kv(); }

  void put(const std::string& key, const std::string& value) {
    ASSERT_TRUE(kv().run(KvMode::write,
                         [&](KvTransaction& transaction) -> Status {
                           transaction.put(key, value);
                           return {};
                         })
                    .ok());
  }
  std::optional<std::string> get(const std::string& key) {
    std::optional<std::string> value;
    EXPECT_TRUE(kv().run(KvMode::read,
                         [&](KvTransaction& transaction) -> Status {
                           TRY_ASSIGN(value, transaction.get(key));
                           return {};
                         })
                    .ok());
    return value;
  }
  Content content() {
    Content found;
    EXPECT_TRUE(kv().run(KvMode::read,
                         [&](KvTransaction& transaction) -> Status {
                           found = scan_all(transaction, "", "");
                           return {};
                         })
                    .ok());
    return found;
  }

  std::unique_ptr<Backend> backend_ = make_backend(GetParam());
};

TEST_P(KvConformance, get_returns_what_was_put_last) {
  EXPECT_EQ(get("a"), std::nullopt);
  put("a", "1");
  EXPECT_EQ(get("a"), "1");
  put("a", "");
  EXPECT_EQ(get("a"), "");
  ASSERT_TRUE(kv().run(KvMode::write_durable,
                       [](KvTransaction& transaction) -> Status {
                         transaction.erase("a");
                         transaction.erase("never there");
                         return {};
                       })
                  .ok());
  EXPECT_EQ(get("a"), std::nullopt);
  EXPECT_TRUE(kv().sync().ok());
}

TEST_P(KvConformance, get_many_returns_what_get_does_when_keys_are_missing_changed_and_the_same) {
  put("a", "old");
  put("c", "old");
  put("d", "old");
  for (const KvMode mode : {KvMode::read, KvMode::write}) {
    const bool writing = mode == KvMode::write;
    const Status status = kv().run(mode, [&](KvTransaction& transaction) -> Status {
      if (writing) {
        transaction.put("b", "new");
        transaction.put("c", "new");
        transaction.erase("d");
      }
      const std::vector<std::string> keys = {"d", "a", "x", "b", "a", "c", ""};
      KvTransaction::Values expected;
      for (const std::string& key : keys) {
        TRY_ASSIGN(std::optional<std::string> value, transaction.get(key));
        expected.push_back(std::move(value));
      }
      TRY_ASSIGN(const KvTransaction::Values values, transaction.get_many(keys));
      EXPECT_EQ(values, expected);
      EXPECT_EQ(values[1], "old");
      EXPECT_EQ(values[5], writing ? "new" : "old");
      TRY_ASSIGN(const KvTransaction::Values none, transaction.get_many({}));
      EXPECT_TRUE(none.empty());
      return {};
    });
    EXPECT_TRUE(status.ok());
  }
}

TEST_P(KvConformance, nothing_happens_when_the_body_fails) {
  put("a", "1");
  const Status status = kv().run(KvMode::write, [](KvTransaction& transaction) -> Status {
    transaction.put("a", "2");
    transaction.put("b", "2");
    return Code::not_empty;
  });
  EXPECT_EQ(status.code(), Code::not_empty);
  EXPECT_EQ(content(), (Content{{"a", "1"}}));
}

TEST_P(KvConformance, transaction_sees_its_own_writes) {
  put("a", "old");
  put("c", "old");
  put("d", "old");
  const Status status = kv().run(KvMode::write, [](KvTransaction& transaction) -> Status {
    transaction.put("b", "new");
    transaction.put("c", "new");
    transaction.erase("d");
    TRY_ASSIGN(const auto b, transaction.get("b"));
    TRY_ASSIGN(const auto d, transaction.get("d"));
    EXPECT_EQ(b, "new");
    EXPECT_EQ(d, std::nullopt);
    EXPECT_EQ(scan_all(transaction, "", ""), (Content{{"a", "old"}, {"b", "new"}, {"c", "new"}}));
    transaction.erase("b");
    EXPECT_EQ(scan_all(transaction, "b", "d"), (Content{{"c", "new"}}));
    return {};
  });
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(content(), (Content{{"a", "old"}, {"c", "new"}}));
}

TEST_P(KvConformance, scan_visits_the_half_open_range_in_byte_order) {
  const std::string zero("a\0", 2);
  const std::string high = "a\xff";
  for (const std::string& key : {std::string("b"), high, std::string("a"), zero}) put(key, key);
  ASSERT_TRUE(
      kv().run(KvMode::read,
               [&](KvTransaction& transaction) -> Status {
                 EXPECT_EQ(scan_all(transaction, "", "").size(), 4u);
                 EXPECT_EQ(scan_all(transaction, "a", "b").size(), 3u);
                 EXPECT_EQ(scan_all(transaction, zero, high), (Content{{zero, zero}}));
                 EXPECT_EQ(scan_all(transaction, "a\xfe", "").size(), 2u);
                 EXPECT_TRUE(scan_all(transaction, "a", "a").empty());
                 EXPECT_TRUE(scan_all(transaction, "b", "a").empty());
                 EXPECT_TRUE(scan_all(transaction, "c", "").empty());
                 int visited = 0;
                 EXPECT_TRUE(
                     transaction.scan("", "", [&](auto, auto) { return ++visited < 2; }).ok());
                 EXPECT_EQ(visited, 2);
                 return {};
               })
          .ok());
}

TEST_P(KvConformance, behaves_like_a_map_under_random_transactions) {
  engine::SeededRandom random(20);
  Content model;
  for (int round = 0; round < 1500; ++round) {
    Content next;
    const bool fail = random.chance(1, 8);
    const uint64_t seed = random.next();
    const Status status = kv().run(KvMode::write, [&](KvTransaction& transaction) -> Status {
      engine::SeededRandom steps(seed);  // the same in each attempt
      next = model;
      for (uint64_t step = steps.below(12); step > 0; --step) {
        const std::string name =
            std::string(1 + steps.below(2), static_cast<char>('a' + steps.below(6)));
        switch (steps.below(4)) {
          case 0:
            transaction.put(name, std::to_string(round));
            next[name] = std::to_string(round);
            break;
          case 1:
            transaction.erase(name);
            next.erase(name);
            break;
          case 2: {
            TRY_ASSIGN(const auto value, transaction.get(name));
            const auto expected = next.find(name);
            EXPECT_EQ(value.has_value(), expected != next.end());
            if (value && expected != next.end()) {
              EXPECT_EQ(*value, expected->second);
            }
            break;
          }
          default: {
            const std::string end = name + "m";
            EXPECT_EQ(scan_all(transaction, name, end),
                      Content(next.lower_bound(name), next.lower_bound(end)));
          }
        }
      }
      return fail ? Status(Code::cancelled) : Status();
    });
    ASSERT_EQ(status.code(), fail ? Code::cancelled : Code::ok);
    if (!fail) model = next;
    if (round % 50 == 0) {
      ASSERT_EQ(content(), model);
    }
  }
  EXPECT_EQ(content(), model);
}

TEST_P(KvConformance, counter_is_exact_when_threads_increment_it) {
  if (!backend_->threads()) GTEST_SKIP() << "single-threaded by nature";
  constexpr int kThreads = 4;
  constexpr int kRounds = 1000;
  put("counter", "0");
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        const Status status = kv().run(KvMode::write, [](KvTransaction& transaction) -> Status {
          TRY_ASSIGN(const auto value, transaction.get("counter"));
          transaction.put("counter", std::to_string(std::stoi(*value) + 1));
          return {};
        });
        if (!status.ok()) ++failures;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(get("counter"), std::to_string(kThreads * kRounds));
}

// Each of two transactions reads what the other overwrites without reading. One must see the other.
TEST_P(KvConformance, blind_writes_do_not_cross) {
  if (!backend_->threads()) GTEST_SKIP() << "single-threaded by nature";
  constexpr int kRounds = 400;
  const auto copy_and_add = [&](const char* from, const char* to) {
    return kv().run(KvMode::write, [&](KvTransaction& transaction) -> Status {
      TRY_ASSIGN(const auto value, transaction.get(from));
      transaction.put(to, std::to_string(std::stoi(*value) + 1));
      return {};
    });
  };
  for (int round = 0; round < kRounds; ++round) {
    put("x", "0");
    put("y", "0");
    std::atomic<int> ready{0};
    const auto start = [&] {
      ++ready;
      while (ready.load() != 2) std::this_thread::yield();
    };
    std::thread other([&] {
      start();
      EXPECT_TRUE(copy_and_add("x", "y").ok());
    });
    start();
    EXPECT_TRUE(copy_and_add("y", "x").ok());
    other.join();
    const int sum = std::stoi(*get("x")) + std::stoi(*get("y"));
    ASSERT_EQ(sum, 3) << "both read 0 in round " << round;
  }
}

TEST_P(KvConformance, reader_keeps_its_snapshot_when_others_commit) {
  if (!backend_->concurrent()) GTEST_SKIP() << "a reader shuts writers out";
  put("a", "1");
  put("b", "1");
  ASSERT_TRUE(
      kv().run(KvMode::read,
               [&](KvTransaction& transaction) -> Status {
                 TRY_ASSIGN(const auto before, transaction.get("a"));
                 EXPECT_EQ(before, "1");
                 std::thread([&] {
                   put("b", "2");
                   put("c", "2");
                 }).join();
                 TRY_ASSIGN(const auto b, transaction.get("b"));
                 EXPECT_EQ(b, "1");
                 EXPECT_EQ(scan_all(transaction, "", ""), (Content{{"a", "1"}, {"b", "1"}}));
                 return {};
               })
          .ok());
  EXPECT_EQ(get("b"), "2");
}

TEST_P(KvConformance, writer_runs_again_when_what_it_read_changed) {
  if (!backend_->concurrent()) GTEST_SKIP() << "writers run one after the other";
  enum class How { get, get_many, scan };
  put("read", "1");
  put("scanned", "1");
  for (const How how : {How::get, How::get_many, How::scan}) {
    int attempts = 0;
    const std::string key = how == How::scan ? "scanned" : "read";
    ASSERT_TRUE(kv().run(KvMode::write,
                         [&](KvTransaction& transaction) -> Status {
                           ++attempts;
                           switch (how) {
                             case How::get:
                               TRY(transaction.get(key));
                               break;
                             case How::get_many:
                               TRY(transaction.get_many({{"missing", key}}));
                               break;
                             case How::scan:
                               scan_all(transaction, "s", "t");
                           }
                           if (attempts == 1) std::thread([&] { put(key, "2"); }).join();
                           transaction.put("result", "of " + std::to_string(attempts));
                           return {};
                         })
                    .ok());
    EXPECT_EQ(attempts, 2);
    EXPECT_EQ(get("result"), "of 2");
  }
}

TEST_P(KvConformance, writer_runs_again_when_a_key_appeared_that_it_did_not_find) {
  if (!backend_->concurrent()) GTEST_SKIP() << "writers run one after the other";
  for (const bool many : {false, true}) {
    int attempts = 0;
    const std::string name = many ? "many" : "one";
    ASSERT_TRUE(kv().run(KvMode::write,
                         [&](KvTransaction& transaction) -> Status {
                           ++attempts;
                           std::optional<std::string> found;
                           if (many) {
                             TRY_ASSIGN(auto values, transaction.get_many({{"other", name}}));
                             found = std::move(values[1]);
                           } else {
                             TRY_ASSIGN(found, transaction.get(name));
                           }
                           if (attempts == 1) std::thread([&] { put(name, "theirs"); }).join();
                           // Elsewhere: the name itself would be locked anyway.
                           if (!found) transaction.put("of " + name, "ours");
                           return {};
                         })
                    .ok());
    EXPECT_EQ(attempts, 2);
    EXPECT_EQ(get(name), "theirs");
    EXPECT_EQ(get("of " + name), std::nullopt);
  }
}

// Submitted operations and the loop they complete on.
struct Submission final : engine::KvOp {
  std::function<Status(KvTransaction&)> function;
  std::thread::id completed_on;
  bool finished = false;

  Status body(KvTransaction& transaction) override { return function(transaction); }
  void submit(engine::Kv& kv, engine::Loop& loop) {
    home = &loop;
    completion = [](engine::Op& op) {
      auto& self = static_cast<Submission&>(op);
      self.completed_on = std::this_thread::get_id();
      self.finished = true;
    };
    kv.submit(*this);
  }
};

class KvSubmission : public KvConformance {
 protected:
  void wait(Submission& submission) {
    const engine::Time limit = engine::system_clock().now() + std::chrono::seconds(60);
    while (!submission.finished && engine::system_clock().now() < limit) {
      loop_.poll_or_park(limit);
    }
    ASSERT_TRUE(submission.finished);
  }

  engine::SeededRandom random_{1};
  engine::FutexParker parker_{engine::system_clock()};
  engine::Loop loop_{engine::system_clock(), random_, parker_};
};

TEST_P(KvSubmission, completes_on_the_home_loop_with_the_status) {
  Submission good;
  good.mode = KvMode::write_durable;
  good.function = [](KvTransaction& transaction) -> Status {
    transaction.put("a", "1");
    return {};
  };
  Submission bad;
  bad.mode = KvMode::write;
  bad.function = [](KvTransaction&) -> Status { return Code::stale; };
  good.submit(kv(), loop_);
  bad.submit(kv(), loop_);
  EXPECT_FALSE(good.finished);
  wait(good);
  wait(bad);
  EXPECT_TRUE(good.status.ok());
  EXPECT_EQ(bad.status.code(), Code::stale);
  EXPECT_EQ(good.completed_on, std::this_thread::get_id());
  EXPECT_EQ(get("a"), "1");
}

TEST_P(KvSubmission, is_refused_with_busy_when_the_queue_is_full) {
  std::mutex mutex;
  std::condition_variable changed;
  bool release = false;
  const auto block = [&](KvTransaction&) -> Status {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return release; });
    return {};
  };
  // More than the queue and all workers can hold.
  std::vector<Submission> submissions(kQueueMax + kWorkerThreadsMax);
  for (Submission& submission : submissions) {
    submission.mode = KvMode::read;
    submission.function = block;
    submission.submit(kv(), loop_);
  }
  wait(submissions.back());
  EXPECT_EQ(submissions.back().status.code(), Code::busy);
  {
    const std::lock_guard lock(mutex);
    release = true;
  }
  changed.notify_all();
  for (Submission& submission : submissions) {
    wait(submission);
    EXPECT_TRUE(submission.status.ok() || submission.status.code() == Code::busy);
  }
  EXPECT_TRUE(submissions.front().status.ok());
}

INSTANTIATE_TEST_SUITE_P(all, KvConformance,
                         testing::Values("memory", "rocksdb", "movable", "postgres", "sim"),
                         [](const auto& tested) { return tested.param; });
INSTANTIATE_TEST_SUITE_P(real, KvSubmission,
                         testing::Values("memory", "rocksdb", "movable", "postgres"),
                         [](const auto& tested) { return tested.param; });

}  // namespace
}  // namespace penstock::kv
