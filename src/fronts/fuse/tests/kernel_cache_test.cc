// When the kernel is told what, and when whoever made a change may go on.
#include "../kernel_cache.h"

#include "../limits.h"

#include <atomic>
#include <chrono>
#include <future>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

#include "penstock/testing.h"

namespace penstock::fuse {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr InodeId kFile{77};
// Nobody waits for it, but for the test of just that.
constexpr std::chrono::hours kDeadline{1};
constexpr std::chrono::milliseconds kShortDeadline{20};

class FakeSource final : public ChangeSource {
 public:
  void add(client::Observer&) override {}
  void remove(client::Observer&) override {}
  void watch(InodeId inode, client::Observer&) override {
    std::lock_guard lock(mutex_);
    watched_.insert(inode);
  }
  void unwatch(InodeId inode, client::Observer&) override {
    std::lock_guard lock(mutex_);
    watched_.erase(inode);
  }
  bool watches(InodeId inode) {
    std::lock_guard lock(mutex_);
    return watched_.contains(inode);
  }

 private:
  std::mutex mutex_;
  std::set<InodeId> watched_;
};

// Writes down what the kernel is told; while `blocks`, telling it does not return.
class FakeKernel final : public KernelNotifier {
 public:
  int drop_inode(InodeId inode, int64_t offset, int64_t length) override {
    return note(fmt::format("inode {} {} {}", inode.value, offset, length));
  }
  int drop_entry(InodeId parent, const std::string& name) override {
    return note(fmt::format("entry {} {}", parent.value, name));
  }
  std::vector<std::string> told() {
    std::lock_guard lock(mutex_);
    return told_;
  }
  void block(bool blocks) {
    std::lock_guard lock(mutex_);
    blocks_ = blocks;
    changed_.notify_all();
  }
  // Waits until the kernel is being told something that does not return.
  void wait_stuck() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stuck_; });
  }

 private:
  int note(std::string what) {
    std::unique_lock lock(mutex_);
    told_.push_back(std::move(what));
    stuck_ = blocks_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !blocks_; });
    stuck_ = false;
    return 0;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> told_;
  bool blocks_ = false;
  bool stuck_ = false;
};

class KernelCacheTest : public ::testing::Test {
 protected:
  explicit KernelCacheTest(std::chrono::milliseconds deadline = kDeadline)
      : cache_(source_, kernel_, {deadline, std::chrono::hours(1)}) {}
  ~KernelCacheTest() override {
    kernel_.block(false);
    cache_.end_telling();
  }
  void know(InodeId inode) {
    cache_.begin_entry(inode);
    cache_.end_entry(inode, true);
  }
  // A change; the future is ready when its maker may go on.
  std::future<void> change(InodeId inode, uint64_t offset, uint64_t length) {
    auto promise = std::make_shared<std::promise<void>>();
    std::future<void> future = promise->get_future();
    cache_.data_changed(inode, offset, length, [promise] { promise->set_value(); });
    return future;
  }
  static bool ready(const std::future<void>& future) {
    return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  static bool becomes_ready(const std::future<void>& future) {
    return future.wait_for(test::kPatience) == std::future_status::ready;
  }

  FakeSource source_;
  FakeKernel kernel_;
  KernelCache cache_;
};

TEST_F(KernelCacheTest, a_change_of_what_the_kernel_does_not_know_waits_for_nothing) {
  EXPECT_TRUE(ready(change(kFile, 0, 10)));
  EXPECT_THAT(kernel_.told(), IsEmpty());
}

TEST_F(KernelCacheTest, a_change_of_what_the_kernel_knows_waits_until_it_was_told) {
  know(kFile);
  kernel_.block(true);
  const auto changed = change(kFile, 100, 20);
  kernel_.wait_stuck();
  EXPECT_FALSE(ready(changed));
  kernel_.block(false);
  ASSERT_TRUE(becomes_ready(changed));
  EXPECT_THAT(kernel_.told(), ElementsAre("inode 77 100 20"));
}

TEST_F(KernelCacheTest, attributes_alone_keep_the_pages) {
  know(kFile);
  ASSERT_TRUE(becomes_ready(change(kFile, 0, 0)));
  EXPECT_THAT(kernel_.told(), ElementsAre("inode 77 -1 0"));
}

TEST_F(KernelCacheTest, a_range_to_the_end_of_all_files_does_not_overflow) {
  know(kFile);
  ASSERT_TRUE(becomes_ready(change(kFile, 4096, UINT64_MAX)));
  EXPECT_THAT(kernel_.told(), ElementsAre(fmt::format("inode 77 4096 {}", INT64_MAX - 4096)));
}

TEST_F(KernelCacheTest, changes_that_wait_are_told_as_one) {
  know(kFile);
  know(InodeId{78});
  kernel_.block(true);
  const auto first = change(InodeId{78}, 0, 1);
  kernel_.wait_stuck();
  const auto a = change(kFile, 1000, 10);
  const auto b = change(kFile, 50, 10);
  const auto c = change(kFile, 0, 0);
  kernel_.block(false);
  ASSERT_TRUE(becomes_ready(a) && becomes_ready(b) && becomes_ready(c) && becomes_ready(first));
  EXPECT_THAT(kernel_.told(), ElementsAre("inode 78 0 1", "inode 77 50 960"));
}

TEST_F(KernelCacheTest, a_change_during_the_telling_is_told_again) {
  know(kFile);
  kernel_.block(true);
  const auto first = change(kFile, 0, 10);
  kernel_.wait_stuck();
  const auto second = change(kFile, 0, 10);
  kernel_.block(false);
  ASSERT_TRUE(becomes_ready(first) && becomes_ready(second));
  EXPECT_THAT(kernel_.told(), ElementsAre("inode 77 0 10", "inode 77 0 10"));
}

TEST_F(KernelCacheTest, a_change_is_held_back_while_a_reply_is_under_way) {
  // The kernel does not know the inode yet: told now, it would keep the attributes of the reply.
  EXPECT_TRUE(cache_.begin_entry(kFile));
  EXPECT_TRUE(source_.watches(kFile));
  const auto changed = change(kFile, 0, 10);
  EXPECT_FALSE(ready(changed));
  EXPECT_THAT(kernel_.told(), IsEmpty());
  cache_.end_entry(kFile, true);
  ASSERT_TRUE(becomes_ready(changed));
  EXPECT_THAT(kernel_.told(), ElementsAre("inode 77 0 10"));
  EXPECT_FALSE(cache_.begin_entry(kFile)) << "watched already";
  cache_.end_entry(kFile, false);
}

TEST_F(KernelCacheTest, a_change_that_waits_is_held_back_by_a_reply_that_begins) {
  know(kFile);
  know(InodeId{78});
  kernel_.block(true);
  const auto first = change(InodeId{78}, 0, 1);
  kernel_.wait_stuck();
  const auto held = change(kFile, 0, 10);
  cache_.begin_entry(kFile);
  kernel_.block(false);
  ASSERT_TRUE(becomes_ready(first));
  // Told after it in the queue, so the one in between has been looked at.
  ASSERT_TRUE(becomes_ready(change(InodeId{78}, 2, 3)));
  EXPECT_THAT(kernel_.told(), ElementsAre("inode 78 0 1", "inode 78 2 3"));
  cache_.end_entry(kFile, true);
  ASSERT_TRUE(becomes_ready(held));
  EXPECT_EQ(kernel_.told().back(), "inode 77 0 10");
}

TEST_F(KernelCacheTest, a_reply_that_was_not_delivered_leaves_nothing) {
  cache_.begin_entry(kFile);
  cache_.end_entry(kFile, false);
  EXPECT_FALSE(source_.watches(kFile));
  EXPECT_TRUE(ready(change(kFile, 0, 10)));
}

TEST_F(KernelCacheTest, an_inode_is_watched_until_the_last_reference_is_given_back) {
  know(kFile);
  know(kFile);
  cache_.forget(kFile, 1);
  EXPECT_TRUE(source_.watches(kFile));
  cache_.forget(kFile, 1);
  EXPECT_FALSE(source_.watches(kFile));
  cache_.forget(kFile, 1);  // more than were given: nothing to give back
  EXPECT_TRUE(ready(change(kFile, 0, 10)));
  cache_.forget(meta::kRootInode, 5);
  EXPECT_TRUE(source_.watches(meta::kRootInode));
}

TEST_F(KernelCacheTest, a_file_that_only_others_use_needs_no_telling_after_a_while) {
  know(kFile);
  for (int i = 0; i < 100; i++) ASSERT_TRUE(becomes_ready(change(kFile, 0, 10)));
  const auto told = kernel_.told();
  ASSERT_LT(told.size(), 100u);
  EXPECT_EQ(told.back(), "inode 77 0 0") << "everything must have been dropped before";
  EXPECT_FALSE(source_.watches(kFile));
  // Until the kernel asks for it again.
  cache_.touch(kFile);
  EXPECT_TRUE(source_.watches(kFile));
  ASSERT_TRUE(becomes_ready(change(kFile, 5, 10)));
  EXPECT_EQ(kernel_.told().back(), "inode 77 5 10");
}

TEST_F(KernelCacheTest, a_change_while_everything_is_being_dropped_waits_for_that) {
  know(kFile);
  int changes = 0;
  while (kernel_.told().empty() || kernel_.told().back() != "inode 77 0 0") {
    ASSERT_LT(changes++, 100);
    ASSERT_TRUE(becomes_ready(change(kFile, 0, 10)));
  }
  cache_.touch(kFile);
  for (int i = 1; i < changes; i++) ASSERT_TRUE(becomes_ready(change(kFile, 0, 10)));
  kernel_.block(true);
  const auto dropping = change(kFile, 0, 10);
  kernel_.wait_stuck();
  ASSERT_EQ(kernel_.told().back(), "inode 77 0 0");
  const auto meanwhile = change(kFile, 500, 10);
  EXPECT_FALSE(ready(meanwhile));
  kernel_.block(false);
  ASSERT_TRUE(becomes_ready(dropping) && becomes_ready(meanwhile));
}

TEST_F(KernelCacheTest, whoever_changes_a_name_goes_on_when_the_kernel_was_told) {
  cache_.entry_changed(kFile, "unknown");
  know(kFile);
  cache_.entry_changed(kFile, "known");
  EXPECT_THAT(kernel_.told(), ElementsAre("entry 77 known", "inode 77 -1 0"));
}

class ShortKernelCacheTest : public KernelCacheTest {
 protected:
  ShortKernelCacheTest() : KernelCacheTest(kShortDeadline) {}
};

TEST_F(ShortKernelCacheTest, nobody_waits_for_a_stuck_kernel_for_ever) {
  know(kFile);
  kernel_.block(true);
  const auto stuck = change(kFile, 0, 10);
  kernel_.wait_stuck();
  const auto behind = change(kFile, 0, 10);
  ASSERT_TRUE(becomes_ready(stuck));
  ASSERT_TRUE(becomes_ready(behind));
  cache_.entry_changed(meta::kRootInode, "name");  // returns although the kernel is stuck
  // It is told nevertheless, when it can be; whoever made the change may be let go before that.
  kernel_.block(false);
  know(InodeId{79});
  ASSERT_TRUE(becomes_ready(change(InodeId{79}, 0, 1)));
  EXPECT_TRUE(test::eventually([this] { return kernel_.told().size() >= 5; }));
  EXPECT_THAT(kernel_.told(), ElementsAre("inode 77 0 10", "inode 77 0 10", "entry 1 name",
                                          "inode 1 -1 0", "inode 79 0 1"));
}

TEST_F(KernelCacheTest, ending_lets_everybody_go) {
  cache_.begin_entry(kFile);
  const auto held = change(kFile, 0, 10);
  cache_.end_telling();
  EXPECT_TRUE(becomes_ready(held));
  EXPECT_TRUE(ready(change(kFile, 0, 10)));
  cache_.end_entry(kFile, true);
}

TEST_F(KernelCacheTest, every_maker_goes_on_exactly_once_under_load) {
  constexpr int kThreads = 4;
  constexpr int kChanges = 3000;
  std::atomic<int> released{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; t++) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kChanges; i++) {
        const InodeId inode{static_cast<uint64_t>(100 + (i + t) % 7)};
        switch (i % 5) {
          case 0:
            know(inode);
            break;
          case 1:
            cache_.forget(inode, 1);
            break;
          case 2:
            cache_.touch(inode);
            break;
          default:
            break;
        }
        cache_.data_changed(inode, static_cast<uint64_t>(i), 1, [&] { released++; });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  cache_.end_telling();
  EXPECT_EQ(released.load(), kThreads * kChanges);
}

}  // namespace
}  // namespace penstock::fuse
