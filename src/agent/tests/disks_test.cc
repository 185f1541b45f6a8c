#include "disks.h"

#include <filesystem>
#include <gtest/gtest.h>

#include "penstock/cluster.h"
#include "penstock/testing.h"

namespace penstock::agent {
namespace {

namespace fs = std::filesystem;

class Disks : public testing::Test {
 protected:
  const test::ScratchDirectory scratch_;
  const std::string directory_ = scratch_.path();
  const std::string path_ = scratch_ / "disk";
};

TEST_F(Disks, are_listed_by_their_numbers) {
  EXPECT_TRUE(read_disks(directory_)->empty());
  const controller::Uuid one = cluster::random_uuid(), two = cluster::random_uuid();
  ASSERT_TRUE(list_disk(directory_, {10, "/mnt/b c", two}));
  ASSERT_TRUE(list_disk(directory_, {2, "/mnt/a", one}));
  const auto disks = read_disks(directory_);
  ASSERT_TRUE(disks);
  ASSERT_EQ(disks->size(), 2U);
  EXPECT_EQ((*disks)[0].number, 2U);
  EXPECT_EQ((*disks)[0].path, "/mnt/a");
  EXPECT_EQ((*disks)[0].target, one);
  EXPECT_EQ((*disks)[1].number, 10U);
  EXPECT_EQ((*disks)[1].path, "/mnt/b c");
  EXPECT_FALSE((*disks)[1].is_made);
}

TEST_F(Disks, one_that_was_taken_off_keeps_its_number_and_its_target) {
  const controller::Uuid target = cluster::random_uuid();
  Disk disk{.number = 3, .path = "/mnt/a", .target = target};
  ASSERT_TRUE(list_disk(directory_, disk));
  EXPECT_FALSE(read_disks(directory_)->front().is_taken_off);
  disk.is_taken_off = true;
  ASSERT_TRUE(list_disk(directory_, disk));
  const auto disks = read_disks(directory_);
  ASSERT_TRUE(disks);
  ASSERT_EQ(disks->size(), 1U);
  EXPECT_TRUE(disks->front().is_taken_off);
  EXPECT_EQ(disks->front().number, 3U);
  EXPECT_EQ(disks->front().target, target);
}

TEST_F(Disks, a_damaged_list_is_told_with_the_name_of_the_file) {
  ASSERT_TRUE(list_disk(directory_, {0, "/mnt/a", cluster::random_uuid()}));
  const std::string file = directory_ + "/disks/0";
  const std::string good = test::read_file(file);
  for (const char* word : {"penstock-disk ", "target ", "path "}) {
    std::string bad = good;
    bad.insert(bad.find(word) + std::string(word).size(), "x");
    test::write_file(file, bad);
    const auto disks = read_disks(directory_);
    ASSERT_FALSE(disks) << bad;
    EXPECT_EQ(disks.error().status, Code::corrupt);
    EXPECT_NE(disks.error().message.find(file), std::string::npos);
  }
  test::write_file(file, "penstock-disk 3\n");
  EXPECT_EQ(read_disks(directory_).error().status, Code::wrong_version);
  test::write_file(file, good);
  fs::rename(file, directory_ + "/disks/300");
  EXPECT_EQ(read_disks(directory_).error().status, Code::corrupt);
}

TEST_F(Disks, are_made_where_nothing_is) {
  ASSERT_TRUE(begin_making_disk(path_));
  EXPECT_TRUE(fs::is_directory(path_ + "/data") && fs::is_directory(path_ + "/kv"));
  finish_making_disk(path_);
  EXPECT_FALSE(fs::exists(path_ + "/penstock.making"));
  // It is one now.
  const auto again = begin_making_disk(path_);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().status, Code::not_empty);
}

TEST_F(Disks, what_a_killed_process_left_is_made_anew) {
  fs::create_directories(path_ + "/lost+found");
  ASSERT_TRUE(begin_making_disk(path_));
  test::write_file(path_ + "/data/rest", "rest");
  test::write_file(path_ + "/identity", "rest");
  ASSERT_TRUE(begin_making_disk(path_));
  EXPECT_FALSE(fs::exists(path_ + "/data/rest") || fs::exists(path_ + "/identity"));
  undo_making_disk(path_);
  EXPECT_FALSE(fs::exists(path_ + "/data") || fs::exists(path_ + "/penstock.making"));
  EXPECT_TRUE(fs::exists(path_ + "/lost+found"));
}

TEST_F(Disks, nothing_of_others_is_touched) {
  fs::create_directories(path_ + "/kv");
  const auto made = begin_making_disk(path_);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().status, Code::not_empty);
  EXPECT_FALSE(fs::exists(path_ + "/data"));
  test::write_file(scratch_ / "file", "");
  EXPECT_FALSE(begin_making_disk(scratch_ / "file"));
  EXPECT_FALSE(begin_making_disk(scratch_ / "none/below"));
}

}  // namespace
}  // namespace penstock::agent
