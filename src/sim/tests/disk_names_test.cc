// The contract of engine::Disk, held by the real disks and by the simulated one alike: names.
#include "disk_conformance.h"

#include <gtest/gtest.h>

namespace penstock::sim {
namespace {

class DiskNames : public DiskConformance {};

TEST_P(DiskNames, read_only_files_are_not_written) {
  disk().close(create("data"));
  auto opened = disk().open(path("data"), {.read_only = true});
  ASSERT_TRUE(opened.has_value());
  const Status refused = Code::access_denied;
  EXPECT_EQ(write(*opened, 0, 4096), refused);
  EXPECT_EQ(change(DiskOpKind::allocate, *opened, 0, 4096), refused);
  EXPECT_EQ(change(DiskOpKind::discard, *opened, 0, 4096), refused);
  disk().close(*opened);
}

TEST_P(DiskNames, open_says_what_it_could_not_open) {
  const auto missing = disk().open(path("missing"), {});
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().status, Status(Code::not_found));
  EXPECT_NE(missing.error().message.find(path("missing")), std::string::npos);
  EXPECT_EQ(disk().open(path("none/file"), {.create = true}).error().status,
            Status(Code::not_found));
  EXPECT_EQ(disk().open(bench_->root(), {.read_only = true}).error().status,
            Status(Code::is_directory));
}

TEST_P(DiskNames, removed_files_live_while_they_are_open) {
  const DiskFile file = create("data");
  fill(0, 4096, 8);
  ASSERT_TRUE(write(file, 0, 4096).ok());
  ASSERT_TRUE(disk().remove(path("data")).ok());
  EXPECT_EQ(disk().remove(path("data")), Status(Code::not_found));
  uint64_t transferred = 0;
  ASSERT_TRUE(read(file, 0, 4096, kMiB, &transferred).ok());
  EXPECT_TRUE(same(0, kMiB, 4096));
  disk().close(file);
  EXPECT_EQ(disk().open(path("data"), {}).error().status, Status(Code::not_found));
}

TEST_P(DiskNames, directories_are_made_listed_and_told_apart) {
  ASSERT_TRUE(disk().make_directory(path("b")).ok());
  ASSERT_TRUE(disk().make_directory(path("b")).ok());
  disk().close(create("c"));
  disk().close(create("a"));
  disk().close(create("b/inside"));
  EXPECT_EQ(*disk().list(bench_->root()), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(*disk().list(path("b")), (std::vector<std::string>{"inside"}));
  EXPECT_EQ(disk().list(path("none")).error(), Status(Code::not_found));
  EXPECT_EQ(disk().list(path("a")).error(), Status(Code::not_directory));
  EXPECT_EQ(disk().make_directory(path("a")), Status(Code::not_directory));
  EXPECT_EQ(disk().make_directory(path("none/x")), Status(Code::not_found));
  EXPECT_EQ(disk().make_directory(path("a/x")), Status(Code::not_directory));
  EXPECT_EQ(disk().remove(path("b")), Status(Code::is_directory));
}

TEST_P(DiskNames, small_files_are_replaced_whole) {
  EXPECT_EQ(disk().read_file(path("label")).error(), Status(Code::not_found));
  ASSERT_TRUE(disk().replace_file(path("label"), "one").ok());
  EXPECT_EQ(*disk().read_file(path("label")), "one");
  ASSERT_TRUE(disk().replace_file(path("label"), "").ok());
  EXPECT_EQ(*disk().read_file(path("label")), "");
  const std::string large(kMiB, 'x');
  ASSERT_TRUE(disk().replace_file(path("label"), large).ok());
  EXPECT_EQ(*disk().read_file(path("label")), large);
  ASSERT_TRUE(disk().replace_file(path("label"), large + "x").ok());
  EXPECT_EQ(disk().read_file(path("label")).error(), Status(Code::too_large));
  // Nothing else is left over.
  EXPECT_EQ(*disk().list(bench_->root()), (std::vector<std::string>{"label"}));
  ASSERT_TRUE(disk().make_directory(path("dir")).ok());
  EXPECT_EQ(disk().replace_file(path("dir"), "x"), Status(Code::is_directory));
  EXPECT_EQ(disk().read_file(path("dir")).error(), Status(Code::is_directory));
  EXPECT_EQ(disk().replace_file(path("none/x"), "x"), Status(Code::not_found));
  EXPECT_EQ(*disk().list(bench_->root()), (std::vector<std::string>{"dir", "label"}));
}

TEST_P(DiskNames, a_directory_has_one_lock) {
  auto lock = disk().lock_directory(bench_->root());
  ASSERT_TRUE(lock.has_value());
  auto second = disk().lock_directory(bench_->root());
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error(), Status(Code::in_use));
  lock->reset();
  EXPECT_TRUE(disk().lock_directory(bench_->root()).has_value());
  EXPECT_EQ(disk().lock_directory(path("none")).error(), Status(Code::not_found));
  EXPECT_TRUE(disk().list(bench_->root())->empty());
}

TEST_P(DiskNames, space_shrinks_with_what_is_allocated) {
  auto before = disk().space(bench_->root());
  ASSERT_TRUE(before.has_value());
  EXPECT_LE(before->free_bytes, before->total_bytes);
  EXPECT_GT(before->free_bytes, 0u);
  EXPECT_EQ(disk().space(path("none")).error(), Status(Code::not_found));
}

INSTANTIATE_TEST_SUITE_P(All, DiskNames, testing::ValuesIn(disk_kinds()),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace penstock::sim
