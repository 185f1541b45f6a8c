// Scenarios on GPUs (device_scenarios.cc, device_fault_scenarios.cc, device_apart_scenarios.cc) in
// real processes, on simulated ones: two of them, whatever the number of PEs, or one for each.
#include <algorithm>
#include <csignal>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <ostream>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

#include "penstock/job.h"

namespace penstock::symm {
namespace {

constexpr int kKilled = 128 + SIGKILL;

struct GpuCase {
  std::string scenario;
  uint32_t pes;
  int code = 0;            // of the job; not 0: a PE ends, and the others go on
  std::string nodes = {};  // empty: all are on one
  friend void PrintTo(const GpuCase& one, std::ostream* out) {
    *out << one.scenario << " of " << one.pes;
  }
};

std::string text_of(const UniqueFd& file) {
  std::string text(static_cast<size_t>(std::max<off_t>(::lseek(file.get(), 0, SEEK_END), 0)), 0);
  const ssize_t read = ::pread(file.get(), text.data(), text.size(), 0);
  text.resize(static_cast<size_t>(std::max<ssize_t>(read, 0)));
  return text;
}

class GpusTest : public testing::TestWithParam<GpuCase> {};

TEST_P(GpusTest, do_what_is_promised) {
  const UniqueFd said(::memfd_create("said", MFD_CLOEXEC));
  // Appended to: of two PEs that write to one place of it at once, one would be lost.
  ASSERT_EQ(::fcntl(said.get(), F_SETFL, O_APPEND), 0);
  job::LaunchOptions options;
  options.size = GetParam().pes;
  if (!GetParam().nodes.empty()) options.environment = {{"PENSTOCK_JOB_NODES", GetParam().nodes}};
  options.command = {PENSTOCK_PES_PATH, GetParam().scenario, "simulated"};
  options.keep_going = GetParam().code != 0;
  options.signals = false;
  options.errors = said.get();
  const auto code = job::launch(options);
  ASSERT_TRUE(code) << code.error().message;
  const std::string text = text_of(said);
  EXPECT_EQ(*code, GetParam().code) << text;
  // The code is that of the PE that ended first: what others found wrong is in what they said.
  EXPECT_EQ(text.find("not so"), std::string::npos) << text;
}

std::vector<GpuCase> gpu_cases() {
  std::vector<GpuCase> all;
  for (const uint32_t pes : {1, 2, 4}) {
    for (const char* scenario :
         {"device_bytes", "device_streams", "device_groups", "device_full", "device_no_such_pe",
          "device_wrong_address", "device_no_memory_at_one", "device_launches_fail",
          "device_operations"}) {
      all.push_back({scenario, pes});
    }
    if (pes == 1) continue;
    all.push_back({"device_unreachable", pes});
    for (const char* scenario : {"device_end", "device_lost", "device_collective_end"})
      all.push_back({scenario, pes, 7});
    for (const char* scenario : {"device_in_barrier", "device_in_wait", "device_in_host_barrier"})
      all.push_back({scenario, pes, kKilled});
  }
  // GPUs that do not reach one another, through rings, proxies and mail in shared memory.
  for (const uint32_t pes : {2, 3}) {
    all.push_back({"device_all_apart", pes});
    all.push_back({"device_apart_killed", pes, kKilled});
    all.push_back({"device_apart_joining", pes, kKilled});
  }
  for (const char* scenario :
       {"device_last_apart", "device_ends_apart", "device_teams_apart", "device_apart_refused"})
    all.push_back({scenario, 3});
  // The ends on one node, the one between them on another.
  all.push_back({"device_ends_apart", 3, 0, "0,1,0"});
  // Through rings, proxies and mail.
  all.push_back({"device_nodes_refused", 2, 0, "2"});
  all.push_back({"device_streams", 2, 0, "2"});
  all.push_back({"device_streams", 3, 0, "2"});
  all.push_back({"device_far_steps", 2, 0, "2"});
  all.push_back({"device_far_steps", 4, 0, "2"});
  all.push_back({"device_far_pageable", 2, 0, "2"});
  all.push_back({"device_far_programs", 2, 0, "2"});
  all.push_back({"device_far_programs", 3, 0, "2"});
  all.push_back({"device_far_adopted", 4, 0, "2"});
  all.push_back({"device_apart_adopted", 3});
  all.push_back({"device_end", 2, 7, "2"});
  all.push_back({"device_leaves", 2});
  // Collective operations on streams with far members.
  all.push_back({"device_operations", 4, 0, "2"});
  all.push_back({"device_collective_end", 3, 7, "2"});
  all.push_back({"far_operations", 2, 0, "2"});
  all.push_back({"far_operations", 4, 0, "2"});
  all.push_back({"far_operations", 5, 0, "0,1,0,2,1"});
  all.push_back({"far_elements", 3, 0, "2"});
  all.push_back({"far_teams", 4, 0, "2"});
  all.push_back({"far_operations_killed", 4, kKilled, "2"});
  for (const char* scenario : {"all_apart_operations", "ends_apart_operations"})
    all.push_back({scenario, 3});
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, GpusTest, testing::ValuesIn(gpu_cases()), [](const auto& one) {
  std::string nodes = one.param.nodes.empty() ? "" : "_on_" + one.param.nodes;
  std::replace(nodes.begin(), nodes.end(), ',', '_');
  return one.param.scenario + "_of_" + std::to_string(one.param.pes) + nodes;
});

}  // namespace
}  // namespace penstock::symm
