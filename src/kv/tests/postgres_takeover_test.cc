// Names that another process takes over: what the one before can still do, which is nothing.
#include "postgres_rig.h"

#include <cstdlib>
#include <thread>

namespace penstock::kv {
namespace {

class PostgresTakeoverTest : public PostgresTest {
 protected:
  PostgresOptions alone(const std::string& who) {
    PostgresOptions wanted = options();
    wanted.alone = true;
    wanted.who = who;
    wanted.patience = std::chrono::seconds(5);
    return wanted;
  }
  std::unique_ptr<PostgresWatch> watch() {
    auto opened = PostgresWatch::open(options());
    EXPECT_TRUE(opened.has_value()) << opened.error().message;
    return std::move(*opened);
  }
  PostgresWatch::Seen look(PostgresWatch& watch) {
    const std::string keys[] = {"lease"};
    auto seen = watch.look(keys);
    EXPECT_TRUE(seen.has_value()) << seen.error().message;
    return seen ? *seen : PostgresWatch::Seen();
  }
  PostgresOptions instead_of(const PostgresWatch::Seen& seen, const std::string& who) {
    PostgresOptions wanted = alone(who);
    wanted.lost = {seen.process, "lease", seen.values.at(0)};
    return wanted;
  }
};

TEST_F(PostgresTakeoverTest, ends_all_that_the_one_before_does) {
  PostgresOptions first = alone("first");
  std::atomic<int> told{0};
  first.taken = [&] { ++told; };
  const auto before = open(first);
  ASSERT_TRUE(put(*before, "lease", "1").ok());
  const auto eyes = watch();
  const auto seen = look(*eyes);
  EXPECT_EQ(seen.who, "first");
  EXPECT_EQ(seen.values.at(0), "1");
  const auto after = open(instead_of(seen, "second"));
  ASSERT_NE(after, nullptr);
  EXPECT_EQ(*get(*after, "lease"), "1");
  // Of the first one it is not known whether it came before.
  EXPECT_FALSE(put(*before, "a", "late").ok());
  EXPECT_EQ(put(*before, "a", "late").code(), Code::io_error);
  EXPECT_EQ(get(*before, "lease").error().code(), Code::io_error);
  EXPECT_EQ(told, 1);
  EXPECT_EQ(*get(*after, "a"), std::nullopt);
  ASSERT_TRUE(put(*after, "a", "new").ok());
  EXPECT_EQ(look(*eyes).who, "second");
  EXPECT_EQ(look(*eyes).term, seen.term + 1);
}

TEST_F(PostgresTakeoverTest, ends_a_transaction_that_has_read_and_not_committed) {
  const auto before = open(alone("first"));
  ASSERT_TRUE(put(*before, "lease", "1").ok());
  const auto eyes = watch();
  std::unique_ptr<engine::Kv> after;
  const Status late =
      before->run(engine::KvMode::write, [&](engine::KvTransaction& transaction) -> Status {
        TRY_ASSIGN(const auto value, transaction.get("lease"));
        if (after == nullptr) after = open(instead_of(look(*eyes), "second"));
        transaction.put("lease", "of the one before");
        transaction.put("a", "late");
        return {};
      });
  EXPECT_FALSE(late.ok());
  EXPECT_EQ(*get(*after, "lease"), "1");
  EXPECT_EQ(*get(*after, "a"), std::nullopt);
}

TEST_F(PostgresTakeoverTest, is_not_done_by_two_nor_from_one_that_goes_on) {
  const auto before = open(alone("first"));
  ASSERT_TRUE(put(*before, "lease", "1").ok());
  const auto eyes = watch();
  const auto seen = look(*eyes);
  ASSERT_TRUE(put(*before, "lease", "2").ok());
  expect_refused(instead_of(seen, "second"), Code::stale, "is not");
  // Its connections were ended, and nothing else.
  ASSERT_TRUE(put(*before, "lease", "3").ok());
  EXPECT_EQ(look(*eyes).who, "first");
  const auto again = look(*eyes);
  const auto after = open(instead_of(again, "second"));
  expect_refused(instead_of(again, "third"), Code::stale, "is not");
  ASSERT_TRUE(put(*after, "lease", "4").ok());
}

TEST_F(PostgresTakeoverTest, is_not_kept_from_it_by_a_commit_that_was_cut_in_the_middle) {
  const auto before = open(alone("first"));
  ASSERT_TRUE(put(*before, "lease", "1").ok());
  const auto eyes = watch();
  const auto seen = look(*eyes);
  // Somebody has the row of a commit locked, as a process does that is stopped before its COMMIT.
  const std::string command =
      "psql -Xq -d '" + server_->url(database_) + "' -c 'BEGIN; SELECT pg_advisory_lock_shared(" +
      std::to_string(0x70656e7374'6f636b + 2) +
      "); SELECT * FROM penstock.connection FOR UPDATE; SELECT pg_sleep(60); COMMIT' "
      ">/dev/null 2>&1";
  std::thread stopped([&] { EXPECT_NE(std::system(command.c_str()), 0); });
  for (int i = 0; i < 100; ++i) {
    if (sql("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(60)%' AND "
            "wait_event = 'PgSleep'") == "1") {
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  const auto after = open(instead_of(seen, "second"));
  ASSERT_NE(after, nullptr);
  EXPECT_TRUE(put(*after, "a", "1").ok());
  stopped.join();
}

TEST_F(PostgresTakeoverTest, those_who_wait_are_seen_for_a_while) {
  const auto owner = open(alone("first"));
  const auto eyes = watch();
  ASSERT_TRUE(eyes->stand_by("n1", "second at b").has_value());
  ASSERT_TRUE(eyes->stand_by("n1", "second at c").has_value());
  EXPECT_EQ(look(*eyes).standbys, std::vector<std::string>{"second at c"});
  sql("UPDATE penstock.standby SET seen = now() - interval '2 minutes'");
  EXPECT_TRUE(look(*eyes).standbys.empty());
  ASSERT_TRUE(eyes->stand_by("n1", "second at c").has_value());
  ASSERT_TRUE(eyes->stop_standing_by("n1").has_value());
  EXPECT_TRUE(look(*eyes).standbys.empty());
  const auto seen = look(*eyes);
  ASSERT_TRUE(eyes->tell(seen.process, "first, shared").has_value());
  EXPECT_EQ(look(*eyes).who, "first, shared");
  EXPECT_FALSE(eyes->tell("another process.", "x").has_value());
}

// Of a release that knew no owners.
TEST_F(PostgresTakeoverTest, tables_of_the_version_before_are_brought_up_to_date) {
  ASSERT_TRUE(put(*open(alone("first")), "lease", "1").ok());
  sql("DROP TABLE penstock.owner; DROP TABLE penstock.standby; "
      "UPDATE penstock.about SET version = 1");
  PostgresOptions reading = options();
  reading.read_only = true;
  EXPECT_EQ(*get(*open(reading), "lease"), "1");
  const auto eyes = PostgresWatch::open(options());
  ASSERT_FALSE(eyes.has_value());
  EXPECT_NE(eyes.error().message.find("with this release, once"), std::string::npos);
  EXPECT_EQ(sql("SELECT version FROM penstock.about"), "1");
  const auto kv = open(alone("first"));
  ASSERT_TRUE(put(*kv, "lease", "2").ok());
  EXPECT_EQ(sql("SELECT version FROM penstock.about"), "2");
  EXPECT_EQ(look(*watch()).who, "first");
}

}  // namespace
}  // namespace penstock::kv
