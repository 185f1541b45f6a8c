#include "rig.h"

#include <fcntl.h>
#include <sys/mman.h>

namespace penstock::arena {
namespace {

TEST(Segment, shows_an_extent_from_its_publication_to_its_change) {
  Rig rig(2);
  Segment::Fill fill;
  ASSERT_TRUE(rig.begin(extent_of(5, 3), &fill));
  EXPECT_FALSE(rig.has(extent_of(5, 3)));
  EXPECT_TRUE(rig.publish(fill, 7));
  EXPECT_EQ(rig.get(extent_of(5, 3)), 7u);
  EXPECT_FALSE(rig.has(extent_of(5, 4)));
  EXPECT_FALSE(rig.has(extent_of(6, 3)));
  const Found found = rig.reader->find(extent_of(5, 3));
  rig.segment->invalidate(InodeId(5), 3 * kExtentBytes + 100, 1);
  EXPECT_FALSE(rig.has(extent_of(5, 3)));
  EXPECT_FALSE(rig.reader->still(found.ticket)) << "what was being copied is not to be used";
}

TEST(Segment, fills_an_extent_once) {
  Rig rig(2);
  Segment::Fill first, second;
  ASSERT_TRUE(rig.begin(extent_of(1, 0), &first));
  EXPECT_EQ(rig.segment->begin_fill(extent_of(1, 0), 0, true, &second), Segment::Start::filling);
  ASSERT_TRUE(rig.publish(first, 1));
  EXPECT_EQ(rig.segment->begin_fill(extent_of(1, 0), 0, true, &second), Segment::Start::resident);
}

TEST(Segment, drops_a_fill_whose_file_changed_meanwhile) {
  Rig rig(2);
  Segment::Fill old_fill, new_fill;
  ASSERT_TRUE(rig.begin(extent_of(1, 2), &old_fill));
  rig.segment->invalidate(InodeId(1), 2 * kExtentBytes, 10);
  // The next fill reads what is there now; it need not wait for the old one.
  ASSERT_TRUE(rig.begin(extent_of(1, 2), &new_fill));
  EXPECT_TRUE(rig.publish(new_fill, 2));
  EXPECT_FALSE(rig.publish(old_fill, 1));
  EXPECT_EQ(rig.get(extent_of(1, 2)), 2u);
}

TEST(Segment, keeps_extents_beside_the_change) {
  Rig rig(4);
  for (uint32_t i = 0; i < 4; ++i) ASSERT_TRUE(rig.put(extent_of(1, i)));
  rig.segment->invalidate(InodeId(1), kExtentBytes, kExtentBytes);
  EXPECT_TRUE(rig.has(extent_of(1, 0)));
  EXPECT_FALSE(rig.has(extent_of(1, 1)));
  EXPECT_TRUE(rig.has(extent_of(1, 2)));
  rig.segment->invalidate(InodeId(1), 0, 0);
  EXPECT_TRUE(rig.has(extent_of(1, 0)));
}

TEST(Segment, drops_the_end_of_a_file_that_grows_behind_it) {
  Rig rig(2);
  ASSERT_TRUE(rig.put(extent_of(1, 0)));
  ASSERT_TRUE(rig.put(extent_of(1, 1), 1, 100));
  EXPECT_EQ(rig.get(extent_of(1, 1)), 1u);
  rig.segment->invalidate(InodeId(1), 5 * kExtentBytes, 10);
  EXPECT_TRUE(rig.has(extent_of(1, 0)));
  EXPECT_FALSE(rig.has(extent_of(1, 1)));
  // The same while the end is being filled.
  Segment::Fill fill, whole;
  ASSERT_TRUE(rig.begin(extent_of(1, 1), &fill));
  ASSERT_TRUE(rig.begin(extent_of(1, 2), &whole));
  rig.segment->invalidate(InodeId(1), 9 * kExtentBytes, 10);
  EXPECT_FALSE(rig.publish(fill, 2, 100));
  EXPECT_TRUE(rig.publish(whole, 2));
}

TEST(Segment, removes_a_whole_file_and_its_bytes) {
  Rig rig(8);
  for (uint32_t i = 0; i < 100; ++i) ASSERT_TRUE(rig.put(extent_of(9, i * 1000)));
  ASSERT_TRUE(rig.put(extent_of(8, 0), 4));
  Segment::Fill fill;
  ASSERT_TRUE(rig.begin(extent_of(9, 7), &fill));
  rig.segment->remove_inode(InodeId(9));
  EXPECT_FALSE(rig.publish(fill, 1));
  for (uint32_t i = 0; i < 100; ++i) EXPECT_FALSE(rig.has(extent_of(9, i * 1000)));
  EXPECT_EQ(rig.get(extent_of(8, 0)), 4u);
  EXPECT_FALSE(rig.segment->holds(InodeId(9)));
  EXPECT_EQ(rig.segment->take_released(), std::vector<InodeId>{InodeId(9)});
  while (rig.segment->clean()) {
  }
  const Bytes slots = rig.reader->slots().first(8 * kSlab);
  const Found kept = rig.reader->find(extent_of(8, 0));
  for (size_t i = 0; i < slots.size(); i += 8) {
    if (slots.data() + i >= kept.data && slots.data() + i < kept.data + kExtentBytes) continue;
    uint64_t word = 0;
    std::memcpy(&word, slots.data() + i, 8);
    ASSERT_EQ(word, 0u) << "a byte of the removed file at " << i;
  }
}

TEST(Segment, leaves_nothing_of_an_earlier_extent_behind_a_files_end) {
  Rig rig(1);
  for (uint32_t i = 0; i < 16; ++i) ASSERT_TRUE(rig.put(extent_of(1, i)));
  ASSERT_TRUE(rig.put(extent_of(2, 0), 1, 100));
  const Found found = rig.reader->find(extent_of(2, 0));
  ASSERT_TRUE(found);
  for (uint32_t i = found.valid; i < kExtentBytes; ++i) ASSERT_EQ(found.data[i], std::byte{0});
}

TEST(Segment, gives_applications_nothing_that_they_could_write) {
  Rig rig(1);
  for (const int fd : {rig.segment->index_fd(), rig.segment->slab_fd(0)}) {
    EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
    void* readable = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0);
    ASSERT_NE(readable, MAP_FAILED);
    EXPECT_NE(::mprotect(readable, 4096, PROT_READ | PROT_WRITE), 0);
    ::munmap(readable, 4096);
    EXPECT_LT(::pwrite(fd, "x", 1, 0), 0);
    EXPECT_NE(::ftruncate(fd, 0), 0);
    EXPECT_NE(::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
  }
}

TEST(Segment, is_valid_for_as_long_as_its_agent_says) {
  Rig rig(1);
  EXPECT_FALSE(rig.reader->is_valid_at(0));
  EXPECT_TRUE(rig.arena->set_valid_until(100));
  EXPECT_TRUE(rig.reader->is_valid_at(99));
  EXPECT_FALSE(rig.reader->is_valid_at(100));
  rig.segment->set_valid_until(0);
  EXPECT_FALSE(rig.reader->is_valid_at(1));
}

TEST(Segment, has_slabs_at_multiples_of_their_size) {
  const std::unique_ptr<Arena> arena = std::move(*Arena::make({64 * kMiB, 32 * kMiB, nullptr}));
  const std::shared_ptr<Segment> segment = *arena->enter({1, 1, {}});
  const auto open = [&] { return std::move(*Reader::open(UniqueFd(::dup(segment->index_fd())))); };
  const std::unique_ptr<Reader> readers[] = {open(), open(), open()};
  for (const auto& reader : readers) {
    EXPECT_TRUE(is_aligned(reinterpret_cast<uintptr_t>(reader->slots().data()), 32 * kMiB));
  }
  arena->leave(segment);
}

TEST(Segment, is_a_miss_where_the_reader_has_not_mapped_the_slab_yet) {
  Rig rig(2, 1);
  ASSERT_EQ(rig.arena->grow(rig.segment), Code::ok);
  for (uint32_t i = 0; i < 32; ++i) ASSERT_TRUE(rig.put(extent_of(1, i)));
  EXPECT_EQ(rig.reader->slabs_offered(), 2u);
  uint32_t found = 0;
  for (uint32_t i = 0; i < 32; ++i) found += rig.has(extent_of(1, i)) ? 1 : 0;
  EXPECT_EQ(found, 16u);
  ASSERT_EQ(rig.reader->add_slab(UniqueFd(::dup(rig.segment->slab_fd(1)))), Code::ok);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_TRUE(rig.has(extent_of(1, i)));
  EXPECT_EQ(rig.reader->add_slab(UniqueFd(::dup(rig.segment->slab_fd(1)))), Code::invalid_argument);
}

}  // namespace
}  // namespace penstock::arena
