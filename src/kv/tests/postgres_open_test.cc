// What an opening refuses, and what it says.
#include "postgres_rig.h"

#include <filesystem>
#include <thread>

namespace penstock::kv {
namespace {

using PostgresOpenTest = PostgresTest;

TEST_F(PostgresOpenTest, finds_what_was_written_when_it_is_opened_again) {
  auto kv = open(options());
  ASSERT_TRUE(put(*kv, "a", "1").ok());
  kv.reset();
  EXPECT_EQ(sql("SELECT count(*) FROM penstock.connection"), "0");
  PostgresOptions again = options();
  again.create = false;
  kv = open(again);
  EXPECT_EQ(*get(*kv, "a"), "1");
}

TEST_F(PostgresOpenTest, is_refused_when_there_is_nothing_and_it_may_not_be_made) {
  PostgresOptions wanted = options();
  wanted.create = false;
  expect_refused(wanted, Code::not_found, "no names of Penstock");
  EXPECT_EQ(sql("SELECT count(*) FROM pg_namespace WHERE nspname = 'penstock'"), "0");
}

TEST_F(PostgresOpenTest, is_refused_when_the_database_is_missing) {
  PostgresOptions wanted = options();
  wanted.url = server_->url("nowhere");
  expect_refused(wanted, Code::not_found, "createdb");
}

TEST_F(PostgresOpenTest, is_refused_when_another_cluster_has_the_database) {
  ASSERT_TRUE(put(*open(options()), "a", "1").ok());
  PostgresOptions other = options();
  other.cluster = "other";
  expect_refused(other, Code::in_use, "cluster c");
  EXPECT_EQ(*get(*open(options()), "a"), "1");
}

TEST_F(PostgresOpenTest, is_refused_when_the_schema_is_newer) {
  open(options());
  sql("UPDATE penstock.about SET version = 3");
  expect_refused(options(), Code::wrong_version, "use the newest release");
}

TEST_F(PostgresOpenTest, needs_read_only_when_the_database_takes_no_writes) {
  ASSERT_TRUE(put(*open(options()), "a", "1").ok());
  sql("ALTER DATABASE " + database_ + " SET default_transaction_read_only = on");
  expect_refused(options(), Code::read_only, "target_session_attrs");
  PostgresOptions reading = options();
  reading.read_only = true;
  const auto kv = open(reading);
  EXPECT_EQ(*get(*kv, "a"), "1");
  EXPECT_EQ(put(*kv, "a", "2").code(), Code::read_only);
}

TEST_F(PostgresOpenTest, is_made_once_when_several_open_at_the_same_time) {
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&, i] {
      const auto kv = open(options());
      good += kv != nullptr && put(*kv, std::to_string(i), "x").ok();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 6);
  EXPECT_EQ(sql("SELECT count(*) FROM penstock.record"), "6");
}

TEST_F(PostgresOpenTest, tells_no_password_when_it_fails) {
  for (const std::string url : {"postgresql://someone:hunter2@127.0.0.1:1/names",
                                "postgresql://someone:hunter2@[::1:x/names",
                                "postgresql://someone:hunter2@127.0.0.1:1/names?nonsense=1",
                                "host=127.0.0.1 port=1 password=hunter2 dbname=names"}) {
    PostgresOptions wanted = options();
    wanted.url = url;
    const auto opened = open_postgres(wanted);
    ASSERT_FALSE(opened.has_value());
    EXPECT_EQ(opened.error().message.find("hunter2"), std::string::npos) << opened.error().message;
    EXPECT_NE(opened.error().message.find("metadata database"), std::string::npos);
  }
}

TEST_F(PostgresOpenTest, goes_on_to_the_next_host_when_one_does_not_answer) {
  PostgresOptions wanted = options();
  const std::filesystem::path there = server_->socket();
  wanted.url =
      "host=/nowhere," + there.parent_path().string() + " user=penstock dbname=" + database_;
  const auto kv = open(wanted);
  ASSERT_NE(kv, nullptr);
  EXPECT_TRUE(put(*kv, "a", "1").ok());
}

TEST_F(PostgresOpenTest, is_for_one_process_alone_when_that_is_asked_for) {
  PostgresOptions alone = options();
  alone.alone = true;
  alone.patience = std::chrono::milliseconds(300);
  auto first = open(alone);
  ASSERT_TRUE(put(*first, "a", "1").ok());
  expect_refused(alone, Code::in_use, "another process has these names open");
  // Who only reads is no harm.
  PostgresOptions reading = options();
  reading.read_only = true;
  reading.cluster.clear();
  EXPECT_EQ(*get(*open(reading), "a"), "1");
  // The next one waits for what the one before has left.
  alone.patience = std::chrono::seconds(10);
  std::thread ending([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    first.reset();
  });
  const auto second = open(alone);
  ending.join();
  ASSERT_NE(second, nullptr);
  EXPECT_TRUE(put(*second, "a", "2").ok());
}

TEST_F(PostgresOpenTest, stays_alone_when_the_server_was_started_again) {
  PostgresOptions alone = options();
  alone.alone = true;
  const auto first = open(alone);
  ASSERT_TRUE(put(*first, "a", "1").ok());
  server_->kill();
  server_->start();
  ASSERT_TRUE(put(*first, "a", "2").ok());
  alone.patience = std::chrono::milliseconds(300);
  expect_refused(alone, Code::in_use, "another process has these names open");
}

TEST_F(PostgresOpenTest, removes_only_the_names_of_its_own_cluster) {
  ASSERT_TRUE(put(*open(options()), "a", "1").ok());
  PostgresOptions other = options();
  other.cluster = "other";
  EXPECT_EQ(drop_postgres(other).error().status, Code::in_use);
  EXPECT_EQ(*get(*open(options()), "a"), "1");
  EXPECT_TRUE(drop_postgres(options()).has_value());
  EXPECT_EQ(sql("SELECT count(*) FROM pg_namespace WHERE nspname = 'penstock'"), "0");
  EXPECT_TRUE(drop_postgres(options()).has_value());
}

TEST_F(PostgresOpenTest, keeps_all_of_an_address_but_what_is_secret) {
  const struct {
    const char* given;
    const char* kept;
    bool had_password;
  } cases[] = {
      {"postgresql://me:hunter2@db.example:5433/names?sslmode=verify-full",
       "postgresql://me@db.example:5433/names?sslmode=verify-full", true},
      {"postgres://me@a:1,b:2/names?target_session_attrs=read-write",
       "postgresql://me@a:1,b:2/names?target_session_attrs=read-write", false},
      {"postgresql://[::1]:5/n", "postgresql://[::1]:5/n", false},
      {"host=/run/pg user='a b' password='x y' dbname=n%", "postgresql://a%20b@%2Frun%2Fpg/n%25",
       true},
      {"host=a hostaddr=10.0.0.1 dbname=n sslpassword=s", "postgresql://a/n?hostaddr=10.0.0.1",
       false},
      {"service=names", "postgresql:///?service=names", false},
  };
  for (const auto& [given, kept, had_password] : cases) {
    const auto url = without_password(given);
    ASSERT_TRUE(url.has_value()) << url.error().message;
    EXPECT_EQ(url->url, kept);
    EXPECT_EQ(url->had_password, had_password) << given;
    // And it means the same the next time.
    EXPECT_EQ(without_password(url->url)->url, kept);
  }
  EXPECT_FALSE(without_password("nonsense").has_value());
}

}  // namespace
}  // namespace penstock::kv
