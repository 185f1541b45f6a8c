#include "penstock/front/mount_table.h"

#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <unistd.h>

#include "penstock/base.h"
#include "penstock/testing.h"

namespace penstock::front {
namespace {

TEST(MountTable, only_our_types_are_ours) {
  EXPECT_TRUE(is_our_type("fuse.penstock"));
  EXPECT_TRUE(is_our_type("fuse.hf3fs"));
  EXPECT_FALSE(is_our_type("fuse"));
  EXPECT_FALSE(is_our_type("fuse.penstock2"));
  EXPECT_FALSE(is_our_type("ext4"));
}

class CanonicalPath : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(root_ / "real");
    std::filesystem::create_symlink("real", root_ / "link");
    before_ = std::filesystem::current_path();
  }
  void TearDown() override { std::filesystem::current_path(before_); }

  const test::ScratchDirectory scratch_;
  const std::filesystem::path root_ = scratch_.path();
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
  EXPECT_FALSE(mount_of_descriptor(fd.get()));
  EXPECT_FALSE(mount_of_descriptor(-1));
  EXPECT_FALSE(mount_of_descriptor(1'000'000));
}

}  // namespace
}  // namespace penstock::front
