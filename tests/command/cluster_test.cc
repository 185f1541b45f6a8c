// Clusters as a user starts them: processes on loopback, which are killed.

#include "cluster_processes.h"

#include <algorithm>
#include <map>
#include <regex>

namespace penstock::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class ClusterCommand : public ClusterProcesses {
 protected:
  static std::string name(int node) { return "node" + std::to_string(node); }
  std::string store(int node) const { return place(name(node)); }

  // Of a document's text, the value of "key"; empty if there is none.
  static std::string value(const std::string& json, const std::string& key) {
    std::smatch match;
    const std::regex wanted("\"" + key + "\": \"?([^\",\n]*)");
    return std::regex_search(json, match, wanted) ? match[1].str() : "";
  }

  void start_first() { up(name(1), {"--listen", free_address()}); }
  void join(int node) { ClusterProcesses::join(name(node)); }
  void start_three() {
    start_first();
    for (const int node : {2, 3}) join(node);
  }
  void start_again(int node) { ClusterProcesses::start_again(name(node)); }
  void kill_node(int node) { kill(name(node)); }
  std::string chains_that_are(const std::string& how) const {
    return value(penstock({"cluster", store(1), "--json"}).out, how);
  }
  // Of each node by its number: what it has, or has to hand over.
  std::vector<uint64_t> chains_of_nodes() const {
    std::vector<uint64_t> chains;
    const Output output = penstock({"nodes", store(1), "--json"});
    const std::regex wanted("\"chains_left\": ([0-9]+)");
    const auto end = std::sregex_iterator();
    for (auto at = std::sregex_iterator(output.out.begin(), output.out.end(), wanted); at != end;
         ++at) {
      chains.push_back(std::stoul((*at)[1].str()));
    }
    return chains;
  }
  // Copies of chains lie on so many nodes, and on none more than one more than on another.
  void await_even(size_t nodes) const {
    EXPECT_TRUE(eventually([&] {
      std::vector<uint64_t> chains = chains_of_nodes();
      chains.erase(std::remove(chains.begin(), chains.end(), 0), chains.end());
      if (chains.size() != nodes || chains_that_are("moves_left") != "0") return false;
      const auto [least, most] = std::minmax_element(chains.begin(), chains.end());
      return *most <= *least + 1;
    })) << good({"nodes", store(1)}).out
        << good({"cluster", store(1)}).out;
  }
  void await_whole() const { ClusterProcesses::await_whole(name(1)); }
  void import(const std::string& as) const { ClusterProcesses::import(name(1), as); }
  void verify(const std::string& as) const { ClusterProcesses::verify(name(1), as); }
};

TEST_F(ClusterCommand, three_nodes_hold_each_file_and_any_may_be_killed) {
  make_source();
  start_three();
  good({"set", store(1) + ":/", "--copies", "3"});
  EXPECT_EQ(chains_that_are("whole"), "12");
  import("first");
  verify("first");

  kill_node(3);
  import("second");
  verify("first");
  verify("second");
  start_again(3);
  await_whole();

  // What node 3 has missed it serves now.
  kill_node(2);
  verify("second");
  import("third");
  start_again(2);
  await_whole();

  kill_node(1);
  start_again(1);
  for (const char* name : {"first", "second", "third"}) verify(name);
  await_whole();
  EXPECT_THAT(good({"chains", store(3)}).out, HasSubstr("serving"));
}

TEST_F(ClusterCommand, grows_from_two_nodes_and_hands_over_what_one_has_before_it_goes) {
  make_source();
  start_first();
  join(2);
  refused({"set", store(1) + ":/", "--copies", "3"}, "there are 2 (let another join");
  good({"set", store(1) + ":/", "--copies", "2"});
  import("first");
  join(3);
  await_even(3);
  good({"set", store(1) + ":/", "--copies", "3"});
  import("second");
  await_even(3);

  // With three copies there is no other node for them: this is said, and nothing is lost.
  refused({"remove", store(1), "3"}, "drain it first");
  EXPECT_THAT(good({"drain", store(1), "3"}).out, HasSubstr("12 of them can go NOWHERE now"));
  refused({"remove", store(1), "3"}, "wait until it has handed them over");
  EXPECT_THAT(good({"nodes", store(1)}).out, HasSubstr("12 of them can go NOWHERE now"));
  verify("second");

  // When another joins they go there.
  join(4);
  EXPECT_TRUE(eventually([&] { return chains_of_nodes()[2] == 0; }));
  EXPECT_THAT(good({"nodes", store(1)}).out, HasSubstr("has handed over all chains"));
  good({"down", store(3)});
  good({"remove", store(1), "3"});
  await_whole();
  await_even(3);
  for (const char* name : {"first", "second"}) verify(name);
  refused({"up", store(3), "-b"}, "was removed");
}

TEST_F(ClusterCommand, says_why_a_node_does_not_get_in) {
  start_three();
  const std::string other = scratch_ / "other";
  std::string wrong = invitation_;
  wrong[0] = wrong[0] == 'a' ? 'b' : 'a';
  refused({"join", wrong, store(2), "-b"}, "already running");
  penstock({"down", store(2)});
  refused({"join", wrong, store(2), "-b"}, "is of another cluster");
  start_again(2);
  ClusterProcesses::join("stores", {"--roles", "storage"});
  down("stores");
  refused({"up", place("stores"), "--mount", other, "-b"}, "has no files to mount");

  refused({"up", other, "--listen", "192.0.2.1:9180", "-b"}, "cannot listen there");
  refused({"up", other, "--listen", "0.0.0.0:9180", "-b"}, "others cannot reach");
  refused({"up", other, "--listen", "somewhere", "-b"}, "is no address to listen at");
  good({"up", other, "-b"});
  good({"down", other});
  refused({"join", token(), other, "-b"}, "is a store with names of its own");
  refused({"remove", store(1), "9"}, "no");
}

}  // namespace
}  // namespace penstock::test
