// What operators do with disks, and where they look: nodes that only store among them.
#include "cluster_processes.h"

#include <filesystem>

namespace penstock::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class ClusterDisks : public ClusterProcesses {
 protected:
  // Of the controller's list, a node's targets.
  Json targets(const std::string& asked, uint64_t node) const {
    for (const Json& one : ask("nodes", asked).value("nodes", Json::array())) {
      if (one.value("node", uint64_t{0}) == node) return one["targets"];
    }
    return Json::array();
  }
  uint64_t chains_of(const std::string& asked, uint64_t node, size_t target) const {
    const Json all = targets(asked, node);
    return target < all.size() ? all[target].value("chains", uint64_t{0}) : 0;
  }
  // Four nodes and two copies, so that there is a place for what goes; the second has two disks.
  void start_with_two_disks() {
    up("first", {"--listen", free_address()});
    join("second", {"--roles", "storage", "--disk", place("disk1"), "--disk", place("disk2")});
    join("third");
    join("fourth");
    good({"set", place("first") + ":/", "--copies", "2"});
    make_source();
    import("first", "files");
    ASSERT_GT(chains_of("first", 2, 0), 0U);
    ASSERT_GT(chains_of("first", 2, 1), 0U);
  }
};

TEST_F(ClusterDisks, one_is_drained_and_taken_off_while_its_node_serves) {
  start_with_two_disks();
  refused({"drain", place("second"), "--disk", place("nowhere")}, "it has " + place("disk1"));
  refused({"remove", place("second"), "--disk", place("disk1")}, "drain it first");
  EXPECT_THAT(good({"drain", place("second"), "--disk", place("disk1")}).out,
              HasSubstr("to hand over"));
  EXPECT_TRUE(eventually([&] { return chains_of("first", 2, 0) == 0; }));
  EXPECT_GT(chains_of("first", 2, 1), 0U) << "the other one stays";
  EXPECT_THAT(good({"nodes", place("third")}).out, HasSubstr("has handed over all chains"));
  await_whole("first");
  EXPECT_THAT(good({"remove", place("second"), "--disk", place("disk1")}).out,
              HasSubstr("has it open until its next start"));
  EXPECT_THAT(good({"status", place("second")}).out, HasSubstr(place("disk1") + ": taken off"));
  refused({"remove", place("second"), "--disk", place("disk1")}, "is no disk of this node");
  verify("first", "files");

  down("second");
  start_again("second");
  EXPECT_THAT(good({"status", place("second")}).out, Not(HasSubstr(place("disk1"))));
  EXPECT_EQ(target_states("first", 2), std::vector<std::string>{"up"});
  await_whole("first");
  verify("first", "files");

  // What is on it is given up; emptied it is a new one.
  down("second");
  refused({"up", place("second"), "-b", "--disk", place("disk1")}, "was taken off this node");
  fs::remove_all(place("disk1"));
  good({"up", place("second"), "-b", "--disk", place("disk1")});
  EXPECT_EQ(target_states("first", 2), (std::vector<std::string>{"up", "up"}));
}

TEST_F(ClusterDisks, a_drain_is_undone) {
  start_with_two_disks();
  good({"drain", place("second"), "--disk", place("disk2")});
  EXPECT_TRUE(eventually([&] { return targets("first", 2)[1].value("is_to_go", false); }));
  EXPECT_THAT(good({"drain", place("second"), "--disk", place("disk2"), "--undo"}).out,
              HasSubstr("the disk stays"));
  EXPECT_TRUE(eventually([&] { return !targets("first", 2)[1].value("is_to_go", true); }));
  EXPECT_EQ(penstock({"drain", place("second")}).exit_code, 2);
  await_whole("first");
}

TEST_F(ClusterDisks, one_that_is_lost_for_good_is_taken_off_and_others_make_its_copies) {
  start_with_two_disks();
  down("second");
  fs::remove_all(place("disk1"));
  start_again("second");
  EXPECT_EQ(target_states("first", 2), (std::vector<std::string>{"down", "up"}));
  refused({"drain", place("second"), "--disk", place("disk1")}, "is missing");
  EXPECT_THAT(good({"remove", place("second"), "--disk", place("disk1")}).out,
              HasSubstr("gets copies elsewhere"));
  await_whole("first");
  EXPECT_EQ(target_states("first", 2), std::vector<std::string>{"up"});
  verify("first", "files");
}

TEST_F(ClusterDisks, the_last_copy_goes_by_force_only) {
  up("first", {"--listen", free_address(), "--roles", "controller,meta,agent"});
  join("second", {"--disk", place("disk1")});
  good({"set", place("first") + ":/", "--copies", "1"});
  down("second");
  fs::remove_all(place("disk1"));
  start_again("second");
  refused({"remove", place("second"), "--disk", place("disk1")}, "the last full copy");
  good({"remove", place("second"), "--disk", place("disk1"), "--force"});
  EXPECT_TRUE(target_states("first", 2).empty());
  // Its chains begin anew, where there is a place for them.
  join("third");
  await_whole("first");
}

TEST_F(ClusterDisks, a_node_that_only_stores_says_what_it_has_and_does) {
  start_with_two_disks();
  const std::string status = good({"status", place("second")}).out;
  EXPECT_THAT(status, HasSubstr(" in " + place("disk1") + ": "));
  EXPECT_THAT(status, HasSubstr("connections stand"));
  EXPECT_THAT(status, Not(HasSubstr("inodes")));
  const std::string screen = good({"top", place("second"), "--once", "--seconds", "0.2"}).out;
  EXPECT_THAT(screen, HasSubstr("node 2 of its cluster"));
  EXPECT_THAT(screen, HasSubstr(place("disk2")));
  EXPECT_THAT(screen, Not(HasSubstr("sessions")));
  EXPECT_THAT(good({"top", place("first"), "--once", "--seconds", "0.2"}).out,
              HasSubstr("node 1 of its cluster"));

  // All copies of two are verified where they lie, no more.
  uint64_t verified = 0;
  for (const char* name : {"first", "second", "third", "fourth"}) {
    const Json report = ask("scrub", name);
    EXPECT_TRUE(report.value("complete", false));
    verified += report.value("verified_bytes", uint64_t{0});
  }
  EXPECT_GE(verified, 2 * (9U << 20));
  EXPECT_LT(verified, 2 * (10U << 20));
}

TEST_F(ClusterDisks, the_first_node_has_another_address_and_the_others_are_told) {
  make_source();
  up("first", {"--listen", free_address()});
  join("second");
  good({"set", place("first") + ":/", "--copies", "2"});
  import("first", "files");
  const std::string late = token();
  down("second");
  down("first");
  refused({"join", late, place("other"), "-b"}, "'penstock join TOKEN@HOST:PORT");
  good({"up", place("first"), "-b", "--cache", "0", "--listen", free_address()});
  const std::string before =
      std::exchange(invitation_, ask("cluster", "first").value("invitation", ""));
  ASSERT_NE(invitation_, before);
  good({"join", invitation_, place("second"), "-b"});
  await_whole("first");
  verify("first", "files");
  // It is kept.
  down("second");
  start_again("second");
  EXPECT_EQ(ask("cluster", "second").value("invitation", ""), invitation_);
  await_whole("first");
}

}  // namespace
}  // namespace penstock::test
