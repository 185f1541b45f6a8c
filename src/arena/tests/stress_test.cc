// Readers against a writer that never rests: what a reader validated is what the writer published,
// and nothing older than what the reader could know to be there.
#include "rig.h"

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "penstock/testing.h"

namespace penstock::arena {
namespace {

constexpr uint32_t kStressExtents = 48;  // three times what fits
constexpr uint64_t kCopiesWanted = 20'000;

struct Shared {
  Rig rig{1};
  // The oldest version of each extent that may be found by a look that begins now.
  std::array<std::atomic<uint64_t>, kStressExtents> floor{};
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> copies{0};
  std::atomic<uint64_t> lost{0};
};

void write(Shared& shared, uint64_t seed) {
  uint64_t version = 0;
  while (!shared.stop.load(std::memory_order_relaxed)) {
    seed = mix64(seed);
    const auto number = static_cast<uint32_t>(seed % kStressExtents);
    const Extent extent = extent_of(1 + number % 3, number);
    if (seed >> 32 & 1) {
      ++version;
      shared.rig.segment->invalidate(extent.inode, uint64_t{number} * kExtentBytes, 1);
      shared.floor[number].store(version);
    }
    Segment::Fill fill;
    if (!shared.rig.begin(extent, &fill)) continue;
    shared.rig.publish(fill, version);
  }
}

void read(Shared& shared, uint64_t seed) {
  std::vector<std::byte> copy(kExtentBytes);
  while (!shared.stop.load(std::memory_order_relaxed)) {
    seed = mix64(seed);
    const auto number = static_cast<uint32_t>(seed % kStressExtents);
    const Extent extent = extent_of(1 + number % 3, number);
    const uint64_t floor = shared.floor[number].load();
    const Found found = shared.rig.reader->find(extent);
    if (!found) continue;
    std::memcpy(copy.data(), found.data, found.valid);
    if (!shared.rig.reader->still(found.ticket)) {
      shared.lost.fetch_add(1, std::memory_order_relaxed);
      continue;
    }
    const auto version = pattern_of(copy.data(), found.valid, extent);
    ASSERT_TRUE(version) << "a torn copy was validated";
    ASSERT_GE(*version, floor) << "a stale copy was validated";
    shared.copies.fetch_add(1, std::memory_order_relaxed);
  }
}

TEST(SegmentStress, readers_validate_only_what_was_published) {
  Shared shared;
  std::thread writer([&] { write(shared, 1); });
  std::vector<std::thread> readers;
  for (uint64_t i = 0; i < 3; ++i) readers.emplace_back([&, i] { read(shared, 100 + i); });
  const bool enough =
      test::eventually([&] { return shared.copies.load() >= kCopiesWanted; }, 2 * test::kPatience);
  shared.stop = true;
  writer.join();
  for (std::thread& reader : readers) reader.join();
  EXPECT_TRUE(enough) << shared.copies.load();
  RecordProperty("copies", static_cast<int>(shared.copies.load()));
  RecordProperty("lost", static_cast<int>(shared.lost.load()));
}

}  // namespace
}  // namespace penstock::arena
