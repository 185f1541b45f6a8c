// A server that is killed, full, or has no connections left.
#include "../limits.h"
#include "postgres_rig.h"

#include <filesystem>
#include <sys/mount.h>
#include <thread>

namespace penstock::kv {
namespace {

using engine::KvMode;
using engine::KvTransaction;
using std::chrono::seconds;

class PostgresFailureTest : public PostgresTest {
 protected:
  // A role that is refused connections as others are, which the owner of the server is not.
  PostgresOptions as_user(int connections) {
    const std::string user = "user_of_" + database_;
    server_->sql(database_,
                 "CREATE ROLE " + user + " LOGIN CONNECTION LIMIT " + std::to_string(connections));
    server_->sql(database_, "ALTER DATABASE " + database_ + " OWNER TO " + user);
    PostgresOptions wanted = options();
    const size_t at = wanted.url.find("user=penstock");
    wanted.url.replace(at, std::string_view("user=penstock").size(), "user=" + user);
    return wanted;
  }
};

TEST_F(PostgresFailureTest, counts_are_exact_when_the_server_is_killed_and_started_again) {
  constexpr int kThreads = 4;
  const auto kv = open(options());
  std::atomic<bool> stop{false};
  std::atomic<int> acknowledged{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      while (!stop.load()) {
        EXPECT_TRUE(increment(*kv, i % 2 == 0 ? "all" : "own" + std::to_string(i)).ok());
        ++acknowledged;
      }
    });
  }
  for (int round = 0; round < 3; ++round) {
    const int before = acknowledged.load();
    EXPECT_TRUE(test::eventually([&] { return acknowledged.load() > before + 200; }));
    server_->kill();
    server_->start();
    const int at_start = acknowledged.load();
    EXPECT_TRUE(
        test::eventually([&] { return acknowledged.load() > at_start + kThreads; }, seconds(10)))
        << "operations must go on within 10 s";
  }
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  int sum = 0;
  for (const char* key : {"all", "own1", "own3"}) sum += std::stoi(get(*kv, key)->value_or("0"));
  EXPECT_EQ(sum, acknowledged.load());
}

TEST_F(PostgresFailureTest, operations_end_in_time_when_the_server_stays_away) {
  PostgresOptions wanted = options();
  wanted.patience = seconds(1);
  const auto kv = open(wanted);
  ASSERT_TRUE(put(*kv, "a", "1").ok());
  server_->kill();
  EXPECT_EQ(put(*kv, "a", "2").code(), Code::peer_gone);
  EXPECT_EQ(get(*kv, "a").error().code(), Code::peer_gone);
  server_->start();
  EXPECT_EQ(*get(*kv, "a"), "1");
  EXPECT_TRUE(put(*kv, "a", "3").ok());
}

TEST_F(PostgresFailureTest, few_connections_are_enough_when_the_server_has_no_more) {
  PostgresOptions wanted = as_user(2);
  wanted.connections = 6;
  const auto kv = open(wanted);
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 10; ++round) {
        EXPECT_TRUE(increment(*kv, std::to_string(i)).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 6; ++i) EXPECT_EQ(*get(*kv, std::to_string(i)), "10");
}

TEST_F(PostgresFailureTest, operations_are_told_busy_when_the_server_gives_no_connection) {
  PostgresOptions wanted = as_user(2);
  wanted.patience = std::chrono::milliseconds(500);
  const auto kv = open(wanted);
  server_->sql(database_, "ALTER ROLE user_of_" + database_ + " CONNECTION LIMIT 0");
  EXPECT_EQ(put(*kv, "a", "1").code(), Code::busy);
  expect_refused(wanted, Code::busy, "max_connections");
}

TEST_F(PostgresFailureTest, operations_are_told_busy_when_all_connections_are_in_use) {
  PostgresOptions wanted = options();
  wanted.connections = 1;
  wanted.patience = std::chrono::milliseconds(300);
  const auto kv = open(wanted);
  const Status status = kv->run(KvMode::read, [&](KvTransaction& transaction) -> Status {
    TRY(transaction.get("a"));
    std::thread([&] { EXPECT_EQ(put(*kv, "a", "1").code(), Code::busy); }).join();
    return {};
  });
  EXPECT_TRUE(status.ok());
}

TEST_F(PostgresFailureTest, nobody_waits_for_ever_when_others_hold_a_lock) {
  PostgresOptions wanted = options();
  wanted.patience = seconds(1);
  const auto kv = open(wanted);
  ASSERT_TRUE(put(*kv, "a", "0").ok());
  std::thread holder([&] { sql("BEGIN; LOCK TABLE penstock.record; SELECT pg_sleep(8)"); });
  ASSERT_TRUE(test::eventually([&] {
    return sql("SELECT count(*) FROM pg_locks WHERE relation = 'penstock.record'::regclass AND "
               "mode = 'AccessExclusiveLock' AND granted") == "1";
  }));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(put(*kv, "a", "1").code(), Code::busy);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(8));
  holder.join();
  EXPECT_TRUE(put(*kv, "a", "2").ok());
}

TEST_F(PostgresFailureTest, operations_end_and_go_on_when_the_server_hangs) {
  PostgresOptions wanted = options();
  wanted.patience = seconds(1);
  const auto kv = open(wanted);
  ASSERT_TRUE(put(*kv, "a", "1").ok());
  server_->pause();
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(get(*kv, "a").error().code(), Code::peer_gone);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(30));
  server_->go_on();
  EXPECT_TRUE(test::eventually([&] { return put(*kv, "a", "2").ok(); }, seconds(10)));
}

TEST_F(PostgresFailureTest, a_commit_is_not_acknowledged_when_its_wait_for_a_standby_was_ended) {
  const auto kv = open(options());
  ASSERT_TRUE(increment(*kv, "n").ok());
  // A standby that never comes.
  server_->sql("postgres", "ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
  server_->sql("postgres", "SELECT pg_reload_conf()");
  // The server takes the setting over a while later: commits of before it wait for nobody.
  const std::string waits = "FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
  std::atomic<bool> stop{false};
  std::atomic<int> acknowledged{1};
  std::thread client([&] {
    while (!stop.load()) {
      EXPECT_TRUE(increment(*kv, "n").ok());
      ++acknowledged;
    }
  });
  const auto is_waiting = [&] { return sql("SELECT count(*) " + waits) == "1"; };
  EXPECT_TRUE(test::eventually(is_waiting, test::kPatience, std::chrono::milliseconds(50)));
  const int before = acknowledged.load();
  stop.store(true);
  EXPECT_EQ(sql("SELECT pg_cancel_backend(pid) " + waits), "t");
  // Then the question waits for the standby.
  EXPECT_TRUE(test::eventually(is_waiting, test::kPatience, std::chrono::milliseconds(50)));
  EXPECT_EQ(acknowledged.load(), before);
  server_->sql("postgres", "ALTER SYSTEM RESET synchronous_standby_names");
  server_->sql("postgres", "SELECT pg_reload_conf()");
  client.join();
  EXPECT_EQ(*get(*kv, "n"), std::to_string(before + 1));
}

TEST_F(PostgresFailureTest, nothing_happens_when_the_disk_is_full) {
  if (::geteuid() != 0) GTEST_SKIP() << "mounting needs root";
  const test::ScratchDirectory directory;
  if (::mount("tmpfs", directory.path().c_str(), "tmpfs", 0, "size=12m,uid=65534,gid=65534") != 0) {
    GTEST_SKIP() << "mounting is not allowed";
  }
  const std::string space = "space_of_" + database_;
  server_->sql("postgres", "CREATE TABLESPACE " + space + " LOCATION '" + directory.path() + "'");
  server_->sql("postgres", "ALTER DATABASE " + database_ + " SET TABLESPACE " + space);
  {
    const auto kv = open(options());
    ASSERT_TRUE(put(*kv, "kept", "1").ok());
    const std::string ballast = directory / "ballast";
    test::write_file(ballast, std::string(1 << 20, 'x'));
    Status status;
    int written = 0;
    // Random bytes: the server packs what can be packed.
    engine::SeededRandom random(1);
    while (status.ok() && written < 1000) {
      std::string value;
      while (value.size() < 64 * 1024) value.push_back(static_cast<char>(random.next()));
      status = put(*kv, "bulk" + std::to_string(written), value);
      written += status.ok();
    }
    EXPECT_EQ(status.code(), Code::no_space);
    EXPECT_EQ(*get(*kv, "bulk" + std::to_string(written)), std::nullopt);
    EXPECT_EQ(*get(*kv, "kept"), "1");
    // With room again it goes on by itself.
    std::filesystem::remove(ballast);
    EXPECT_TRUE(put(*kv, "again", "1").ok());
  }
  server_->sql("postgres", "DROP DATABASE " + database_);
  server_->sql("postgres", "DROP TABLESPACE " + space);
  EXPECT_EQ(::umount2(directory.path().c_str(), MNT_DETACH), 0);
}

TEST_F(PostgresFailureTest, takes_no_more_operations_when_acknowledged_commits_are_gone) {
  PostgresOptions wanted = options();
  wanted.connections = 2;
  auto kv = open(wanted);
  ASSERT_TRUE(put(*kv, "a", "1").ok());
  ASSERT_TRUE(put(*kv, "a", "2").ok());
  // As on a standby that was behind.
  sql("UPDATE penstock.connection SET number = number - 1");
  sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
      "AND pid <> pg_backend_pid()");
  EXPECT_FALSE(put(*kv, "a", "3").ok());
  EXPECT_EQ(put(*kv, "a", "3").code(), Code::io_error);
  EXPECT_EQ(get(*kv, "a").error().code(), Code::io_error);
  kv = open(wanted);
  EXPECT_EQ(*get(*kv, "a"), "2");
  EXPECT_TRUE(put(*kv, "a", "3").ok());
}

TEST_F(PostgresFailureTest, a_connection_takes_another_row_when_it_has_written_its_own_often) {
  PostgresOptions wanted = options();
  wanted.connections = 1;
  const auto kv = open(wanted);
  const int commits = 2 * static_cast<int>(kPostgresCommitsOfRow) + 10;
  for (int i = 0; i < commits; ++i) ASSERT_TRUE(increment(*kv, "n").ok());
  EXPECT_EQ(*get(*kv, "n"), std::to_string(commits));
  EXPECT_EQ(sql("SELECT count(*), max(place), max(number) FROM penstock.connection"), "1|2|10");
}

TEST_F(PostgresFailureTest, a_connection_goes_on_above_its_fence) {
  const auto kv = open(options());
  ASSERT_TRUE(increment(*kv, "n").ok());
  sql("UPDATE penstock.connection SET fence = 1000");
  EXPECT_TRUE(increment(*kv, "n").ok());
  EXPECT_TRUE(increment(*kv, "n").ok());
  EXPECT_EQ(*get(*kv, "n"), "3");
}

TEST_F(PostgresFailureTest, a_scan_of_many_keys_is_one_snapshot) {
  const auto kv = open(options());
  ASSERT_TRUE(kv->run(KvMode::write, [](KvTransaction& transaction) -> Status {
                  for (int i = 0; i < 3000; ++i) {
                    transaction.put("k" + std::to_string(10000 + i), "old");
                  }
                  return {};
                }).ok());
  int visited = 0;
  std::string previous;
  const Status status = kv->run(KvMode::read, [&](KvTransaction& transaction) -> Status {
    return transaction.scan("k", "l", [&](std::string_view key, std::string_view value) {
      EXPECT_LT(previous, key);
      EXPECT_EQ(value, "old");
      previous = key;
      if (++visited == 10) {
        std::thread([&] { EXPECT_TRUE(put(*kv, "k12999", "new").ok()); }).join();
      }
      return true;
    });
  });
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(visited, 3000);
}

TEST_F(PostgresFailureTest, a_key_too_long_for_the_index_is_too_large) {
  const auto kv = open(options());
  std::string key;
  engine::SeededRandom random(5);
  while (key.size() < 4000) key.push_back(static_cast<char>(random.next()));
  EXPECT_EQ(put(*kv, key, "x").code(), Code::too_large);
  EXPECT_TRUE(put(*kv, key.substr(0, 2600), "x").ok());
}

}  // namespace
}  // namespace penstock::kv
