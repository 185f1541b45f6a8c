#include "mount_table.h"

#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "penstock/base.h"

namespace penstock::usrbio {
namespace {

MountEntry mount(std::string point, std::string type, unsigned minor_number) {
  return {std::move(point), std::move(type), makedev(0, minor_number)};
}

TEST(MountTable, line_is_parsed_when_it_has_optional_words) {
  const auto entry = parse_mount_line(
      "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 shared:7 - fuse.penstock /store rw,user_id=0");
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->mount_point, "/mnt2");
  EXPECT_EQ(entry->type, "fuse.penstock");
  EXPECT_EQ(entry->device, makedev(98, 0));
}

TEST(MountTable, line_is_parsed_when_it_has_no_optional_words) {
  const auto entry = parse_mount_line("25 1 0:51 / /mnt/a rw - fuse.hf3fs none rw");
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->mount_point, "/mnt/a");
  EXPECT_EQ(entry->type, "fuse.hf3fs");
}

TEST(MountTable, line_is_refused_when_it_is_something_else) {
  for (const char* line : {"", " ", "36 35", "36 35 980 / /mnt rw - ext4 x rw",
                           "36 35 9x:0 / /mnt rw - ext4 x rw", "36 35 9:0 / mnt rw - ext4 x rw",
                           "36 35 9:0 / /mnt rw master:1", "36 35 9: / /mnt rw - ext4 x rw"}) {
    EXPECT_FALSE(parse_mount_line(line)) << line;
  }
}

TEST(MountTable, escapes_become_their_bytes) {
  EXPECT_EQ(unescape_octal("/a\\040b\\011c\\134d"), "/a b\tc\\d");
  EXPECT_EQ(unescape_octal("\\04"), "\\04");
  EXPECT_EQ(unescape_octal("\\999x"), "\\999x");
  EXPECT_EQ(unescape_octal(""), "");
  EXPECT_EQ(unescape_octal("\\303\\244"), "\xc3\xa4");
}

TEST(MountTable, longest_mount_point_wins_by_whole_components) {
  const std::vector<MountEntry> mounts = {mount("/", "ext4", 1), mount("/mnt", "fuse.penstock", 2),
                                          mount("/mnt/inner", "tmpfs", 3)};
  EXPECT_EQ(mount_of_path(mounts, "/mnt/a/b")->mount_point, "/mnt");
  EXPECT_EQ(mount_of_path(mounts, "/mnt")->mount_point, "/mnt");
  EXPECT_EQ(mount_of_path(mounts, "/mnt/inner/x")->mount_point, "/mnt/inner");
  EXPECT_EQ(mount_of_path(mounts, "/mnt/innermost")->mount_point, "/mnt");
  EXPECT_EQ(mount_of_path(mounts, "/mntx")->mount_point, "/");
  EXPECT_EQ(mount_of_path({mount("/a", "ext4", 1)}, "/b"), nullptr);
}

TEST(MountTable, latest_mount_wins_when_one_hides_another) {
  const std::vector<MountEntry> mounts = {mount("/mnt", "fuse.penstock", 2),
                                          mount("/mnt", "tmpfs", 3)};
  EXPECT_EQ(mount_of_path(mounts, "/mnt/a")->type, "tmpfs");
  EXPECT_EQ(mount_of_device(mounts, makedev(0, 2))->type, "fuse.penstock");
  EXPECT_EQ(mount_of_device(mounts, makedev(0, 9)), nullptr);
}

TEST(MountTable, only_our_types_are_ours) {
  EXPECT_TRUE(is_our_type("fuse.penstock"));
  EXPECT_TRUE(is_our_type("fuse.hf3fs"));
  EXPECT_FALSE(is_our_type("fuse"));
  EXPECT_FALSE(is_our_type("fuse.penstock2"));
  EXPECT_FALSE(is_our_type("ext4"));
}

TEST(MountTable, kernel_tells_of_the_root) {
  EXPECT_NE(mount_of_path(read_mounts(), "/"), nullptr);
}

class CanonicalPath : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/penstock-usrbio-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    root_ = std::filesystem::canonical(name);
    std::filesystem::create_directory(root_ / "real");
    std::filesystem::create_symlink("real", root_ / "link");
    before_ = std::filesystem::current_path();
  }
  void TearDown() override {
    std::filesystem::current_path(before_);
    std::filesystem::remove_all(root_);
  }

  std::filesystem::path root_;
  std::filesystem::path before_;
};

TEST_F(CanonicalPath, links_and_dots_are_resolved) {
  EXPECT_EQ(canonical_path((root_ / "link/./../link").string()), root_ / "real");
  EXPECT_EQ(canonical_path("/"), "/");
  EXPECT_EQ(canonical_path((root_ / "real/").string()), root_ / "real");
}

TEST_F(CanonicalPath, last_components_need_not_exist) {
  EXPECT_EQ(canonical_path((root_ / "link/no/such//file").string()), root_ / "real/no/such/file");
  EXPECT_EQ(canonical_path((root_ / "link/no/../file/").string()), root_ / "real/file");
  EXPECT_EQ(canonical_path("/no-such-name-here"), "/no-such-name-here");
  EXPECT_EQ(canonical_path("/no-such-name-here/../../.."), "/");
}

TEST_F(CanonicalPath, relative_paths_start_at_the_working_directory) {
  std::filesystem::current_path(root_);
  EXPECT_EQ(canonical_path("link"), root_ / "real");
  EXPECT_EQ(canonical_path("missing"), root_ / "missing");
  EXPECT_EQ(canonical_path("link/missing"), root_ / "real/missing");
  EXPECT_EQ(canonical_path("."), root_);
  EXPECT_EQ(canonical_path(".."), root_.parent_path());
}

TEST_F(CanonicalPath, nothing_comes_of_no_path) {
  EXPECT_EQ(canonical_path(""), "");
  EXPECT_EQ(canonical_path(std::string(100'000, 'x')), "");
  EXPECT_EQ(canonical_path(std::string_view("/a\0b", 4)), "");
}

TEST_F(CanonicalPath, a_mount_of_another_kind_is_not_ours) {
  EXPECT_FALSE(mount_point_of(root_.string()));
  EXPECT_FALSE(mount_point_of(""));
  const UniqueFd fd(::open(root_.c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_FALSE(device_of_descriptor(fd.get()));
  EXPECT_FALSE(device_of_descriptor(-1));
  EXPECT_FALSE(device_of_descriptor(1'000'000));
}

}  // namespace
}  // namespace penstock::usrbio
