// An agent, or what was one, that writes anything at all into the memory.
#include "hostile_memory.h"

#include <gtest/gtest.h>

namespace penstock::arena {
namespace {

TEST(HostileIndex, is_refused_unless_its_header_is_right) {
  const Geometry geometry = *Geometry::make(2 * kHostileSlab, kHostileSlab);
  const auto opens = [&](const auto& change) {
    HostileMemory index(geometry.index_bytes());
    Header& header = *reinterpret_cast<Header*>(index.bytes().data());
    geometry.write(header);
    change(header);
    return Reader::open(index.descriptor()).has_value();
  };
  EXPECT_TRUE(opens([](Header&) {}));
  EXPECT_FALSE(opens([](Header& h) { ++h.magic; }));
  EXPECT_FALSE(opens([](Header& h) { ++h.version; }));
  EXPECT_FALSE(opens([](Header& h) { h.slots_max *= 2; }));
  EXPECT_FALSE(opens([](Header& h) { h.slots_max = 0; }));
  EXPECT_FALSE(opens([](Header& h) { h.entries *= 2; }));
  EXPECT_FALSE(opens([](Header& h) { h.entries = 0; }));
  EXPECT_FALSE(opens([](Header& h) { h.slab_bytes = 3 * kExtentBytes; }));
  EXPECT_FALSE(opens([](Header& h) { h.slab_bytes = 0; }));
  EXPECT_FALSE(opens([](Header& h) { h.checksums_offset += 64; }));
  EXPECT_FALSE(opens([](Header& h) { h.total_bytes = UINT64_MAX; }));
}

TEST(HostileIndex, is_refused_when_it_could_shrink) {
  HostileMemory index(kHeaderBytes * 64, false);
  EXPECT_FALSE(Reader::open(index.descriptor()));
  EXPECT_FALSE(Reader::open(UniqueFd()));
  EXPECT_FALSE(Reader::open(HostileMemory(0).descriptor()));
}

TEST(HostileIndex, leads_nowhere_outside_whatever_it_holds) {
  HostileSegment segment;
  uint32_t found = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    segment.scribble(seed);
    for (uint32_t i = 0; i < 200; ++i) {
      // Half of the look-ups are for what the memory claims to hold.
      const Extent extent = i % 2 == 0 ? segment.claimed(mix64(seed + i))
                                       : Extent{InodeId(mix64(i)), static_cast<uint32_t>(seed)};
      found += segment.look_up(extent) ? 1 : 0;
    }
  }
  EXPECT_GT(found, 0u) << "nothing it holds led anywhere";
}

}  // namespace
}  // namespace penstock::arena
