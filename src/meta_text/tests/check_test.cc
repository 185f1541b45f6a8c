// A namespace that is consistent, and each thing that can be wrong with one.
#include "../limits.h"
#include "fixture.h"

#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::meta_text {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

class StringProblems final : public Problems {
 public:
  void begin() override { all.clear(); }
  void add(const std::string& problem) override { all.push_back(problem); }
  std::vector<std::string> all;
};

class CheckTest : public TextTest {
 protected:
  CheckCounts check_it(engine::Kv& kv) {
    engine::SeededRandom random(++seed_);
    const auto counts = check(kv, random, problems_);
    EXPECT_TRUE(counts.has_value()) << counts.error().message;
    if (!counts) return {};
    EXPECT_EQ(counts->problems, problems_.all.size());
    return *counts;
  }

  StringProblems problems_;
  uint64_t seed_ = 0;
};

TEST_F(CheckTest, finds_nothing_wrong_when_nothing_is) {
  check_it(*kv_);
  EXPECT_THAT(problems_.all, IsEmpty());
  make_one_of_everything();
  const CheckCounts wanted = {.inodes = 10,
                              .directories = 4,
                              .entries = 7,
                              .xattrs = 5,
                              .sessions = 1,
                              .orphans = 3,
                              .problems = 0};
  const CheckCounts counts = check_it(*kv_);
  EXPECT_THAT(problems_.all, IsEmpty());
  EXPECT_EQ(counts, wanted) << counts.inodes << " " << counts.directories << " " << counts.entries
                            << " " << counts.xattrs << " " << counts.orphans;
  ASSERT_TRUE(meta_->close().ok());
  EXPECT_EQ(check_it(*kv_), wanted);
}

TEST_F(CheckTest, finds_nothing_wrong_with_a_trash) {
  make_one_of_everything();
  ASSERT_TRUE(meta_->set_trash(meta::kRootInode, 7, "/").ok());
  const meta::Credentials root;
  ASSERT_TRUE(meta_->make_directory(root, deeper_, "a", 0755).has_value());
  ASSERT_TRUE(meta_->remove_directory(root, deeper_, "a", nullptr).ok());
  ASSERT_TRUE(meta_->unlink(root, below_, "link", nullptr).ok());
  const CheckCounts counts = check_it(*kv_);
  EXPECT_THAT(problems_.all, IsEmpty());
  EXPECT_EQ(counts.directories, 4u + 3);
  EXPECT_EQ(counts.entries, 7u + 3);
}

TEST_F(CheckTest, keeps_few_records_at_a_time_however_many_there_are) {
  for (int i = 0; i < 3000; ++i) {
    ASSERT_TRUE(meta_->make_directory({}, meta::kRootInode, std::to_string(i), 0700).has_value());
  }
  WatchedKv watched(*kv_);
  EXPECT_EQ(check_it(watched).entries, 3000u);
  EXPECT_THAT(problems_.all, IsEmpty());
  EXPECT_LE(watched.scanned_most, kScanRecords);
}

TEST_F(CheckTest, refuses_what_is_no_namespace) {
  engine::SeededRandom random(1);
  put(*kv_, keys_.system(meta::kVersionName), std::nullopt);
  EXPECT_EQ(check(*kv_, random, problems_).error().status, Code::corrupt);
  put(*kv_, keys_.system(meta::kVersionName), meta::encode_number(meta::kFormatVersion + 1));
  EXPECT_EQ(check(*kv_, random, problems_).error().status.code(), Code::wrong_version);
}

// Each damage alone, and what is told of it, among other things perhaps.
TEST_F(CheckTest, tells_damage_of_every_record) {
  make_one_of_everything();
  const auto changed = [&](InodeId id, const std::function<void(meta::Inode&)>& change) {
    auto inode = *meta::decode_inode(id, *get(*kv_, keys_.inode(id)));
    change(inode);
    return meta::encode(inode);
  };
  const auto dentry = *meta::decode_dentry(*get(*kv_, keys_.dentry(below_, "file")));
  auto other = dentry;
  other.inode = deeper_;
  const InodeId nobody(3000);
  const std::string entry = meta::encode(meta::CookieEntry{"file", file_, {}});
  const std::string root_entry =
      meta::encode(meta::CookieEntry{"up", meta::kRootInode, meta::FileType::directory});
  struct Case {
    std::string key;
    std::optional<std::string> value;
    std::string told;
  };
  const std::string file = "inode " + std::to_string(file_.value) + ": ";
  const std::string deeper = "inode " + std::to_string(deeper_.value) + ": ";
  const Case cases[] = {
      {keys_.system(meta::kNextIdName), std::nullopt, "the next number is missing"},
      {keys_.system(meta::kNextIdName), "x", "the next number is missing, or none"},
      {keys_.system(meta::kNextIdName), meta::encode_number(file_.value), file + "beyond the next"},
      {keys_.system(meta::kInodesName), meta::encode_number(11), "says 11, and there are 10"},
      {keys_.inode(meta::kRootInode), std::nullopt, "there is no root"},
      {keys_.inode(file_), "junk", "not an inode"},
      {keys_.inode(file_), std::nullopt, "which there is not"},
      {keys_.inode(file_) + "x", "junk", "not an inode"},
      {keys_.inode(file_), changed(file_, [](auto& inode) { inode.attributes.links = 3; }),
       file + "has 2 names, and is to have 3"},
      {keys_.inode(file_), changed(file_, [](auto& inode) { inode.attributes.links = 0; }),
       file + "no links, and no mark"},
      {keys_.inode(file_), changed(file_, [](auto& inode) { inode.xattr_bytes = 7; }),
       file + "says 7 bytes"},
      {keys_.inode(file_),
       changed(file_, [](auto& inode) { inode.attributes.type = meta::FileType::fifo; }),
       "is of another type"},
      {keys_.inode(deeper_), changed(deeper_, [](auto& inode) { inode.parent = InodeId(1); }),
       "says that it is in directory 1"},
      {keys_.inode(deeper_), changed(deeper_, [](auto& inode) { inode.attributes.links = 3; }),
       deeper + "the directory says 3 links, and has 0"},
      {keys_.times(deeper_), std::nullopt, deeper + "a directory without times"},
      {keys_.times(deeper_), "x", deeper + "the directory's times are none"},
      {keys_.times(file_), *get(*kv_, keys_.times(deeper_)),
       file + "times of what is no directory"},
      {keys_.times(nobody), *get(*kv_, keys_.times(deeper_)), "belongs to no inode"},
      {keys_.orphan(file_), meta::encode_number(0), file + "has links, and a mark"},
      {keys_.orphan(nobody), meta::encode_number(0), "belongs to no inode"},
      {keys_.xattr(file_, "user.zz"), "v", file + "says "},
      {keys_.xattr(file_, "user.a"), std::nullopt, file + "says "},
      {keys_.xattr(nobody, "user.a"), "v", "belongs to no inode"},
      {keys_.xattr(file_, "user.a"), std::string(70'000, 'v'), "not an extended attribute"},
      {keys_.cookie(below_, dentry.cookie), std::nullopt, "is found by its name, and not listed"},
      {keys_.cookie(below_, dentry.cookie), "x", "not a directory entry"},
      {keys_.cookie(file_, dentry.cookie), entry, "has an entry, and is no directory"},
      {keys_.cookie(nobody, dentry.cookie), entry, "belongs to no inode"},
      {keys_.cookie(below_, 1030), root_entry, "names the root"},
      {keys_.cookie(below_, uint64_t{1} << 40), root_entry, "is beyond the next number"},
      {keys_.dentry(below_, "file"), std::nullopt, "is listed, and not found by its name"},
      {keys_.dentry(below_, "file"), meta::encode(other), "by its name it is inode"},
      {keys_.dentry(below_, "more"), meta::encode(dentry), "is found by its name, and not listed"},
      {keys_.dentry(nobody, "more"), meta::encode(dentry), "is found by its name, and not listed"},
      {keys_.dentry(below_, "file"), "x", "not a directory entry"},
      {keys_.write_session(file_), "x", "not a session"},
      {keys_.write_session(deeper_), meta::encode_number(5),
       deeper + "is open for writing, and is"},
      {keys_.write_session(nobody), meta::encode_number(5), "is open for writing, and is no file"},
      {keys_.write_session(file_), meta::encode_number(meta::kIdMax), "beyond the next"},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(meta::printable(each.key));
    const std::optional<std::string> before = get(*kv_, each.key);
    ASSERT_NE(before, each.value);
    put(*kv_, each.key, each.value);
    EXPECT_GT(check_it(*kv_).problems, 0u);
    EXPECT_THAT(problems_.all, Contains(HasSubstr(each.told)));
    put(*kv_, each.key, before);
  }
  check_it(*kv_);
  EXPECT_THAT(problems_.all, IsEmpty());
}

// Each record agrees with those beside it, and nothing leads to the root.
TEST_F(CheckTest, tells_of_directories_in_a_circle) {
  const InodeId above = meta_->make_directory({}, meta::kRootInode, "above", 0700)->inode;
  const InodeId inner = meta_->make_directory({}, above, "inner", 0700)->inode;
  const auto dentry = *meta::decode_dentry(*get(*kv_, keys_.dentry(meta::kRootInode, "above")));
  put(*kv_, keys_.dentry(meta::kRootInode, "above"), std::nullopt);
  put(*kv_, keys_.cookie(meta::kRootInode, dentry.cookie), std::nullopt);
  put(*kv_, keys_.dentry(inner, "above"), meta::encode(dentry));
  put(*kv_, keys_.cookie(inner, dentry.cookie),
      meta::encode(meta::CookieEntry{"above", above, meta::FileType::directory}));
  const auto rewrite = [&](InodeId id, const std::function<void(meta::Inode&)>& change) {
    auto inode = *meta::decode_inode(id, *get(*kv_, keys_.inode(id)));
    change(inode);
    put(*kv_, keys_.inode(id), meta::encode(inode));
  };
  rewrite(meta::kRootInode, [](meta::Inode& inode) { --inode.attributes.links; });
  rewrite(inner, [](meta::Inode& inode) { ++inode.attributes.links; });
  rewrite(above, [&](meta::Inode& inode) { inode.parent = inner; });
  check_it(*kv_);
  EXPECT_THAT(problems_.all,
              testing::ElementsAre(HasSubstr("2 directories do not lead to the root")));
}

}  // namespace
}  // namespace penstock::meta_text
