#include "handle_table.h"

#include <gtest/gtest.h>
#include <thread>

namespace penstock::cufile {
namespace {

struct Counted {
  explicit Counted(std::atomic<int>& counter) : alive(counter) { ++alive; }
  ~Counted() { --alive; }
  std::atomic<int>& alive;
};

TEST(HandleTable, handles_are_found_until_they_are_removed_and_never_again) {
  std::atomic<int> alive{0};
  HandleTable<Counted> table(2);
  void* const first = table.add(std::make_unique<Counted>(alive));
  void* const second = table.add(std::make_unique<Counted>(alive));
  EXPECT_EQ(table.add(std::make_unique<Counted>(alive)), nullptr);
  EXPECT_EQ(alive, 2);
  EXPECT_TRUE(table.find(first));
  EXPECT_TRUE(table.remove(first));
  EXPECT_FALSE(table.remove(first));
  EXPECT_FALSE(table.find(first));
  void* const third = table.add(std::make_unique<Counted>(alive));
  EXPECT_NE(third, first);
  EXPECT_FALSE(table.find(first));
  EXPECT_TRUE(table.find(second));
  EXPECT_FALSE(table.find(nullptr));
  EXPECT_FALSE(table.find(reinterpret_cast<void*>(uintptr_t{1})));
  EXPECT_FALSE(table.find(reinterpret_cast<void*>(UINTPTR_MAX)));
}

TEST(HandleTable, an_object_that_is_used_outlives_its_removal) {
  std::atomic<int> alive{0};
  HandleTable<Counted> table(2);
  void* const handle = table.add(std::make_unique<Counted>(alive));
  {
    const auto use = table.find(handle);
    EXPECT_TRUE(table.remove(handle));
    EXPECT_EQ(alive, 1);
  }
  EXPECT_EQ(alive, 0);
}

TEST(HandleTable, threads_use_and_remove_side_by_side) {
  std::atomic<int> alive{0};
  HandleTable<Counted> table(4);
  std::vector<std::thread> threads;
  std::atomic<void*> shared{nullptr};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 3000; ++i) {
        if (t == 0) {
          void* const made = table.add(std::make_unique<Counted>(alive));
          if (void* const old = shared.exchange(made)) table.remove(old);
        } else if (const auto use = table.find(shared.load())) {
          ASSERT_GT(use->alive, 0);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  table.clear();
  EXPECT_EQ(alive, 0);
}

}  // namespace
}  // namespace penstock::cufile
