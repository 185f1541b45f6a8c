// A target with a log, on simulated disk and database.
#pragma once

#include "rig.h"

namespace penstock::store {

using limits::kBlockBytes;

inline const ChunkId kOther{InodeId(6), 0};

inline RigOptions with_log(uint64_t bytes = kMiB) {
  RigOptions options;
  options.log_bytes = bytes;
  options.log_after = 1;
  return options;
}

class LogTest : public testing::Test {
 protected:
  explicit LogTest(uint64_t bytes = kMiB) : rig(1, with_log(bytes)) {}
  void SetUp() override {
    log::set_level(log::Level::off);
    ASSERT_TRUE(rig.begin()) << rig.refusal.message;
    auto bytes = test::content(kBlockBytes, 99);
    ASSERT_TRUE(rig.write(kOther, 0, bytes).ok());
    ASSERT_TRUE(rig.world.run_until([&] { return logs(); }, std::chrono::seconds(5)));
    ASSERT_TRUE(rig.sync().ok());
  }
  void TearDown() override { log::set_level(log::Level::warning); }

  bool logs() { return rig.core().write_log.in_use() && !rig.core().write_log.wants_commit(); }
  uint64_t logged() { return rig.core().counters.logged.value(); }
  uint64_t commits() { return rig.core().counters.commits.value(); }
  void write(ChunkId chunk, uint32_t block, uint64_t seed, uint32_t blocks = 1) {
    auto bytes = test::content(blocks * kBlockBytes, seed);
    ASSERT_TRUE(rig.write(chunk, block * kBlockBytes, bytes).ok());
  }
  bool holds(ChunkId chunk, uint32_t block, uint64_t seed, uint32_t blocks = 1) {
    return rig.read(chunk, block * static_cast<uint32_t>(kBlockBytes),
                    blocks * static_cast<uint32_t>(kBlockBytes)) ==
           test::content(blocks * kBlockBytes, seed);
  }

  Rig rig;
};

}  // namespace penstock::store
