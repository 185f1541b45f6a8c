// Names that move to a PostgreSQL server and back while programs make files, and nodes that are
// killed in the middle of it.
#include "names_rig.h"

#include "penstock/kv.h"
#include "penstock/kv_move.h"

namespace penstock::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::IsEmpty;

class NamesMove : public NamesTest {
 protected:
  void SetUp() override {
    NamesTest::SetUp();
    if (server_ != nullptr && !NodeProcess::why_no_mount().empty()) {
      GTEST_SKIP() << NodeProcess::why_no_mount();
    }
  }
  static void fill(const std::string& place, int count) {
    ASSERT_EQ(::mkdir((place + "/filled").c_str(), 0700), 0);
    for (int i = 0; i < count; ++i) {
      const std::string path = place + "/filled/" + std::to_string(i);
      ASSERT_EQ(::symlink("nowhere", path.c_str()), 0);
    }
  }
  static int filled(const std::string& place) {
    int count = 0;
    for (const auto& entry : fs::directory_iterator(place + "/filled")) count += entry.is_symlink();
    return count;
  }
};

TEST_F(NamesMove, there_and_back_while_programs_make_files) {
  NodeProcess node;
  ASSERT_TRUE(node.start()) << node.ending();
  fill(node.mount(), 2000);
  Makers makers(node.mount(), 3);
  for (const std::string& to : {url_, std::string("rocksdb"), url_}) {
    EXPECT_TRUE(makers.go_on(100));
    const Output moved = penstock({"metadata", "move", node.store(), "--to", to, "--json"});
    ASSERT_EQ(moved.exit_code, 0) << moved.err;
    const Json report = Json::parse(moved.out);
    EXPECT_LT(report.value("pause_seconds", 100.0), 5.0);
    EXPECT_GT(report.value("records", 0), 6000);
    EXPECT_EQ(names_at(node.store()), report.value("to", ""));
    EXPECT_TRUE(makers.go_on(100));
    check(node.store());
  }
  EXPECT_TRUE(fs::is_empty(node.store() + "/meta"));
  makers.stop();
  EXPECT_THAT(makers.errors(), IsEmpty());
  EXPECT_EQ(makers.missing(node.mount()), 0);
  node.kill();
  ASSERT_TRUE(node.start()) << node.ending();
  EXPECT_THAT(names_at(node.store()), HasSubstr(database_));
  EXPECT_EQ(makers.missing(node.mount()), 0);
  EXPECT_EQ(filled(node.mount()), 2000);
  // What was left is told, and refused.
  bad({"metadata", "move", node.store(), "--to", url_}, "already");
  good({"metadata", "move", node.store(), "--to", "rocksdb"});
  bad({"metadata", "check", url_}, "the names were moved from there to rocksdb");
  node.stop();
  bad({"up", node.store(), "--background", "--kv", url_}, "penstock metadata move");
}

TEST_F(NamesMove, to_a_place_that_has_names_already_is_refused_and_changes_nothing) {
  const std::string other = scratch_ / "other";
  good({"up", other, "--background", "--kv", url_});
  good({"up", store_, "--background"});
  bad({"metadata", "move", store_, "--to", url_}, "give each cluster a database of its own");
  bad({"metadata", "move", store_, "--to", server_->url("nowhere")}, "createdb");
  EXPECT_EQ(names_at(store_), "rocksdb");
  check(store_);
  check(other);
  good({"down", other});
  // Its own, which it does not know: as if somebody had put an older directory back.
  good({"down", store_});
  fs::copy(store_ + "/meta", scratch_ / "meta", fs::copy_options::recursive);
  const std::string second = server_->url(server_->new_database());
  good({"metadata", "move", store_, "--to", second});
  fs::remove_all(store_ + "/meta");
  fs::copy(scratch_ / "meta", store_ + "/meta", fs::copy_options::recursive);
  fs::remove(store_ + "/names");
  bad({"metadata", "move", store_, "--to", second}, "there are names already");
}

TEST_F(NamesMove, goes_on_when_the_server_is_killed_meanwhile) {
  NodeProcess node;
  ASSERT_TRUE(node.start()) << node.ending();
  fill(node.mount(), 3000);
  Makers makers(node.mount(), 2);
  EXPECT_TRUE(makers.go_on(50));
  for (const std::string& to : {url_, std::string("rocksdb")}) {
    Output moved;
    std::thread mover([&] { moved = penstock({"metadata", "move", node.store(), "--to", to}); });
    std::this_thread::sleep_for(milliseconds(100));
    server_->kill();
    server_->start();
    mover.join();
    // Where it had not got further than to ask the server what it is, it says so.
    if (moved.exit_code != 0) {
      EXPECT_THAT(moved.err, HasSubstr("server"));
      moved = penstock({"metadata", "move", node.store(), "--to", to});
    }
    EXPECT_EQ(moved.exit_code, 0) << moved.err;
    EXPECT_TRUE(makers.go_on(50));
    check(node.store());
  }
  makers.stop();
  EXPECT_THAT(makers.errors(), IsEmpty());
  EXPECT_EQ(makers.missing(node.mount()), 0);
}

// What the marks and the file say when a process was killed, and what a start makes of it.
class NamesSettle : public NamesTest {
 protected:
  using Place = kv::Place;
  using State = Place::State;

  void SetUp() override {
    NamesTest::SetUp();
    if (server_ == nullptr) return;
    write_file(scratch_ / "file", "bytes");
    good({"up", store_, "--background"});
    good({"import", scratch_ / "file", store_ + ":/file", "-q"});
    good({"down", store_});
    fs::copy(store_ + "/meta", scratch_ / "meta", fs::copy_options::recursive);
    good({"metadata", "move", store_, "--to", url_});
    const auto opened = kv::open_postgres({.url = url_, .cluster = "", .read_only = true});
    ASSERT_TRUE(opened.has_value());
    there_ = **kv::place_of(**opened);
    std::string kept = read_file(store_ + "/names");
    kept_url_ = kept.substr(kept.find("at ") + 3);
    kept_url_ = kept_url_.substr(0, kept_url_.find('\n'));
  }

  // Puts what was in the directory back, so that both are complete, and says what both say and the
  // file. The copy in the directory has the id of zeros.
  void say(State in_directory, State there, bool to_server, const std::string& url = "") const {
    fs::remove_all(store_ + "/meta");
    fs::copy(scratch_ / "meta", store_ + "/meta", fs::copy_options::recursive);
    Place here = there_;
    here.state = in_directory;
    here.copy = std::string(32, '0');
    here.to_copy = in_directory == State::moved ? there_.copy : "";
    here.to = "the server";
    {
      const auto opened = kv::open_rocksdb({.path = store_ + "/meta"});
      ASSERT_TRUE(opened.has_value());
      ASSERT_TRUE(kv::set_place(**opened, here).ok());
    }
    Place server = there_;
    server.state = there;
    server.to_copy = there == State::moved ? here.copy : "";
    server.to = "the directory";
    const std::string text = kv::encode(server);
    server_->sql(database_, "UPDATE penstock.record SET value = convert_to('" + text +
                                "', 'UTF8') WHERE key = convert_to('~place', 'UTF8')");
    const std::string at = to_server ? "rocksdb" : url.empty() ? kept_url_ : url;
    const std::string moving = !to_server ? "rocksdb" : url.empty() ? kept_url_ : url;
    write_file(store_ + "/names", "penstock-names 1\nat " + at + "\ncopy " +
                                      (to_server ? here.copy : server.copy) + "\nmoving " + moving +
                                      "\nmoving_copy " + (to_server ? server.copy : here.copy) +
                                      "\n");
  }
  void expect_at(const std::string& where) const {
    good({"up", store_, "--background"});
    EXPECT_THAT(names_at(store_), HasSubstr(where));
    good({"verify", scratch_ / "file", store_ + ":/file", "-q"});
    check(store_);
    good({"down", store_});
    EXPECT_EQ(read_file(store_ + "/names").find("moving"), std::string::npos);
  }
  std::string schemas() const {
    return server_->sql(database_, "SELECT count(*) FROM pg_namespace WHERE nspname = 'penstock'");
  }

  Place there_;
  std::string kept_url_;
};

TEST_F(NamesSettle, stays_where_it_was_before_the_switch) {
  say(State::here, State::filling, true);
  expect_at("rocksdb");
  EXPECT_EQ(schemas(), "0") << "what was not finished is removed";
}

TEST_F(NamesSettle, is_at_the_new_place_behind_the_switch) {
  for (const State there : {State::filling, State::here}) {
    say(State::moved, there, true);
    expect_at(database_);
    EXPECT_TRUE(fs::is_empty(store_ + "/meta"));
  }
}

TEST_F(NamesSettle, stays_on_the_server_before_the_switch_back) {
  say(State::filling, State::here, false);
  expect_at(database_);
  EXPECT_TRUE(fs::is_empty(store_ + "/meta"));
}

TEST_F(NamesSettle, is_in_the_directory_behind_the_switch_back) {
  for (const State here : {State::filling, State::here}) {
    say(here, State::moved, false);
    expect_at("rocksdb");
    EXPECT_EQ(schemas(), "1") << "it tells whoever opens it";
  }
}

TEST_F(NamesSettle, is_refused_while_the_old_place_cannot_be_asked_and_the_new_one_is_not_sure) {
  const std::string away = "postgresql://penstock@%2Fnowhere/names";
  say(State::filling, State::here, false, away);
  bad({"up", store_, "--background"}, "cannot be asked whether they went");
  // And the other way: the new one is away, and the old one has said that they went there.
  say(State::moved, State::here, true, away);
  bad({"up", store_, "--background"}, "cannot connect");
  // What the new one says is enough where it is sure.
  say(State::here, State::moved, false, away);
  expect_at("rocksdb");
}

TEST_F(NamesSettle, is_refused_when_the_file_is_older_than_what_the_marks_say) {
  say(State::moved, State::here, true);
  write_file(store_ + "/names",
             "penstock-names 1\nat rocksdb\ncopy " + std::string(32, '0') + "\n");
  bad({"up", store_, "--background"}, "the names were moved from");
  write_file(store_ + "/names",
             "penstock-names 1\nat " + kept_url_ + "\ncopy " + std::string(32, 'f') + "\n");
  bad({"up", store_, "--background"}, "not those that it used last");
  write_file(store_ + "/names", "penstock-names 1\nat nowhere\n");
  bad({"up", store_, "--background"}, "is damaged");
  write_file(store_ + "/names", "penstock-names 2\nat rocksdb\n");
  bad({"up", store_, "--background"}, "use the version of penstock that wrote it");
  bad({"metadata", "check", store_}, "use the version of penstock that wrote it");
}

TEST_F(NamesMove, is_given_up_when_the_one_who_asked_for_it_is_gone) {
  NodeProcess node;
  ASSERT_TRUE(node.start()) << node.ending();
  fill(node.mount(), 3000);
  const pid_t asker = start_penstock({"metadata", "move", node.store(), "--to", url_});
  ASSERT_GT(asker, 0);
  ::kill(asker, SIGKILL);
  EXPECT_EQ(::waitpid(asker, nullptr, 0), asker);
  EXPECT_TRUE(eventually([&] {
    const std::string kept = read_file(node.store() + "/names");
    return kept.find("moving") == std::string::npos;
  }));
  check(node.store());
  good({"metadata", "move", node.store(), "--to", url_});
  check(node.store());
}

// Kills at many moments, in both directions, while programs make files: there is one truth, with
// everything that was acknowledged.
TEST_F(NamesMove, leaves_one_truth_wherever_the_node_is_killed) {
  constexpr int kRounds = 12;
  NodeProcess node;
  ASSERT_TRUE(node.start()) << node.ending();
  fill(node.mount(), 1000);
  int there = 0, cut_short = 0;
  for (int round = 0; round < kRounds; ++round) {
    SCOPED_TRACE(round);
    const std::string before = names_at(node.store());
    ASSERT_NE(before, "");
    const std::string to = before == "rocksdb" ? url_ : "rocksdb";
    Makers makers(node.mount(), 2);
    makers.may_die();
    EXPECT_TRUE(makers.go_on(10));
    const pid_t asker = start_penstock({"metadata", "move", node.store(), "--to", to});
    ASSERT_GT(asker, 0);
    // It has begun; and then from the first steps to well behind the switch.
    const std::string kept = node.store() + "/names";
    eventually([&] { return read_file(kept).find("moving") != std::string::npos; },
               milliseconds(2000), milliseconds(1));
    std::this_thread::sleep_for(milliseconds(round * round * 3));
    node.kill();
    makers.stop();
    ::waitpid(asker, nullptr, 0);
    const bool was_moving = read_file(node.store() + "/names").find("moving") != std::string::npos;
    ASSERT_TRUE(node.start()) << node.ending();
    const std::string after = names_at(node.store());
    there += after != before ? 1 : 0;
    cut_short += was_moving ? 1 : 0;
    EXPECT_EQ(makers.missing(node.mount()), 0);
    EXPECT_EQ(filled(node.mount()), 1000);
    check(node.store());
    // The other place is no names, or nothing.
    const std::string elsewhere = after == "rocksdb" ? url_ : node.store() + "/meta";
    if (after == "rocksdb") {
      EXPECT_NE(penstock({"metadata", "check", url_}).exit_code, 0);
    } else {
      EXPECT_TRUE(fs::is_empty(elsewhere));
    }
  }
  std::printf("%d moves of %d were done, %d were cut short\n", there, kRounds, cut_short);
}

}  // namespace
}  // namespace penstock::test
