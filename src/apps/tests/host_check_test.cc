#include "check/host_check.h"

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "penstock/testing.h"

namespace penstock::apps {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// A machine as its files tell of it.
class HostCheckTest : public testing::Test {
 protected:
  HostCheckTest() {
    options_.root = machine_ / "";
    options_.directory = testing::TempDir();
    options_.ask_gpus = false;
    set("proc/sys/kernel/osrelease", "6.1.0-18-amd64");
    set("proc/sys/kernel/io_uring_disabled", "0");
    set("proc/sys/vm/max_map_count", "262144");
    set("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never");
    set("dev/fuse", "");
  }

  void set(const std::string& path, const std::string& content) const {
    fs::create_directories(fs::path(options_.root + path).parent_path());
    std::ofstream(options_.root + path) << content << "\n";
  }
  static Finding find(const std::vector<Finding>& all, const std::string& what) {
    for (const Finding& one : all) {
      if (one.what.starts_with(what)) return one;
    }
    ADD_FAILURE() << "nothing found of " << what;
    return {};
  }

  const test::ScratchDirectory machine_;
  HostCheckOptions options_;
};

TEST_F(HostCheckTest, a_good_machine_has_nothing_to_mend_in_its_kernel) {
  for (const Finding& one : check_kernel(options_)) {
    if (one.what == "io_uring") continue;  // of the machine that runs this
    EXPECT_EQ(one.verdict, Verdict::good) << one.what << ": " << one.found;
    EXPECT_EQ(one.mend, "") << one.what;
  }
}

TEST_F(HostCheckTest, what_is_wrong_is_told_with_the_command_that_mends_it) {
  set("proc/sys/kernel/osrelease", "5.4.0");
  set("proc/sys/kernel/io_uring_disabled", "2");
  set("proc/sys/vm/max_map_count", "1000");
  set("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]");
  fs::remove(options_.root + "dev/fuse");
  const auto all = check_host(options_);
  EXPECT_FALSE(is_well(all));
  const std::vector<std::pair<const char*, const char*>> mends = {
      {"release", "apt-get install linux-image-amd64"},
      {"io_uring", "sysctl -w kernel.io_uring_disabled=0"},
      {"mappings", "sysctl -w vm.max_map_count="},
      {"/dev/fuse", "modprobe fuse"},
  };
  for (const auto& [what, mend] : mends) {
    EXPECT_EQ(find(all, what).verdict, Verdict::bad) << what;
    EXPECT_THAT(find(all, what).mend, HasSubstr(mend));
    EXPECT_THAT(text_of(all), HasSubstr(mend));
  }
  EXPECT_EQ(find(all, "huge pages").verdict, Verdict::note);
  EXPECT_FALSE(json_of(all)["well"].get<bool>());
  EXPECT_EQ(json_of(all)["findings"].size(), all.size());
}

TEST_F(HostCheckTest, a_switch_that_binds_ordinary_users_only_is_fine_for_root) {
  set("proc/sys/kernel/io_uring_disabled", "1");
  EXPECT_EQ(find(check_kernel(options_), "io_uring").verdict, Verdict::bad);
  set("etc/fuse.conf", "# nothing");
  EXPECT_EQ(find(check_mounting(options_), "user_allow_other").verdict, Verdict::note);
  set("etc/fuse.conf", "  user_allow_other");
  EXPECT_EQ(find(check_mounting(options_), "user_allow_other").verdict, Verdict::good);
  options_.is_root = true;
  set("etc/fuse.conf", "# nothing");
  EXPECT_EQ(find(check_mounting(options_), "user_allow_other").verdict, Verdict::good);
  EXPECT_THAT(find(check_kernel(options_), "io_uring").found,
              testing::Not(HasSubstr("io_uring_disabled")));
}

TEST_F(HostCheckTest, a_place_that_is_not_there_is_bad) {
  options_.directory = options_.root + "nowhere";
  const Finding finding = find(check_disk(options_), "O_DIRECT");
  EXPECT_EQ(finding.verdict, Verdict::bad);
  EXPECT_THAT(finding.mend, HasSubstr("mkdir -p"));
}

TEST_F(HostCheckTest, how_gpus_are_shared_is_told) {
  ::unsetenv("CUDA_MPS_PIPE_DIRECTORY");
  EXPECT_THAT(find(check_gpu_sharing(options_), "driver").found, HasSubstr("no NVIDIA driver"));
  fs::create_directories(options_.root + "proc/driver/nvidia");
  EXPECT_THAT(find(check_gpu_sharing(options_), "sharing").found, HasSubstr("turns of 2.4 ms"));
  EXPECT_THAT(find(check_gpu_sharing(options_), "sharing").mend,
              HasSubstr("nvidia-cuda-mps-control"));
  set("tmp/nvidia-mps/control", "");
  EXPECT_THAT(find(check_gpu_sharing(options_), "sharing").found, HasSubstr("MPS"));
  fs::create_directories(options_.root + "proc/driver/nvidia/capabilities/gpu0/mig/gi1");
  EXPECT_THAT(find(check_gpu_sharing(options_), "sharing").found, HasSubstr("MIG"));
}

}  // namespace
}  // namespace penstock::apps
