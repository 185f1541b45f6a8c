// What others do to quotas between the body of a transaction and its commit.
#include <atomic>
#include <gtest/gtest.h>
#include <thread>

#include "penstock/testing_meta.h"

namespace penstock::meta {
namespace {

// Calls `midway` once, after the next body.
class MidwayKv final : public engine::Kv {
 public:
  explicit MidwayKv(engine::Kv& kv) : kv_(kv) {}

  std::function<void()> midway;

  void submit(engine::KvOp& op) override { kv_.submit(op); }
  using engine::Kv::run;
  Status run(engine::KvOp& op) override {
    return kv_.run(op.mode, [&](engine::KvTransaction& transaction) -> Status {
      TRY(op.body(transaction));
      if (const auto now = std::exchange(midway, nullptr)) now();
      return {};
    });
  }
  Status sync() override { return kv_.sync(); }

 private:
  engine::Kv& kv_;
};

class QuotaRace : public testing::Test {
 protected:
  QuotaRace() {
    meta_ = open_meta(kv_, clock_);
    q_ = meta_->make_directory({}, kRootInode, "q", 0755)->inode;
    tree_ = meta_->make_directory({}, kRootInode, "tree", 0755)->inode;
  }
  void set(QuotaLimits limits) { ASSERT_TRUE(meta_->set_quota(subject(), limits, "/q").ok()); }
  QuotaSubject subject() const { return QuotaSubject::of_directory(q_); }
  void expect_right(uint64_t inodes) {
    const auto check = meta_->check_quota(subject(), false);
    ASSERT_TRUE(check.has_value());
    EXPECT_EQ(check->quota.used, check->found);
    EXPECT_EQ(check->found.inodes, inodes);
    EXPECT_EQ((*meta_->quotas({}, 1))[0].used, check->found);
  }
  // Does it in a thread, and waits until it is done, or can be taken to wait.
  void begin(const std::function<void()>& what) {
    const auto is_done = std::make_shared<std::atomic<bool>>(false);
    thread_ = std::thread([what, is_done] {
      what();
      *is_done = true;
    });
    for (int i = 0; i < 100 && !*is_done; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  TickingClock clock_;
  RocksDbStorage storage_;
  MidwayKv kv_{storage_.kv()};
  std::unique_ptr<Meta> meta_;
  InodeId q_, tree_;
  std::thread thread_;
};

TEST_F(QuotaRace, what_may_commit_counts_for_others) {
  set({.inodes = 1});
  Result<Attributes> other = Code::ok;
  kv_.midway = [&] { std::thread([&] { other = meta_->create({}, q_, "b", 0644, true); }).join(); };
  EXPECT_TRUE(meta_->create({}, q_, "a", 0644, true).has_value());
  ASSERT_FALSE(other.has_value());
  EXPECT_EQ(other.error(), Code::over_quota);
  expect_right(1);
}

TEST_F(QuotaRace, a_tree_that_moves_is_counted_with_what_is_made_in_it_meanwhile) {
  // Below it: a rename changes the record of the directory itself, with which a create conflicts.
  const InodeId below = meta_->make_directory({}, tree_, "below", 0755)->inode;
  set({});
  // From here on the way up is remembered, and not read.
  EXPECT_TRUE(meta_->create({}, below, "before", 0644, true).has_value());
  kv_.midway = [&] {
    begin(
        [&] { EXPECT_TRUE(meta_->rename({}, kRootInode, "tree", q_, "tree", {}, nullptr).ok()); });
  };
  EXPECT_TRUE(meta_->create({}, below, "a", 0644, true).has_value());
  thread_.join();
  expect_right(4);
}

TEST_F(QuotaRace, a_quota_that_is_set_counts_what_is_being_made) {
  kv_.midway = [&] { begin([&] { set({.inodes = 2}); }); };
  EXPECT_TRUE(meta_->create({}, q_, "a", 0644, true).has_value());
  thread_.join();
  EXPECT_TRUE(meta_->create({}, q_, "b", 0644, true).has_value());
  const auto over = meta_->create({}, q_, "c", 0644, true);
  ASSERT_FALSE(over.has_value());
  EXPECT_EQ(over.error(), Code::over_quota);
  expect_right(2);
}

}  // namespace
}  // namespace penstock::meta
