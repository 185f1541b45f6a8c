// `penstock check symm` and `penstock bench symm`, by themselves and in a job.
#include <chrono>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <set>

#include "penstock/json.h"
#include "penstock/testing.h"
#include "penstock/testing_node.h"

namespace penstock::test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kSeconds = "0.02";

Json parse(const Output& output) {
  const Json json = parse_json(output.out);
  EXPECT_TRUE(json.is_object()) << output.out << output.err;
  return json.is_object() ? json : Json::object();
}

// "0-1": of the host memory of two PEs, which has figures that make sense.
std::multiset<std::string> pairs_of(const Json& document) {
  std::multiset<std::string> pairs;
  for (const Json& way : document.value("ways", Json::array())) {
    if (way.value("memory", "") != "host") continue;
    EXPECT_EQ(way.value("way", ""), "shared memory");
    for (const char* figure : {"put_bytes_per_second", "get_bytes_per_second", "put_seconds",
                               "get_seconds", "signal_seconds"}) {
      EXPECT_GT(way.value(figure, 0.0), 0) << figure;
    }
    pairs.insert(std::to_string(way.value("from", 9)) + "-" + std::to_string(way.value("to", 9)));
  }
  return pairs;
}

std::vector<std::string> in_a_job(const char* pes, std::vector<std::string> words) {
  words.insert(words.begin(), {"run", "-n", pes, command_path()});
  return words;
}

TEST(CheckSymm, starts_pes_and_says_how_they_reach_one_another) {
  const Output told = penstock({"check", "symm", "-n", "2", "--seconds", kSeconds});
  EXPECT_EQ(told.exit_code, 0) << told.err;
  for (const char* text : {"PEs 0-1: node 0", "shared memory", "barrier of 2 PEs: "}) {
    EXPECT_THAT(told.out, HasSubstr(text));
  }
  // Also where there is no GPU, something is said of them.
  EXPECT_THAT(told.out, HasSubstr("GPU"));
}

TEST(CheckSymm, measures_each_pair_once) {
  const Json document =
      parse(penstock({"check", "symm", "-n", "3", "--seconds", kSeconds, "--json"}));
  EXPECT_EQ(pairs_of(document), (std::multiset<std::string>{"0-1", "0-2", "1-2"}));
  EXPECT_EQ(document.value("pairs", 0), 3);
  EXPECT_EQ(document.value("pes", Json::array()).size(), 3U);
  EXPECT_GT(document.value("barrier_seconds", 0.0), 0);
}

TEST(CheckSymm, in_a_job_takes_its_processes_and_prints_once) {
  const Output told = penstock(in_a_job("3", {"check", "symm", "--seconds", kSeconds, "--json"}));
  EXPECT_EQ(told.exit_code, 0) << told.err;
  EXPECT_EQ(pairs_of(parse(told)), (std::multiset<std::string>{"0-1", "0-2", "1-2"}));
  const Output refused = penstock(in_a_job("2", {"check", "symm", "-n", "2"}));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("-n goes without a job"));
}

TEST(CheckSymm, alone_in_a_job_starts_its_own) {
  const Output told = penstock(in_a_job("1", {"check", "symm", "--seconds", kSeconds, "--json"}));
  EXPECT_EQ(told.exit_code, 0) << told.err;
  EXPECT_EQ(pairs_of(parse(told)).count("0-1"), 1U);
}

TEST(CheckSymm, ends_when_a_pe_is_killed) {
  // Measures for longer than tests may take, if nothing happens.
  const std::string command = command_path();
  const std::string script = "if [ $PENSTOCK_RANK = 1 ]; then timeout -s KILL 1 " + command +
                             " check symm --seconds 60; else exec " + command +
                             " check symm --seconds 60; fi";
  const auto began = std::chrono::steady_clock::now();
  const Output told = penstock({"run", "-n", "2", "--keep-going", "bash", "-c", script});
  EXPECT_NE(told.exit_code, 0);
  EXPECT_THAT(told.err, HasSubstr("check symm: "));
  EXPECT_THAT(told.out, Not(HasSubstr("shared memory")));
  // Each look at who is there comes after a small part of the time.
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(40));
}

// On one machine, whose ranks play two nodes.
std::vector<std::string> on_two_nodes(std::vector<std::string> words) {
  words.insert(words.begin(), {"run", "-n", "2", "-x", "PENSTOCK_JOB_NODES=2", command_path()});
  return words;
}

TEST(CheckSymm, names_the_way_to_other_nodes_and_why_it_is_no_better_one) {
  const Json document =
      parse(penstock(on_two_nodes({"check", "symm", "--seconds", kSeconds, "--json"})));
  const Json ways = document.value("ways", Json::array());
  ASSERT_GE(ways.size(), 1U);
  EXPECT_EQ(ways[0].value("way", ""), "TCP");
  EXPECT_THAT(ways[0].value("note", ""), HasSubstr("PE 1 is on another node; not by RDMA: "));
  for (const char* figure : {"put_bytes_per_second", "get_seconds", "signal_seconds"}) {
    EXPECT_GT(ways[0].value(figure, 0.0), 0) << figure;
  }
}

TEST(BenchSymm, stands_beside_a_bare_socket_to_other_nodes) {
  const ScratchDirectory scratch;
  const std::string file = scratch / "lines.json";
  const Output told = penstock(on_two_nodes({"bench", "symm", "--rounds", "1", "--seconds", "0.1",
                                             "--dir", scratch.path(), "--json", file}));
  EXPECT_EQ(told.exit_code, 0) << told.err;
  std::set<std::string> names;
  for (const Json& line : parse_json(read_file(file))) {
    const std::string name = line.value("name", "");
    names.insert(name);
    EXPECT_TRUE(line["ratio"].is_number() || !name.starts_with("symm.far.")) << name;
  }
  for (const char* name : {"symm.far.put.8", "symm.far.get.8", "symm.far.put.16m",
                           "symm.far.put_signal.8", "symm.host.barrier"}) {
    EXPECT_EQ(names.count(name), 1U) << name;
  }
}

TEST(BenchSymm, has_a_line_for_each_thing_that_pes_do) {
  const ScratchDirectory scratch;
  const std::string file = scratch / "lines.json";
  const std::vector<std::string> words = {"bench", "symm",  "--rounds",     "1",      "--seconds",
                                          "0.1",   "--dir", scratch.path(), "--json", file};
  const auto lines_of = [&](const Output& output) {
    EXPECT_EQ(output.exit_code, 0) << output.err;
    std::map<std::string, Json> lines;
    for (const Json& line : parse_json(read_file(file))) {
      EXPECT_TRUE(lines.emplace(line.value("name", ""), line).second) << "twice";
      EXPECT_GT(line.value("value", 0.0), 0);
    }
    return lines;
  };
  std::vector<std::string> alone = words;
  alone.insert(alone.end(), {"-n", "2"});
  const Output told = penstock(alone);
  const auto lines = lines_of(told);
  for (const char* name : {"symm.host.put.8", "symm.host.get.64m", "symm.host.fetch_add",
                           "symm.host.signal", "symm.host.put_signal.4k"}) {
    ASSERT_EQ(lines.count(name), 1U) << name;
    EXPECT_TRUE(lines.at(name)["ratio"].is_number()) << name << " has no reference";
  }
  for (const char* name : {"symm.host.barrier", "symm.host.broadcast.8", "symm.host.fcollect.4k",
                           "symm.host.alltoall.64k", "symm.host.reduce.1m"}) {
    EXPECT_EQ(lines.count(name), 1U) << name;
  }
  EXPECT_THAT(told.out, HasSubstr("put with signal, 4 KiB, one way"));

  const Output of_job = penstock(in_a_job("3", words));
  EXPECT_EQ(lines_of(of_job).size(), lines.size());
  EXPECT_EQ(of_job.out.find("barrier of 3 PEs"), of_job.out.rfind("barrier of 3 PEs"));
  std::vector<std::string> several = words;
  several.insert(several.begin() + 1, "ring");
  EXPECT_EQ(penstock(in_a_job("2", several)).exit_code, 2);
}

}  // namespace
}  // namespace penstock::test
