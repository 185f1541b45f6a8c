#include "rig.h"

#include <set>

namespace penstock::arena {
namespace {

class Host final : public SlabHost {
 public:
  uint32_t slab_made(MutableBytes memory) override {
    EXPECT_TRUE(slabs.emplace(++last, memory.data()).second);
    return last;
  }
  void slab_gone(uint32_t number, MutableBytes memory) override {
    EXPECT_EQ(slabs.erase({number, memory.data()}), 1u);
  }
  std::set<std::pair<uint32_t, std::byte*>> slabs;
  uint32_t last = 0;
};

class Arenas : public testing::Test {
 protected:
  void SetUp() override { arena = std::move(*Arena::make({4 * kSlab, kSlab, &host})); }
  std::shared_ptr<Segment> enter(uint32_t uid) { return *arena->enter({uid, uid, {}}); }
  uint32_t grow(const std::shared_ptr<Segment>& segment, uint32_t slabs) {
    uint32_t grown = 0;
    while (grown < slabs && arena->grow(segment).ok()) ++grown;
    return grown;
  }

  Host host;
  std::unique_ptr<Arena> arena;
};

TEST_F(Arenas, give_one_segment_to_each_class) {
  const auto one = *arena->enter({1, 2, {3, 4}});
  EXPECT_EQ(*arena->enter({1, 2, {3, 4}}), one);
  std::set<Segment*> others = {one.get()};
  for (const ReaderClass& readers : std::vector<ReaderClass>{
           {1, 2, {3}}, {1, 2, {}}, {1, 2, {3, 4, 5}}, {2, 2, {3, 4}}, {1, 1, {3, 4}}}) {
    EXPECT_TRUE(others.insert(arena->enter(readers)->get()).second);
  }
}

TEST_F(Arenas, keep_to_the_budget) {
  const auto one = enter(1), two = enter(2);
  EXPECT_EQ(grow(one, 3), 3u);
  EXPECT_EQ(grow(two, 9), 1u);
  EXPECT_EQ(host.slabs.size(), 4u);
  EXPECT_EQ(arena->grow(one), Code::no_space) << "a class with sessions keeps its slabs";
}

TEST_F(Arenas, take_slabs_back_from_the_class_without_sessions_that_left_first) {
  const auto stays = enter(1);
  auto first = enter(2), second = enter(3);
  ASSERT_EQ(grow(first, 2), 2u);
  ASSERT_EQ(grow(second, 2), 2u);
  arena->leave(second);
  arena->leave(first);
  second.reset();
  ASSERT_EQ(grow(stays, 1), 1u);
  EXPECT_EQ(host.slabs.size(), 3u) << "all of one class";
  EXPECT_EQ(arena->segments().size(), 2u);
  EXPECT_EQ(enter(2), first) << "it had not to go";
  EXPECT_EQ(grow(stays, 9), 1u);
  EXPECT_EQ(host.slabs.size(), 4u);
}

TEST_F(Arenas, do_not_take_memory_that_is_being_filled) {
  const auto stays = enter(1);
  auto leaves = enter(2);
  ASSERT_EQ(grow(leaves, 4), 4u);
  Segment::Fill fill;
  ASSERT_EQ(leaves->begin_fill(extent_of(1, 1), 0, true, &fill), Segment::Start::begun);
  arena->leave(leaves);
  EXPECT_EQ(grow(stays, 1), 0u);
  leaves->abandon(fill);
  EXPECT_EQ(grow(stays, 1), 1u);
  EXPECT_EQ(leaves->begin_fill(extent_of(1, 1), 0, true, &fill), Segment::Start::closed);
  EXPECT_EQ(arena->grow(leaves), Code::no_space);
}

// As a thread does that has looked for the segments just before.
TEST_F(Arenas, bear_changes_and_cleaning_of_a_segment_that_was_taken_back) {
  const auto stays = enter(1);
  auto leaves = enter(2);
  ASSERT_EQ(grow(leaves, 4), 4u);
  for (const uint32_t number : {0u, 1u, 100u}) {
    Segment::Fill fill;
    ASSERT_EQ(leaves->begin_fill(extent_of(1, number), 0, true, &fill), Segment::Start::begun);
    ASSERT_TRUE(leaves->publish(fill, number == 100 ? 10 : kExtentBytes, {}));
  }
  leaves->invalidate(InodeId(1), 0, 1);
  arena->leave(leaves);
  ASSERT_EQ(grow(stays, 1), 1u);
  leaves->invalidate(InodeId(1), kExtentBytes, 1);
  leaves->remove_inode(InodeId(1));
  EXPECT_FALSE(leaves->clean());
  EXPECT_FALSE(leaves->holds(InodeId(1)));
  EXPECT_TRUE(leaves->take_released().empty());
}

TEST_F(Arenas, refuse_a_budget_without_room_for_a_slab) {
  EXPECT_FALSE(Arena::make({kSlab - 1, kSlab, nullptr}));
  EXPECT_FALSE(Arena::make({0, kSlab, nullptr}));
  EXPECT_FALSE(Arena::make({kSlab, 3 * uint64_t{kExtentBytes}, nullptr}));
  EXPECT_FALSE(Arena::make({2 * kTiB, kSlab, nullptr}));
}

}  // namespace
}  // namespace penstock::arena
