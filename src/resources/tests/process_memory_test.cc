#include "penstock/resources/process_memory.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

#include "penstock/resources/accounts.h"
#include "penstock/testing.h"

namespace penstock::resources {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVersion2 =
    "30 23 0:27 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";

// A machine of files, of which the limits are read.
class MadeUpMachine : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(at(path)).parent_path());
    std::ofstream(at(path)) << text;
  }
  void set_up(const std::string& groups, const std::string& mounts) const {
    write("/proc/self/cgroup", groups);
    write("/proc/self/mountinfo", mounts);
  }
  std::string at(const std::string& path) const { return directory_.path() + path; }
  ProcessLimit memory() const { return memory_of_process(directory_.path()); }
  void expect(uint64_t bytes, const std::string& by) const {
    const ProcessLimit limit = memory();
    EXPECT_EQ(limit.amount, bytes);
    EXPECT_EQ(limit.by, by);
  }
  void expect_no_group() const { EXPECT_EQ(memory().by, "the machine"); }

  test::ScratchDirectory directory_;
};

TEST_F(MadeUpMachine, without_groups_has_all_its_memory) {
  const ProcessLimit limit = memory();
  EXPECT_EQ(limit.by, "the machine");
  EXPECT_GT(limit.amount, 64 * kMiB);
}

TEST_F(MadeUpMachine, bounds_a_process_by_each_group_above_it) {
  set_up("0::/system.slice/node.service/agent\n", kVersion2);
  const std::string base = "/sys/fs/cgroup/system.slice";
  write(base + "/node.service/agent/memory.max", "max\n");
  write(base + "/node.service/agent/memory.high", "max\n");
  expect_no_group();
  write(base + "/node.service/memory.max", "3000\n");
  expect(3000, base + "/node.service/memory.max");
  write(base + "/memory.max", "2000\n");
  expect(2000, base + "/memory.max");
  write("/sys/fs/cgroup/memory.max", "1000\n");
  expect(1000, "/sys/fs/cgroup/memory.max");
  write(base + "/node.service/agent/memory.high", "500\n");
  expect(500, base + "/node.service/agent/memory.high");
}

TEST_F(MadeUpMachine, of_version_1_bounds_a_process_by_each_group_above_it) {
  set_up("9:pids:/a/b\n4:cpu,memory:/a/b\n1:name=systemd:/a/b\n0::/a/b\n",
         "33 31 0:30 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
         "35 31 0:32 / /sys/fs/cgroup/memory rw shared:5 - cgroup cgroup rw,cpu,memory\n");
  write("/sys/fs/cgroup/pids/a/b/memory.limit_in_bytes", "1\n");
  write("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
  expect_no_group();
  write("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "4000\n");
  expect(4000, "/sys/fs/cgroup/memory/a/memory.limit_in_bytes");
}

// A container sees its own group at the mount point, and is told its path from the machine's root.
TEST_F(MadeUpMachine, that_is_a_container_has_its_groups_where_they_are_mounted) {
  set_up("0::/docker/1f2e/init\n",
         "30 23 0:27 /docker/1f2e /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
  write("/sys/fs/cgroup/init/memory.max", "max\n");
  write("/sys/fs/cgroup/memory.max", "5000\n");
  write("/sys/fs/cgroup/docker/1f2e/init/memory.max", "1\n");
  expect(5000, "/sys/fs/cgroup/memory.max");
}

TEST_F(MadeUpMachine, believes_no_group_that_the_process_is_not_in) {
  const std::string line = "30 23 0:27 /docker/other /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
  write("/sys/fs/cgroup/memory.max", "5000\n");
  write("/sys/fs/cgroup/init/memory.max", "5000\n");
  for (const char* own : {"0::/docker/own\n", "0::/docker/other2\n", "0::/\n", "0::/init\n"}) {
    set_up(own, line);
    expect_no_group();
  }
}

TEST_F(MadeUpMachine, follows_no_path_out_of_what_is_mounted) {
  set_up("0::/../other\n", kVersion2);
  write("/sys/fs/cgroup/memory.max", "max\n");
  write("/sys/fs/other/memory.max", "7000\n");
  expect_no_group();
}

TEST_F(MadeUpMachine, does_not_believe_what_another_mount_put_in_the_place_of_groups) {
  const std::string hidden = "31 30 0:40 / /sys/fs/cgroup/a rw - tmpfs tmpfs rw\n";
  set_up("0::/a/b\n", kVersion2 + hidden);
  write("/sys/fs/cgroup/a/b/memory.max", "1\n");
  write("/sys/fs/cgroup/a/memory.max", "1\n");
  expect_no_group();
  write("/sys/fs/cgroup/memory.max", "8000\n");
  expect(8000, "/sys/fs/cgroup/memory.max");
  const std::string foreign = "32 30 0:27 /foreign /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
  set_up("0::/a/b\n", kVersion2 + foreign);
  expect_no_group();
}

TEST_F(MadeUpMachine, finds_groups_whose_names_are_escaped_in_the_table_of_mounts) {
  set_up("0::/a\\x2db c/own\n",
         "30 23 0:27 /a\\134x2db\\040c /sys/fs/my\\040groups ro - cgroup2 cgroup rw\n");
  write("/sys/fs/my groups/own/memory.max", "6000\n");
  expect(6000, "/sys/fs/my groups/own/memory.max");
}

TEST_F(MadeUpMachine, tells_how_many_mappings_a_process_may_have) {
  EXPECT_EQ(mappings_of_process(directory_.path()).amount, 65530u) << "the kernel's default";
  write("/proc/sys/vm/max_map_count", "1048576\n");
  EXPECT_EQ(mappings_of_process(directory_.path()).amount, 1048576u);
}

TEST(Bounds, follow_what_the_process_may_use) {
  const auto of = [](uint64_t memory, uint64_t mappings, Resource resource) {
    return bounds_within(memory, mappings)[static_cast<size_t>(resource)];
  };
  EXPECT_EQ(of(64 * kGiB, 65530, Resource::heap_bytes).all, 8 * kGiB);
  EXPECT_EQ(of(1 * kGiB, 65530, Resource::heap_bytes).all, 256 * kMiB);
  EXPECT_EQ(of(512 * kMiB, 65530, Resource::heap_bytes).all, 128 * kMiB);
  EXPECT_EQ(of(512 * kMiB, 65530, Resource::pinned_bytes).all, 256 * kMiB);
  const Bounds mappings = of(1 * kGiB, 65530, Resource::mappings);
  EXPECT_EQ(mappings.all, 65530u - 8192u) << "the rest is the node's own";
  EXPECT_LT(mappings.user, mappings.users);
  EXPECT_LT(mappings.users, mappings.all) << "root finds some";
  EXPECT_EQ(of(1 * kGiB, 1000, Resource::mappings).all, 500u);
}

TEST(ProcessMemory, is_what_a_group_above_the_own_one_allows) {
  constexpr uint64_t kAllowed = 256 * kMiB;
  const test::MemoryGroup outer(kAllowed);
  if (!outer.is_there()) GTEST_SKIP() << "groups cannot be made here";
  const ProcessLimit before = memory_of_process();
  if (before.amount <= kAllowed) GTEST_SKIP() << "this process has too little itself";
  const std::string inner = outer.path() + "/inner";
  ASSERT_TRUE(fs::create_directory(inner));
  const int result = test::in_child([&] {
    test::MemoryGroup::enter(inner);
    const ProcessLimit limit = memory_of_process();
    return limit.amount == kAllowed && limit.by == outer.limit() ? 0 : 1;
  });
  EXPECT_EQ(result, 0) << outer.limit();
  EXPECT_TRUE(fs::remove(inner));
}

}  // namespace
}  // namespace penstock::resources
