// A segment with a reader of it, and extents whose bytes tell what they are.
#pragma once

#include <array>
#include <cstring>
#include <gtest/gtest.h>
#include <optional>
#include <unistd.h>
#include <vector>

#include "penstock/arena.h"

namespace penstock::arena {

constexpr uint64_t kSlab = 16 * uint64_t{kExtentBytes};

// The bytes of one version of an extent: the version, then words made of all three.
inline void write_pattern(std::byte* to, uint32_t valid, Extent extent, uint64_t version) {
  std::array<uint64_t, kExtentBytes / 8> words;
  const uint64_t seed = mix64(hash_of(extent) ^ version);
  for (size_t i = 1; i < words.size(); ++i) words[i] = seed + i;
  words[0] = version;
  std::memcpy(to, words.data(), valid);
}
// The version that bytes are of; nothing if they are of no version of this extent.
inline std::optional<uint64_t> pattern_of(const std::byte* bytes, uint32_t valid, Extent extent) {
  std::array<std::byte, kExtentBytes> expected;
  uint64_t version = 0;
  std::memcpy(&version, bytes, 8);
  write_pattern(expected.data(), valid, extent, version);
  if (std::memcmp(bytes, expected.data(), valid) != 0) return std::nullopt;
  return version;
}

class Rig {
 public:
  explicit Rig(uint32_t slabs, uint32_t grown = UINT32_MAX) {
    arena = std::move(*Arena::make({slabs * kSlab, kSlab, nullptr}));
    segment = *arena->enter({1, 1, {}});
    reader = std::move(*Reader::open(UniqueFd(::dup(segment->index_fd()))));
    for (uint32_t i = 0; i < std::min(slabs, grown); ++i) grow();
  }
  ~Rig() { arena->leave(segment); }

  void grow() {
    ASSERT_EQ(arena->grow(segment), Code::ok);
    const UniqueFd slab(::dup(segment->slab_fd(reader->slabs_mapped())));
    ASSERT_EQ(reader->add_slab(slab), Code::ok);
  }

  // False when there was no slot.
  bool begin(Extent extent, Segment::Fill* fill, uint32_t following = 0, bool may_evict = true) {
    return segment->begin_fill(extent, following, may_evict, fill) == Segment::Start::begun;
  }
  bool publish(const Segment::Fill& fill, uint64_t version, uint32_t valid = kExtentBytes) {
    write_pattern(fill.memory.data(), valid, fill.extent, version);
    Checksums checksums{};
    checksums.block[0] = static_cast<uint32_t>(version);
    return segment->publish(fill, valid, checksums);
  }
  bool put(Extent extent, uint64_t version = 1, uint32_t valid = kExtentBytes,
           uint32_t following = 0) {
    Segment::Fill fill;
    return begin(extent, &fill, following) && publish(fill, version, valid);
  }
  // The version that a reader gets; nothing if it gets none.
  std::optional<uint64_t> get(Extent extent) const {
    const Found found = reader->find(extent);
    if (!found) return std::nullopt;
    std::vector<std::byte> copy(found.data, found.data + found.valid);
    const uint32_t checksum = found.checksums->block[0];
    if (!reader->still(found.ticket)) return std::nullopt;
    const auto version = pattern_of(copy.data(), found.valid, extent);
    EXPECT_TRUE(version) << "bytes of another extent";
    EXPECT_EQ(checksum, static_cast<uint32_t>(version.value_or(0)));
    return version;
  }
  bool has(Extent extent) const { return static_cast<bool>(reader->find(extent)); }

  std::unique_ptr<Arena> arena;
  std::shared_ptr<Segment> segment;
  std::unique_ptr<Reader> reader;
};

inline Extent extent_of(uint64_t inode, uint32_t number) {
  return {InodeId(inode), number};
}

}  // namespace penstock::arena
