#include "update_effect.h"

#include "chain_rig.h"

namespace penstock::store {
namespace {

constexpr uint32_t kEnd = 5 * 4096;

// Every byte by itself: what it is afterwards.
struct Model {
  std::vector<int> bytes;  // -1: as it was; 0: zero; else the byte of the update, plus one
  uint32_t length = 0;
  bool removed = false;
};

Model model_of(const std::vector<UpdatePart>& parts, uint32_t length) {
  Model model{std::vector<int>(kEnd, -1), length};
  int taken = 0;
  for (const UpdatePart& part : parts) {
    model.removed = part.kind == UpdateKind::remove;
    if (part.kind == UpdateKind::write) {
      for (uint32_t i = part.begin; i < part.end; ++i) model.bytes[i] = ++taken;
      model.length = std::max(model.length, part.end);
      continue;
    }
    const bool all = model.removed;
    const bool to_end = all || part.end == kWholeChunk;
    const uint32_t begin = all ? 0 : part.begin;
    for (uint32_t i = begin; i < (to_end ? kEnd : part.end); ++i) model.bytes[i] = 0;
    if (to_end) model.length = std::min(model.length, begin);
  }
  return model;
}

TEST(UpdateEffect, is_that_of_its_parts_one_after_the_other) {
  engine::SeededRandom random(11);
  for (int round = 0; round < 300; ++round) {
    std::vector<UpdatePart> parts;
    for (uint64_t i = 1 + random.below(6); i > 0; --i) {
      const auto begin = static_cast<uint32_t>(random.below(kEnd));
      const auto end = static_cast<uint32_t>(begin + 1 + random.below(kEnd - begin));
      const uint64_t kind = random.below(8);
      if (kind == 0) {
        parts.push_back(remove_part());
      } else if (kind < 3) {
        parts.push_back(clear_part(begin, kind == 1 ? kWholeChunk : end));
      } else {
        parts.push_back(write_part(begin, end));
      }
    }
    const auto length = static_cast<uint32_t>(random.below(kEnd));
    const Model model = model_of(parts, length);
    const UpdateEffect effect(parts, length);
    EXPECT_EQ(effect.length(), model.length);
    EXPECT_EQ(effect.removed(), model.removed);
    const uint64_t bytes = update_bytes(parts);
    std::vector<std::byte> content(bytes);
    for (uint64_t i = 0; i < bytes; ++i) content[i] = static_cast<std::byte>((i + 1) % 251);
    for (uint32_t block = 0; block < kEnd / 4096; ++block) {
      bool base = false, zeros = false, fresh = false;
      std::vector<std::byte> expected(4096, std::byte{0xff});
      for (uint32_t i = 0; i < 4096; ++i) {
        const int byte = model.bytes[block * 4096 + i];
        base |= byte < 0;
        zeros |= byte == 0;
        fresh |= byte > 0;
        if (byte >= 0) expected[i] = static_cast<std::byte>(byte % 251);
      }
      using Block = UpdateEffect::Block;
      const Block is = fresh   ? (base ? Block::combined : Block::written)
                       : zeros ? (base ? Block::trimmed : Block::zeros)
                               : Block::stays;
      EXPECT_EQ(effect.block(block), is);
      std::vector<std::byte> made(4096, std::byte{0xff});
      effect.apply(block, content, made.data());
      EXPECT_EQ(made, expected);
      if (is != Block::stays) {
        EXPECT_LT(effect.begin(), (block + 1) * 4096);
        EXPECT_GT(effect.end(), block * 4096);
      }
    }
  }
}

TEST(UpdateEffect, moves_the_end_of_maps) {
  const auto map = static_cast<uint32_t>(limits::kMapBytes);
  const UpdatePart parts[] = {clear_part(map + 10, kWholeChunk), write_part(2 * map, 2 * map + 5),
                              clear_part(0, 4)};
  const UpdateEffect effect(parts, 3 * map);
  EXPECT_EQ(effect.valid_end(0, 100), 100u);
  EXPECT_EQ(effect.valid_end(1, 4096), 10u);
  EXPECT_EQ(effect.valid_end(1, 7), 7u);
  EXPECT_EQ(effect.valid_end(2, map), 5u);
  EXPECT_EQ(effect.valid_end(3, map), 0u);
}

}  // namespace
}  // namespace penstock::store
