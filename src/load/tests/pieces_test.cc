#include <gtest/gtest.h>

#include "penstock/load.h"

namespace penstock::load {
namespace {

constexpr uint64_t kCutAt = 16 * kMiB;

TEST(Pieces, large_run_is_cut_at_multiples_of_the_piece_in_the_file) {
  const std::vector<model::Run> runs{
      {.file = 3, .offset = kCutAt - 100, .length = 2 * kCutAt + 150, .memory_offset = 512}};
  const Pieces out = cut(runs, kCutAt);
  ASSERT_EQ(out.pieces.size(), 4U);
  EXPECT_EQ(out.pieces[0].length, 100U);
  EXPECT_EQ(out.pieces[1].offset, kCutAt);
  EXPECT_EQ(out.pieces[1].memory_offset, 612U);
  EXPECT_EQ(out.pieces[1].length, kCutAt);
  EXPECT_EQ(out.pieces[3].length, 50U);
  EXPECT_EQ(out.pieces[3].file, 3U);
  EXPECT_EQ(out.bytes, 2 * kCutAt + 150);
  EXPECT_TRUE(out.entries.empty());
}

TEST(Pieces, small_runs_of_one_file_share_a_list) {
  std::vector<model::Run> runs;
  for (uint64_t i = 0; i < 10; ++i) {
    runs.push_back(
        {.file = i < 7 ? 0U : 1U, .offset = i * 100, .length = 90, .memory_offset = i * 256});
  }
  const Pieces out = cut(runs, kCutAt);
  ASSERT_EQ(out.pieces.size(), 2U);
  EXPECT_EQ(out.pieces[0].entries, 7U);
  EXPECT_EQ(out.pieces[0].bytes, 630U);
  EXPECT_EQ(out.pieces[0].length, 6 * 256 + 90U);
  EXPECT_EQ(out.pieces[1].memory_offset, 7 * 256U);
  EXPECT_EQ(out.pieces[1].first_entry, 7U);
  ASSERT_EQ(out.entries.size(), 10U);
  // Within its piece.
  EXPECT_EQ(out.entries[8].memory_offset, 256U);
  EXPECT_EQ(out.entries[8].offset, 800U);
}

TEST(Pieces, small_run_that_is_alone_is_a_range) {
  const std::vector<model::Run> runs{
      {.file = 0, .offset = 5, .length = 10, .memory_offset = 0},
      {.file = 0, .offset = 15, .length = 3 * kMiB, .memory_offset = 256}};
  const Pieces out = cut(runs, kCutAt);
  ASSERT_EQ(out.pieces.size(), 2U);
  EXPECT_EQ(out.pieces[0].entries, 0U);
  EXPECT_EQ(out.pieces[0].length, 10U);
}

// Whatever the runs: every byte once, nothing else, and no piece too long.
TEST(Pieces, cover_every_byte_once) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    engine::SeededRandom random(seed);
    std::vector<model::Run> runs;
    std::vector<std::pair<uint32_t, uint64_t>> expected;  // by memory_offset: file and offset
    uint64_t memory_offset = 0;
    const uint64_t count = random.below(60);
    for (uint64_t i = 0; i < count; ++i) {
      memory_offset += random.below(3) * 8;
      const uint64_t length = 1 + random.below(random.chance(1, 5) ? 5000 : 50);
      const uint64_t offset = random.below(100'000);
      const auto file = static_cast<uint32_t>(i / 20);
      runs.push_back(
          {.file = file, .offset = offset, .length = length, .memory_offset = memory_offset});
      expected.resize(memory_offset, {UINT32_MAX, 0});
      for (uint64_t at = 0; at < length; ++at) expected.push_back({file, offset + at});
      memory_offset += length;
    }
    constexpr uint64_t kSmallPiece = 1024;
    const Pieces out = cut(runs, kSmallPiece);
    std::vector<std::pair<uint32_t, uint64_t>> found(expected.size(), {UINT32_MAX, 0});
    const auto put = [&](uint32_t file, uint64_t offset, uint64_t length, uint64_t to) {
      for (uint64_t at = 0; at < length; ++at) {
        ASSERT_EQ(found[to + at].first, UINT32_MAX) << "seed " << seed;
        found[to + at] = {file, offset + at};
      }
    };
    uint64_t end = 0;
    for (const Piece& piece : out.pieces) {
      EXPECT_LE(piece.length, kSmallPiece);
      EXPECT_GE(piece.memory_offset, end);
      end = piece.memory_offset + piece.length;
      if (piece.entries == 0) put(piece.file, piece.offset, piece.length, piece.memory_offset);
      for (size_t i = piece.first_entry; i < piece.first_entry + piece.entries; ++i) {
        const route::ListEntry& entry = out.entries[i];
        EXPECT_LE(entry.memory_offset + entry.length, piece.length);
        put(piece.file, entry.offset, entry.length, piece.memory_offset + entry.memory_offset);
      }
    }
    EXPECT_EQ(found, expected) << "seed " << seed;
  }
}

}  // namespace
}  // namespace penstock::load
