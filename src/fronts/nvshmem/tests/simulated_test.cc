// Programs for NVSHMEM in jobs of real processes on simulated GPUs (simulated_pes.cc): what goes
// well, what ends the job with a message, and what happens when a PE or a GPU is lost.
#include <algorithm>
#include <csignal>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <ostream>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include "penstock/job.h"

namespace penstock::nvshmem {
namespace {

constexpr int kMistake = 70;  // limits::kFaultExitCode
constexpr int kKilled = 128 + SIGKILL;

struct Story {
  std::string name;
  std::vector<uint32_t> pes;
  int code = 0;
  std::string said = {};  // part of what stands on standard error
  std::vector<std::pair<std::string, std::string>> environment = {};
  friend void PrintTo(const Story& one, std::ostream* out) { *out << one.name; }
};

std::string text_of(const UniqueFd& file) {
  std::string text(static_cast<size_t>(std::max<off_t>(::lseek(file.get(), 0, SEEK_END), 0)), 0);
  const ssize_t read = ::pread(file.get(), text.data(), text.size(), 0);
  text.resize(static_cast<size_t>(std::max<ssize_t>(read, 0)));
  return text;
}

// "@" stands for the address that the program has told.
std::string with_address(std::string wanted, const std::string& text) {
  const size_t at = wanted.find('@');
  if (at == std::string::npos) return wanted;
  const std::string before = "address 0x";
  const size_t told = text.find(before);
  if (told == std::string::npos) return wanted;
  const size_t begin = told + before.size() - 2;
  const size_t end = text.find('\n', begin);
  return wanted.replace(at, 1, text.substr(begin, end - begin));
}

class ProgramTest : public testing::TestWithParam<Story> {};

TEST_P(ProgramTest, ends_as_it_must) {
  const Story& story = GetParam();
  for (const uint32_t pes : story.pes) {
    const UniqueFd errors(::memfd_create("errors", MFD_CLOEXEC));
    // Appended to: of two PEs that write to one place of it at once, one would be lost.
    ASSERT_EQ(::fcntl(errors.get(), F_SETFL, O_APPEND), 0);
    job::LaunchOptions options;
    options.size = pes;
    options.command = {SIMULATED_PES, story.name};
    options.environment = {{"NVSHMEM_SYMMETRIC_SIZE", "8M"}};
    options.environment.insert(options.environment.end(), story.environment.begin(),
                               story.environment.end());
    options.signals = false;
    options.errors = errors.get();
    const auto code = job::launch(options);
    ASSERT_TRUE(code) << code.error().message;
    const std::string text = text_of(errors);
    EXPECT_EQ(*code, story.code) << pes << " PEs: " << text;
    EXPECT_EQ(text.find("not so"), std::string::npos) << pes << " PEs: " << text;
    EXPECT_NE(text.find(with_address(story.said, text)), std::string::npos)
        << pes << " PEs: " << text;
  }
}

const Story kStories[] = {
    {"whole", {1, 2, 3, 4}},
    {"counted", {1, 2}},
    {"begins_again", {1, 2, 4}},
    {"finalize_twice", {1, 2}},
    {"device_by_attribute", {1, 2}, 0, "nvshmemx_init_attr: GPU 2: this process sees 2"},
    {"finalize_before_init", {1}, kMistake, "nvshmem_finalize: called before nvshmem_init()"},
    {"ends_after_finalize", {1, 2, 4}},
    {"thread_levels", {1, 2}},
    {"attributes_of_version_1", {1, 2}},
    {"team_configs", {1, 2, 3}},
    {"in_flight", {1, 3}},
    {"threads", {2}},
    {"full", {1, 2}, 0, "PE 0: no room for 67108864 bytes on the symmetric heap: "},
    {"grows", {1, 2, 3}, 0, "", {{"NVSHMEM_MAX_MEMORY_PER_GPU", "40M"}}},
    {"grows_over_nodes",
     {2, 4},
     0,
     "",
     {{"NVSHMEM_MAX_MEMORY_PER_GPU", "40M"}, {"PENSTOCK_JOB_NODES", "2"}}},
    {"one_cannot_grow", {1, 2, 3}, 0, "", {{"NVSHMEM_MAX_MEMORY_PER_GPU", "40M"}}},
    {"device_comes_early", {1, 2, 3}},
    {"splits_first", {1, 2, 4}},
    {"places_on_nodes", {2, 4}, 0, "", {{"PENSTOCK_JOB_NODES", "2"}}},
    // Out of its time.
    {"before_init", {1, 2}, kMistake, "nvshmem_malloc: called before nvshmem_init()"},
    {"after_finalize", {1, 2}, kMistake, "nvshmem_barrier_all: called after nvshmem_finalize()"},
    // With what is not there.
    {"no_such_pe", {1, 2}, kMistake, "PE 0: nvshmem_int_p: there is no PE "},
    {"negative_pe", {2}, kMistake, "PE 0: nvshmem_int_g: there is no PE -3: PEs are 0 to 1"},
    {"not_symmetric", {1, 2}, kMistake, "PE 0: nvshmem_int_p: PE 0, address 0x"},
    {"beyond", {1, 2}, kMistake, "1099511627776 bytes from there are not symmetric"},
    {"too_many", {1}, kMistake, "nvshmem_long_put: 4611686018427387903 elements of 8 bytes"},
    {"free_of_nothing", {1, 2}, kMistake, "nothing of nvshmem_malloc() begins there"},
    {"config_of_no_team", {1, 2}, kMistake, "nvshmem_team_get_config: there is no team 17"},
    {"kernel_no_pe", {1, 2}, kMistake, "nvshmem: a kernel named PE 77, which is not there"},
    {"kernel_wrong_address", {1, 2}, kMistake, "nvshmem: a kernel used address @ for PE 0"},
    // Ends.
    {"asked_to_end", {1, 2, 3}, 5},
    {"no_finalize", {1, 2}, 9},
    {"in_barrier", {2, 4}, kKilled, "has ended, which this waits for"},
    {"in_barrier_on_stream", {2, 4}, kKilled, "has ended, which this waits for"},
    {"in_malloc", {2}, kKilled, "PE 0: nvshmem_malloc: PE 1 has ended, which this waits for"},
    // GPUs that fail.
    {"launches_fail",
     {1, 2},
     kMistake,
     "PE 0: nvshmemx_barrier_all_on_stream: failed: out of memory"},
    {"lost", {1, 2}, kMistake, "PE 0: nvshmem_int_p: the GPU does no more for this process"},
    {"no_memory", {1, 3}, kMistake, ": GPU 0: allocate "},
    {"apart",
     {2, 3},
     kMistake,
     "PE 1: the memory of PE 0: GPU 1: ",
     {{"PENSTOCK_GPUS_OF_NODES", "0"}}},
    {"carried", {2, 3}, 0, "GPUs without access to each other's memory: PE 0 and PE "},
    // Over nodes.
    {"pageable_over_nodes", {2, 3}, 0, "", {{"PENSTOCK_JOB_NODES", "2"}}},
    {"registered_over_nodes", {2, 4}, 0, "", {{"PENSTOCK_JOB_NODES", "2"}}},
    {"kernel_not_reached",
     {2},
     kMistake,
     "what goes to or from PE 1 of another node stands at address @, which this PE's GPU does not",
     {{"PENSTOCK_JOB_NODES", "2"}}},
    {"over_nodes", {2, 3, 4}, 0, "", {{"PENSTOCK_JOB_NODES", "2"}}},
};

INSTANTIATE_TEST_SUITE_P(All, ProgramTest, testing::ValuesIn(kStories),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace penstock::nvshmem
