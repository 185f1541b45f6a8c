// `penstock check net` and `penstock bench net`, as a person runs them on a cluster of three nodes.
#include "cluster_processes.h"

#include <map>
#include <signal.h>

namespace penstock::test {
namespace {

using testing::HasSubstr;
using testing::Not;

class CheckNet : public ClusterProcesses {
 protected:
  static constexpr const char* kSeconds = "0.05";

  void three_nodes() {
    up("first", {"--listen", free_address()});
    join("second");
    join("third");
  }
  Output check(const std::vector<std::string>& words, const std::string& name = "first") const {
    std::vector<std::string> all = {"check", "net", "--store", place(name), "--seconds", kSeconds};
    all.insert(all.end(), words.begin(), words.end());
    return penstock(all);
  }
  static Json parse(const Output& output) {
    const Json json = Json::parse(output.out, nullptr, false);
    return json.is_object() ? json : Json::object();
  }
  // By "from-to": whether it was measured, with figures that make sense.
  static std::map<std::string, bool> pairs_of(const Json& document) {
    std::map<std::string, bool> pairs;
    for (const Json& pair : document.value("pairs", Json::array())) {
      bool is_well = !pair["ways"].empty() && pair.value("trouble", "?").empty();
      for (const Json& way : pair["ways"]) {
        const auto number = [&](const char* key) { return way.value(key, uint64_t{0}); };
        is_well = is_well && way.value("trouble", "?").empty() && number("latency_median_ns") > 0 &&
                  number("latency_p99_ns") >= number("latency_median_ns") &&
                  number("place_bytes_per_second") > 0 && number("fetch_bytes_per_second") > 0 &&
                  number("path_mtu") > 0 && number("segment_bytes") > 0 &&
                  !way.value("congestion", "").empty();
      }
      pairs[std::to_string(pair.value("from", 0)) + "-" + std::to_string(pair.value("to", 0))] =
          is_well;
    }
    return pairs;
  }
  pid_t pid_of(const std::string& name) const { return ask("status", name).value("pid", 0); }
};

TEST_F(CheckNet, measures_all_pairs_and_says_why_not_better) {
  three_nodes();
  const Output told = check({}, "second");
  EXPECT_EQ(told.exit_code, 0) << told.out << told.err;
  for (const char* text :
       {"RDMA", "why no better way", "node 1 (", "node 2 (", "node 3 (", "locked memory"}) {
    EXPECT_THAT(told.out, HasSubstr(text));
  }
  const Json document = parse(check({"--json"}));
  const std::map<std::string, bool> all = {{"1-2", true}, {"1-3", true}, {"2-1", true},
                                           {"2-3", true}, {"3-1", true}, {"3-2", true}};
  EXPECT_EQ(pairs_of(document), all) << document.dump(2);
  EXPECT_TRUE(document.value("well", false));
  for (const Json& pair : document["pairs"]) {
    EXPECT_THAT(pair["ways"][0].value("protection", ""), testing::AnyOf("user space", "kernel"));
    EXPECT_TRUE(pair["ways"][0].value("used", false));
    EXPECT_EQ(pair["ways"][0].value("transport", ""), "tcp");
  }
  EXPECT_EQ(document["nodes"].size(), 3U);
}

TEST_F(CheckNet, measures_one_node_by_its_number_or_name_and_knows_no_other) {
  three_nodes();
  const std::map<std::string, bool> both = {{"1-3", true}, {"3-1", true}};
  EXPECT_EQ(pairs_of(parse(check({"3", "--json"}))), both);
  const Output wrong = check({"7"});
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.err, HasSubstr("the cluster has no node '7'; it has 1 ("));
  const Output own = check({"1"});
  EXPECT_EQ(own.exit_code, 1);
  EXPECT_THAT(own.err, HasSubstr("node 1 is the one that is asked"));
  // All three run on one machine, and so have one name.
  const std::string name = ask("nodes", "first")["nodes"][0].value("name", "");
  const Output several = check({name});
  EXPECT_EQ(several.exit_code, 1);
  EXPECT_THAT(several.err, HasSubstr("several nodes are called '" + name + "'"));
}

TEST_F(CheckNet, names_a_node_that_was_killed_and_tells_the_rest) {
  three_nodes();
  kill("third");
  const Output told = check({});
  EXPECT_EQ(told.exit_code, 3);
  EXPECT_THAT(told.out, HasSubstr("BAD   node 1 to node 3"));
  EXPECT_THAT(told.out, HasSubstr("Connection refused"));
  EXPECT_THAT(told.out, HasSubstr("node 3 to node 1: not measured: node 3 could not be asked"));
  const std::map<std::string, bool> pairs = pairs_of(parse(check({"--json"})));
  EXPECT_EQ(pairs.size(), 6U);
  EXPECT_TRUE(pairs.at("1-2") && pairs.at("2-1"));
  EXPECT_FALSE(pairs.at("1-3") || pairs.at("2-3") || pairs.at("3-1") || pairs.at("3-2"));
}

TEST_F(CheckNet, names_a_node_that_stands_still_and_tells_the_rest) {
  three_nodes();
  const pid_t third = pid_of("third");
  ASSERT_GT(third, 0);
  ASSERT_EQ(::kill(third, SIGSTOP), 0);
  const Output told = check({});
  const std::map<std::string, bool> pairs = pairs_of(parse(check({"--json"})));
  ASSERT_EQ(::kill(third, SIGCONT), 0);
  EXPECT_EQ(told.exit_code, 3);
  EXPECT_THAT(told.out, HasSubstr("BAD   node 1 to node 3"));
  EXPECT_THAT(told.out, HasSubstr("its handshake does not come to an end"));
  EXPECT_TRUE(pairs.at("1-2") && pairs.at("2-1"));
  EXPECT_FALSE(pairs.at("1-3") || pairs.at("2-3") || pairs.at("3-1") || pairs.at("3-2"));
  // It goes on, and then all is well again.
  EXPECT_TRUE(eventually([&] { return check({}).exit_code == 0; }));
}

TEST_F(CheckNet, tells_that_a_cluster_is_insecure) {
  up("first", {"--listen", free_address(), "--insecure"});
  good({"join", invitation_, place("second"), "-b", "--insecure"});
  started_.push_back("second");
  const Output told = check({});
  EXPECT_EQ(told.exit_code, 0) << told.out << told.err;
  EXPECT_THAT(told.out, HasSubstr("no TLS: the cluster is insecure"));
  EXPECT_THAT(told.out, Not(HasSubstr("user space ")));
}

TEST_F(CheckNet, looks_at_this_machine_where_no_node_runs) {
  const Output alone = penstock({"check", "net"});
  EXPECT_THAT(alone.out, HasSubstr("only this machine was looked at: no node was named"));
  EXPECT_THAT(alone.out, HasSubstr("locked memory"));
  EXPECT_THAT(alone.out, HasSubstr("TLS in the kernel"));
  EXPECT_EQ(alone.exit_code == 3, alone.out.find("BAD") != std::string::npos);
  EXPECT_THAT(check({}, "nowhere").out, HasSubstr("no node runs in"));
  const Json json = parse(penstock({"check", "net", "--json"}));
  EXPECT_THAT(json.value("only_this_machine", ""), HasSubstr("no node was named"));
  const Output named = check({"2"}, "nowhere");
  EXPECT_EQ(named.exit_code, 1);
  EXPECT_THAT(named.err, HasSubstr("can be reached from a running node only"));
}

TEST_F(CheckNet, ends_with_its_node) {
  three_nodes();
  std::atomic<bool> is_over = false;
  const auto is_refused = [](const Output& one) {
    return one.err.find("measures for somebody else") != std::string::npos;
  };
  Output told;
  std::thread asker([&] {
    // The short one below may come first.
    do {
      told = penstock({"check", "net", "--store", place("first"), "--seconds", "10"});
    } while (is_refused(told));
    is_over = true;
  });
  // Whoever asks then is refused, as it measures.
  EXPECT_TRUE(eventually([&] {
    return is_refused(penstock({"check", "net", "--store", place("first"), "--seconds", kSeconds}));
  }));
  EXPECT_FALSE(is_over);
  down("first");
  asker.join();
  EXPECT_EQ(told.exit_code, 1) << told.out;
}

TEST_F(CheckNet, bench_measures_over_loopback_and_to_a_node) {
  const Output told =
      penstock({"bench", "net", "--quick", "--seconds", "0.1", "--json", scratch_ / "bench.json"});
  EXPECT_EQ(told.exit_code, 0) << told.err;
  EXPECT_THAT(told.out, HasSubstr("tls: 1 MiB placed, 8 at once"));
  const Json lines = Json::parse(read_file(scratch_ / "bench.json"), nullptr, false);
  ASSERT_TRUE(lines.is_array());
  // Rows over verbs, or why there are none.
  const bool without_verbs = told.err.find("without verbs: ") != std::string::npos;
  EXPECT_EQ(lines.size(), without_verbs ? 24U : 35U);
  for (const Json& line : lines) {
    EXPECT_GT(line.value("value", 0.0), 0) << line.dump();
    EXPECT_GT(line.value("reference", 0.0), 0) << line.dump();
  }
  up("first", {"--listen", free_address()});
  join("second");
  const Output to = penstock({"bench", "net", "--to", "2", "--store", place("first"), "--seconds",
                              "0.1", "--json", scratch_ / "to.json"});
  EXPECT_EQ(to.exit_code, 0) << to.err;
  EXPECT_THAT(to.out, testing::AnyOf(HasSubstr("over tcp, TLS: user space"),
                                     HasSubstr("over tcp, TLS: kernel")));
  const Json rows = Json::parse(read_file(scratch_ / "to.json"), nullptr, false);
  ASSERT_TRUE(rows.is_array());
  EXPECT_EQ(rows.size(), 11U);
  for (const Json& line : rows) EXPECT_GT(line.value("value", 0.0), 0) << line.dump();
  refused({"bench", "net", "--to", "9", "--store", place("first")}, "the cluster has no node '9'");
  EXPECT_EQ(penstock({"bench", "ring", "--to", "2"}).exit_code, 2);
}

}  // namespace
}  // namespace penstock::test
