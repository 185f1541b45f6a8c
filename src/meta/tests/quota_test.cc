// Quotas: what counts where, and what is refused.
#include "fixture.h"

#include <thread>

#include "penstock/meta_records.h"

namespace penstock::meta {
namespace {

constexpr uint64_t kBlock = kQuotaBlockBytes;

class QuotaTest : public MetaTest {
 protected:
  QuotaSubject on(InodeId directory) { return QuotaSubject::of_directory(directory); }
  void set(QuotaSubject subject, QuotaLimits limits) {
    ASSERT_EQ(meta_->set_quota(subject, limits, "/somewhere").code(), Code::ok);
  }
  // What is counted; what a count finds must be the same.
  QuotaUsage used(QuotaSubject subject) {
    const auto check = meta_->check_quota(subject, false);
    EXPECT_TRUE(check.has_value());
    if (!check) return {};
    EXPECT_EQ(check->found, check->quota.used);
    const auto all = meta_->quotas({}, SIZE_MAX);
    for (const Quota& quota : *all) {
      if (quota.subject == subject) {
        EXPECT_EQ(quota.used, check->found);
      }
    }
    return check->found;
  }
  void settle(InodeId inode, uint64_t length, bool end = false) {
    ASSERT_TRUE(meta_
                    ->settle(inode,
                             {.length = length, .modified = FileTime(1, 0), .end_session = end},
                             false)
                    .ok());
  }
  Status rename(InodeId from, const std::string& name, InodeId to, const std::string& new_name) {
    return meta_->rename(root_, from, name, to, new_name, {}, nullptr);
  }
  Code create(InodeId parent, const std::string& name, const Credentials& who = {}) {
    return code_of(meta_->create(who, parent, name, 0644, true));
  }
  template <class T>
  static Code code_of(const Result<T>& result) {
    return result ? Code::ok : result.error().code();
  }
};

TEST_F(QuotaTest, counts_what_is_made_below_and_not_the_directory_itself) {
  const InodeId top = directory(kRootInode, "q");
  const InodeId before = file(top, "before");
  settle(before, 5000);
  set(on(top), {});
  EXPECT_EQ(used(on(top)), (QuotaUsage{2 * kBlock, 1}));
  const InodeId below = directory(top, "below");
  file(below, "a");
  EXPECT_EQ(used(on(top)), (QuotaUsage{4 * kBlock, 3}));
  settle(before, 100);
  EXPECT_EQ(used(on(top)), (QuotaUsage{3 * kBlock, 3}));
  file(kRootInode, "outside");
  EXPECT_EQ(used(on(top)), (QuotaUsage{3 * kBlock, 3}));
  ASSERT_TRUE(meta_->unlink(root_, below, "a", nullptr).ok());
  ASSERT_TRUE(meta_->remove_directory(root_, top, "below", nullptr).ok());
  EXPECT_EQ(used(on(top)), (QuotaUsage{kBlock, 1}));
}

TEST_F(QuotaTest, refuses_to_make_more_inodes_than_the_limit_also_for_root) {
  const InodeId top = directory(kRootInode, "q");
  set(on(top), {.inodes = 2});
  EXPECT_EQ(create(top, "a"), Code::ok);
  EXPECT_EQ(code_of(meta_->make_directory(root_, top, "b", 0755)), Code::ok);
  EXPECT_EQ(create(top, "c"), Code::over_quota);
  EXPECT_EQ(code_of(meta_->make_symlink(root_, top, "c", "x")), Code::over_quota);
  EXPECT_EQ(code_of(meta_->make_node(root_, top, "c", FileType::fifo, 0644, 0)), Code::over_quota);
  EXPECT_EQ(list(top), (std::vector<std::string>{"a", "b"}));
  ASSERT_TRUE(meta_->unlink(root_, top, "a", nullptr).ok());
  EXPECT_EQ(create(top, "c"), Code::ok);
}

TEST_F(QuotaTest, refuses_bytes_where_they_are_asked_for_and_counts_what_was_written) {
  const InodeId top = directory(kRootInode, "q");
  set(on(top), {.bytes = 10 * kBlock});
  const InodeId a = file(top, "a");
  SetAttributes changes;
  changes.length = 11 * kBlock;
  EXPECT_EQ(code_of(meta_->set_attributes(root_, a, changes)), Code::over_quota);
  changes.length = 10 * kBlock;
  EXPECT_EQ(code_of(meta_->set_attributes(root_, a, changes)), Code::ok);
  EXPECT_EQ(create(top, "b"), Code::over_quota);
  settle(a, 20 * kBlock);
  EXPECT_EQ(used(on(top)).bytes, 20 * kBlock);
  changes.length = 15 * kBlock;  // less, though still too much
  EXPECT_EQ(code_of(meta_->set_attributes(root_, a, changes)), Code::ok);
}

TEST_F(QuotaTest, of_a_user_counts_owners_and_refuses_chown) {
  set(QuotaSubject::of_user(100), {.inodes = 2});
  const InodeId open = directory(kRootInode, "open", 0777);
  const InodeId a = file(open, "a", 0644, alice_);
  EXPECT_EQ(create(open, "b", alice_), Code::ok);
  EXPECT_EQ(create(open, "c", alice_), Code::over_quota);
  const InodeId bobs = file(open, "bobs", 0644, bob_);
  SetAttributes changes;
  changes.uid = 100;
  EXPECT_EQ(code_of(meta_->set_attributes(root_, bobs, changes)), Code::over_quota);
  changes.uid = 200;
  EXPECT_EQ(code_of(meta_->set_attributes(root_, a, changes)), Code::ok);
  EXPECT_EQ(used(QuotaSubject::of_user(100)).inodes, 1U);
  EXPECT_EQ(meta_->set_quota(QuotaSubject::of_user(0), {}, "").code(), Code::invalid_argument);
}

TEST_F(QuotaTest, all_that_lie_around_a_name_bind) {
  const InodeId outer = directory(kRootInode, "outer");
  const InodeId inner = directory(outer, "inner");
  set(on(outer), {.inodes = 3});
  set(on(inner), {.inodes = 5});
  EXPECT_EQ(create(inner, "a"), Code::ok);
  EXPECT_EQ(create(inner, "b"), Code::ok);
  EXPECT_EQ(create(inner, "c"), Code::over_quota);
  EXPECT_EQ(used(on(outer)).inodes, 3U);
  EXPECT_EQ(used(on(inner)).inodes, 2U);
}

TEST_F(QuotaTest, renames_across_the_border_move_what_is_counted) {
  const InodeId top = directory(kRootInode, "q");
  const InodeId tree = directory(kRootInode, "tree");
  const InodeId below = directory(tree, "below");
  settle(file(below, "a"), 3 * kBlock);
  file(tree, "b");
  set(on(top), {.inodes = 3});
  EXPECT_EQ(rename(kRootInode, "tree", top, "tree").code(), Code::over_quota);
  set(on(top), {.inodes = 4});
  ASSERT_EQ(rename(kRootInode, "tree", top, "tree").code(), Code::ok);
  EXPECT_EQ(used(on(top)), (QuotaUsage{6 * kBlock, 4}));
  EXPECT_EQ(create(below, "c"), Code::over_quota);
  ASSERT_EQ(rename(top, "tree", kRootInode, "back").code(), Code::ok);
  EXPECT_EQ(used(on(top)), (QuotaUsage{0, 0}));
  EXPECT_EQ(create(below, "c"), Code::ok);
  EXPECT_EQ(used(on(top)), (QuotaUsage{0, 0}));
  ASSERT_EQ(rename(below, "a", top, "a").code(), Code::ok);
  EXPECT_EQ(used(on(top)), (QuotaUsage{3 * kBlock, 1}));
}

TEST_F(QuotaTest, a_file_with_several_names_counts_where_one_of_them_is) {
  const InodeId top = directory(kRootInode, "q");
  const InodeId outside = directory(kRootInode, "outside");
  set(on(top), {});
  const InodeId a = file(top, "a");
  ASSERT_TRUE(meta_->link(root_, a, outside, "b").has_value());
  ASSERT_TRUE(meta_->link(root_, a, top, "c").has_value());
  EXPECT_EQ(used(on(top)).inodes, 1U);
  ASSERT_TRUE(meta_->unlink(root_, top, "a", nullptr).ok());
  EXPECT_EQ(used(on(top)).inodes, 1U);
  ASSERT_TRUE(meta_->unlink(root_, top, "c", nullptr).ok());
  EXPECT_EQ(used(on(top)).inodes, 0U);
  // Its only name comes back.
  ASSERT_EQ(rename(outside, "b", top, "b").code(), Code::ok);
  EXPECT_EQ(used(on(top)).inodes, 1U);
  ASSERT_TRUE(meta_->unlink(root_, top, "b", nullptr).ok());
  EXPECT_EQ(used(on(top)).inodes, 0U);
}

TEST_F(QuotaTest, files_of_an_older_format_are_counted_when_a_quota_is_set) {
  const InodeId top = directory(kRootInode, "q");
  const InodeId a = file(top, "a");
  const Keys keys("");
  ASSERT_TRUE(storage_->kv()
                  .run(engine::KvMode::write,
                       [&](engine::KvTransaction& transaction) -> Status {
                         auto inode = decode_inode(a, **transaction.get(keys.inode(a)));
                         inode->parent = {};
                         transaction.put(keys.inode(a), encode(*inode));
                         return {};
                       })
                  .ok());
  set(on(top), {.inodes = 1});
  EXPECT_EQ(used(on(top)).inodes, 1U);
  EXPECT_EQ(create(top, "b"), Code::over_quota);
  ASSERT_TRUE(meta_->unlink(root_, top, "a", nullptr).ok());
  EXPECT_EQ(used(on(top)).inodes, 0U);
}

TEST_F(QuotaTest, is_found_again_after_a_restart) {
  const InodeId top = directory(kRootInode, "q");
  set(on(top), {.bytes = 3 * kBlock, .inodes = 2});
  file(top, "a");
  file(top, "b");
  meta_.reset();
  reopen();
  EXPECT_EQ(used(on(top)), (QuotaUsage{2 * kBlock, 2}));
  EXPECT_EQ(create(top, "c"), Code::over_quota);
  ASSERT_TRUE(meta_->delete_quota(on(top)).ok());
  EXPECT_EQ(create(top, "c"), Code::ok);
  EXPECT_EQ(meta_->delete_quota(on(top)).code(), Code::not_found);
  EXPECT_TRUE(meta_->quotas({}, 10)->empty());
  set(on(top), {});
  EXPECT_EQ(used(on(top)).inodes, 3U);
}

TEST_F(QuotaTest, a_check_finds_and_repairs_what_is_wrong) {
  const InodeId top = directory(kRootInode, "q");
  set(on(top), {});
  file(top, "a");
  const Keys keys("");
  ASSERT_TRUE(storage_->kv()
                  .run(engine::KvMode::write,
                       [&](engine::KvTransaction& transaction) -> Status {
                         transaction.put(keys.usage(on(top), 0), encode(UsageRecord{-999, 7}));
                         return {};
                       })
                  .ok());
  const auto wrong = meta_->check_quota(on(top), false);
  ASSERT_TRUE(wrong.has_value());
  EXPECT_EQ(wrong->quota.used.inodes, 8U);
  EXPECT_EQ(wrong->found.inodes, 1U);
  ASSERT_TRUE(meta_->check_quota(on(top), true).has_value());
  EXPECT_EQ(used(on(top)), (QuotaUsage{kBlock, 1}));
}

TEST_F(QuotaTest, promises_count_until_the_session_ends) {
  const InodeId top = directory(kRootInode, "q");
  set(on(top), {.bytes = 1000 * kBlock});
  const InodeId a = file(top, "a");
  const InodeId b = file(top, "b");
  for (const InodeId one : {a, b}) ASSERT_TRUE(meta_->begin_write(one).has_value());
  const auto first = meta_->reserve(a, 500 * kBlock);
  ASSERT_TRUE(first.has_value());
  EXPECT_GE(*first, 500 * kBlock);
  EXPECT_LT(*first, 600 * kBlock);
  EXPECT_EQ(code_of(meta_->reserve(b, 500 * kBlock)), Code::over_quota);
  EXPECT_EQ(code_of(meta_->reserve(a, 600 * kBlock)), Code::ok);
  settle(a, 100 * kBlock);  // the rest is promised still
  EXPECT_EQ(code_of(meta_->reserve(b, 500 * kBlock)), Code::over_quota);
  settle(a, 100 * kBlock, true);
  EXPECT_EQ(code_of(meta_->reserve(b, 500 * kBlock)), Code::ok);
  ASSERT_TRUE(meta_->begin_write(a).has_value());
  EXPECT_EQ(code_of(meta_->reserve(a, 800 * kBlock)), Code::over_quota);
  ASSERT_TRUE(meta_->end_write(b).ok());
  EXPECT_EQ(code_of(meta_->reserve(a, 900 * kBlock)), Code::ok);
  ASSERT_TRUE(meta_->end_write(a).ok());
  // Late, as a net may bring it.
  EXPECT_EQ(*meta_->reserve(a, 900 * kBlock), 900 * kBlock);
  EXPECT_EQ((*meta_->quotas({}, 10))[0].promised, 0U);
  // All of it, to the last block.
  EXPECT_EQ(code_of(meta_->reserve(a, 999 * kBlock)), Code::ok);
  EXPECT_EQ(code_of(meta_->reserve(a, 999 * kBlock + 1)), Code::over_quota);
}

TEST_F(QuotaTest, what_is_promised_pays_for_a_length_that_is_set) {
  const InodeId top = directory(kRootInode, "q");
  set(on(top), {.bytes = 100 * kBlock});
  const InodeId a = file(top, "a");
  ASSERT_TRUE(meta_->begin_write(a).has_value());
  EXPECT_EQ(code_of(meta_->reserve(a, 100 * kBlock)), Code::ok);
  // It was written to its end, and cut, before its length was settled.
  SetAttributes changes;
  changes.length = 50 * kBlock;
  EXPECT_EQ(code_of(meta_->set_attributes(root_, a, changes)), Code::ok);
  EXPECT_EQ((*meta_->quotas({}, 10))[0].promised, 50 * kBlock);
  changes.length = 101 * kBlock;
  EXPECT_EQ(code_of(meta_->set_attributes(root_, a, changes)), Code::over_quota);
  settle(a, 60 * kBlock, true);
  EXPECT_EQ(used(on(top)).bytes, 60 * kBlock);
  EXPECT_EQ((*meta_->quotas({}, 10))[0].promised, 0U);
}

TEST_F(QuotaTest, a_file_without_a_name_is_promised_bytes_and_counts_when_it_gets_one) {
  const InodeId top = directory(kRootInode, "q");
  set(on(top), {.bytes = 10 * kBlock, .inodes = 1});
  const auto id = meta_->unused_id();
  ASSERT_TRUE(meta_->create_unnamed(root_, top, 0644, *id).has_value());
  EXPECT_EQ(used(on(top)).inodes, 0U);
  EXPECT_EQ(code_of(meta_->reserve(*id, 11 * kBlock)), Code::over_quota);
  EXPECT_EQ(code_of(meta_->reserve(*id, 10 * kBlock)), Code::ok);
  settle(*id, 10 * kBlock, true);
  ASSERT_TRUE(meta_->link(root_, *id, top, "a").has_value());
  EXPECT_EQ(used(on(top)), (QuotaUsage{10 * kBlock, 1}));
}

TEST_F(QuotaTest, of_many_files_each_is_refused_alone) {
  const InodeId top = directory(kRootInode, "q");
  set(on(top), {.inodes = 2});
  std::vector<WantedPlace> wanted{{"/q/a"}, {"/q/b"}, {"/q/c"}};
  const auto places = meta_->place_files(root_, wanted);
  std::vector<CompleteFile> files;
  for (const auto& place : *places) files.push_back({*place, 0644, 5000, {}, false});
  std::vector<Result<MadeFile>> made;
  ASSERT_TRUE(meta_->create_files(root_, files, &made).ok());
  EXPECT_TRUE(made[0].has_value() && made[1].has_value());
  EXPECT_EQ(code_of(made[2]), Code::over_quota);
  EXPECT_EQ(used(on(top)), (QuotaUsage{4 * kBlock, 2}));
}

TEST_F(QuotaTest, least_is_told_for_a_directory) {
  const InodeId outer = directory(kRootInode, "outer");
  const InodeId inner = directory(outer, "inner");
  EXPECT_FALSE(meta_->quota_of(inner)->has_value());
  set(on(outer), {.bytes = 10 * kBlock});
  set(on(inner), {.bytes = 100 * kBlock});
  EXPECT_EQ((*meta_->quota_of(inner))->subject, on(outer));
  EXPECT_EQ((*meta_->quota_of(outer))->limits.bytes, 10 * kBlock);
  EXPECT_FALSE(meta_->quota_of(kRootInode)->has_value());
}

TEST_F(QuotaTest, is_right_beside_threads_that_change_and_set_it) {
  const InodeId top = directory(kRootInode, "q");
  const InodeId outside = directory(kRootInode, "outside");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const std::string mine = std::to_string(t);
      const auto own = meta_->make_directory(root_, outside, mine, 0755);
      for (int i = 0; i < 200; ++i) {
        const std::string name = mine + "." + std::to_string(i);
        const auto made = meta_->create(root_, i % 3 == 0 ? own->inode : top, name, 0644, true);
        ASSERT_TRUE(made.has_value());
        if (i % 5 == 0) settle(made->inode, static_cast<uint64_t>(i) * 1000);
        if (i % 7 == 6) {
          const auto& from = i % 3 == 0 ? own->inode : top;
          EXPECT_TRUE(meta_->unlink(root_, from, name, nullptr).ok());
        }
        if (i % 40 == 20) {
          EXPECT_EQ(rename(outside, mine, top, mine).code(), Code::ok);
        }
        if (i % 40 == 39) {
          EXPECT_EQ(rename(top, mine, outside, mine).code(), Code::ok);
        }
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    if (i % 5 == 4) {
      EXPECT_TRUE(meta_->delete_quota(on(top)).ok());
    }
    set(on(top), {});
    // At one moment what is counted is what there is.
    const auto check = meta_->check_quota(on(top), i % 2 == 0);
    ASSERT_TRUE(check.has_value());
    EXPECT_EQ(check->quota.used, check->found);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(used(on(top)).inodes, 100U);
}

TEST_F(QuotaTest, is_never_passed_by_threads_that_create) {
  const InodeId top = directory(kRootInode, "q");
  set(on(top), {.inodes = 100});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const std::string name = std::to_string(t) + "." + std::to_string(i);
        const Code code = create(top, name);
        EXPECT_TRUE(code == Code::ok || code == Code::over_quota);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(used(on(top)).inodes, 100U);
}

}  // namespace
}  // namespace penstock::meta
