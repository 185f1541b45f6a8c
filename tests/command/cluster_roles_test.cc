// Roles in processes of their own, several disks of a node, and several cards.

#include "cluster_processes.h"

#include <filesystem>
#include <thread>

namespace penstock::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class ClusterRoles : public ClusterProcesses {};

TEST_F(ClusterRoles, storage_of_the_first_node_dies_and_its_programs_go_on) {
  make_source();
  up("first", {"--listen", free_address(), "--roles", "controller,meta,agent"});
  for (const char* name : {"storage1", "storage2", "storage3"}) join(name, {"--roles", "storage"});
  refused({"import", source_, place("first") + ":/early", "-q"}, "");
  good({"set", place("first") + ":/", "--copies", "3"});
  work_while("first", "first", [&] { kill("storage1"); });
  start_again("storage1");
  await_whole("first");
  work_while("first", "second", [&] { kill("storage2"); });
  start_again("storage2");
  await_whole("first");

  // Names and what the file system keeps for itself are there without any storage.
  for (const char* name : {"storage1", "storage2", "storage3"}) down(name);
  kill("first");
  std::vector<std::thread> starts;  // they wait for the controller
  for (const char* name : {"storage1", "storage2", "storage3"}) {
    starts.emplace_back([this, name] { start_again(name); });
  }
  start_again("first");
  for (std::thread& start : starts) start.join();
  EXPECT_TRUE(
      eventually([&] { return ask("cluster", "first").value("missing", uint64_t{9}) == 0; }));
  verify("first", "first0");
  verify("first", "second0");
}

TEST_F(ClusterRoles, the_controller_dies_and_comes_back) {
  make_source();
  up("controller", {"--listen", free_address(), "--roles", "controller"});
  join("names", {"--roles", "agent,meta"});
  for (const char* name : {"storage1", "storage2"}) join(name, {"--capacity", "6G"});
  const std::vector<std::string> names{"--roles", "meta,agent"};
  refused({"join", token(names), place("other"), "-b", names[0], names[1]}, "has the names");
  good({"set", place("names") + ":/", "--copies", "2"});
  // Two targets of 6 GiB, and two copies.
  EXPECT_TRUE(eventually([&] {
    const Json status = ask("status", "names");
    const auto total = status.value("total_bytes", uint64_t{0});
    return total > 0 && total <= 6 * kGiB && status.value("free_bytes", uint64_t{0}) <= total;
  }));
  work_while("names", "first", [&] {
    kill("controller");
    start_again("controller");
  });
  // Both at once: chains cannot change without it.
  work_while("names", "second", [&] {
    kill("controller");
    kill("storage1");
    start_again("controller");
  });
  start_again("storage1");
  await_whole("names");
  kill("names");
  start_again("names");
  verify("names", "first0");
  verify("names", "second0");

  const Json nodes = ask("nodes", "storage2").value("nodes", Json::array());
  ASSERT_EQ(nodes.size(), 4U);
  EXPECT_EQ(nodes[0]["roles"], Json({"controller"}));
  EXPECT_EQ(nodes[1]["roles"], Json({"meta", "agent"}));
  EXPECT_EQ(nodes[2]["roles"], Json({"storage", "agent"}));
  down("names");
  refused({"up", place("names"), "-b", "--roles", "storage"}, "was made to play meta,agent");
}

TEST_F(ClusterRoles, refuses_what_cannot_be_played) {
  refused({"up", place("one"), "-b", "--listen", free_address(), "--roles", "storage"},
          "has the controller");
  refused({"up", place("one"), "-b", "--listen", free_address(), "--roles", "meta"},
          "meta goes with agent");
  EXPECT_FALSE(fs::exists(place("one")));
  up("alone", {});
  down("alone");
  refused({"up", place("alone"), "-b", "--listen", free_address(), "--roles", "controller"},
          "is a store already");
  refused({"up", place("alone"), "-b", "--disk", place("disk")}, "alone");
  EXPECT_FALSE(fs::exists(place("disk")));
  start_again("alone");
}

TEST_F(ClusterRoles, a_disk_that_is_missing_takes_no_other_down) {
  make_source();
  up("first", {"--listen", free_address(), "--disk", place("disk1"), "--disk", place("disk2")});
  join("second");
  join("third");
  good({"set", place("first") + ":/", "--copies", "2"});
  import("first", "files");
  down("first");
  fs::rename(place("disk1"), place("elsewhere"));
  fs::create_directory(place("disk1"));

  start_again("first");
  EXPECT_EQ(target_states("first", 1), (std::vector<std::string>{"down", "up"}));
  EXPECT_THAT(good({"status", place("first")}).out, HasSubstr("MISSING: " + place("disk1")));
  EXPECT_THAT(read_file(place("first") + "/agent.log"), HasSubstr(place("disk1")));
  EXPECT_TRUE(fs::is_empty(place("disk1")));
  verify("first", "files");
  import("first", "more");
  down("first");

  fs::remove(place("disk1"));
  fs::rename(place("elsewhere"), place("disk1"));
  good({"up", place("first"), "-b", "--disk", place("disk3")});
  await_whole("first");
  EXPECT_EQ(target_states("first", 1).size(), 3U);
  verify("first", "more");

  // A damaged one, too.
  down("first");
  fs::remove_all(place("disk2") + "/kv");
  start_again("first");
  EXPECT_THAT(good({"status", place("first")}).out, HasSubstr("MISSING: "));
  verify("first", "more");
  verify("first", "files");
}

TEST_F(ClusterRoles, a_disk_of_others_is_refused) {
  up("first", {"--listen", free_address(), "--disk", place("disk1")});
  join("second", {"--disk", place("disk2")});
  down("second");
  refused({"up", place("second"), "-b", "--disk", place("disk1")}, "belong to another node");
  fs::create_directories(place("used/by others"));
  refused({"up", place("second"), "-b", "--disk", place("used")}, "is not empty");
  // What was refused is not on its list; and one that moved is found where it is.
  fs::rename(place("disk2"), place("moved"));
  good({"up", place("second"), "-b", "--disk", place("moved")});
  EXPECT_THAT(good({"status", place("second")}).out, Not(HasSubstr("MISSING")));
  EXPECT_EQ(target_states("first", 2), std::vector<std::string>{"up"});

  invitation_.clear();
  up("other", {"--listen", free_address()});
  down("first");
  refused({"join", token(), place("third"), "-b", "--disk", place("disk1")},
          "belong to another cluster");
  EXPECT_FALSE(fs::exists(place("third")));
  start_again("first");
}

TEST_F(ClusterRoles, a_first_start_that_fails_leaves_the_store_alone) {
  make_source();
  up("store", {});
  import("store", "files");
  down("store");
  const TakenPort taken;
  refused({"up", place("store"), "-b", "--listen", taken.text()}, "cannot listen there");
  // Everything but the second door has begun by then.
  const std::string twice = free_address();
  refused({"up", place("store"), "-b", "--listen", twice, "--listen", twice}, twice);
  EXPECT_FALSE(fs::exists(place("store") + "/cluster"));
  EXPECT_FALSE(fs::exists(place("store") + "/targets/0/identity"));
  start_again("store");
  EXPECT_THAT(penstock({"cluster", place("store")}).err, HasSubstr("is alone"));
  down("store");
  good({"up", place("store"), "-b", "--listen", free_address()});
  EXPECT_EQ(ask("cluster", "store").value("nodes", uint64_t{0}), 1U);
  verify("store", "files");

  refused({"up", place("new"), "-b", "--listen", twice, "--listen", twice, "--disk", place("disk")},
          twice);
  EXPECT_FALSE(fs::exists(place("new")));
  EXPECT_FALSE(fs::exists(place("disk") + "/data"));
}

TEST_F(ClusterRoles, a_node_is_reached_by_any_of_its_cards) {
  make_source();
  const std::string first = free_address();
  const std::string second = "[::1]" + free_address().substr(9);
  up("first", {"--listen", first, "--listen", second + ",rail=1"});
  EXPECT_THAT(invitation_, HasSubstr(first));
  join("second", {"--listen", free_address(), "--listen", free_address() + ",rail=1,numa=1"});
  const Json nodes = ask("nodes", "second").value("nodes", Json::array());
  ASSERT_EQ(nodes.size(), 2U);
  ASSERT_EQ(nodes[0]["cards"].size(), 2U);
  EXPECT_EQ(nodes[0]["cards"][1]["host"], "::1");
  EXPECT_EQ(nodes[0]["cards"][1]["rail"], 1);
  EXPECT_EQ(nodes[1]["cards"][1]["numa"], 1);
  good({"set", place("first") + ":/", "--copies", "2"});
  import("first", "files");
  verify("first", "files");
  // By the second address of the first node's it is let in as well.
  const std::string line = token();
  good({"join", line.substr(0, line.find('@') + 1) + second, place("third"), "-b", "--listen",
        "[::1]" + free_address().substr(9)});
  started_.push_back("third");
}

}  // namespace
}  // namespace penstock::test
