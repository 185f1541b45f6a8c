// Spreads under faults, from many seeds: everything arrives, or the reason is told; and when it is
// over, nobody touches the memory any more.
#include "spread_rig.h"

namespace penstock::load {
namespace {

class SpreadSimulation : public SpreadTest, public testing::WithParamInterface<uint64_t> {
 protected:
  SpreadSimulation() : SpreadTest(GetParam()) {}

  // Any GPUs of up to four, in any order, that reach each other or not.
  void make_any_links() {
    engine::Random& random = world_.random();
    const auto count = static_cast<uint32_t>(1 + random.below(4));
    std::vector<uint64_t> peers(count, 0);
    for (uint32_t a = 0; a < count; ++a) {
      for (uint32_t b = 0; b < a; ++b) {
        if (islands_ && random.chance(1, 2)) continue;
        peers[a] |= uint64_t{1} << b;
        peers[b] |= uint64_t{1} << a;
      }
    }
    make_gpus(count, peers);
    make_runs(1 + random.below(40), random.chance(1, 3) ? 3000 : 400 * kKiB,
              1 + static_cast<uint32_t>(random.below(2)));
    std::vector<uint32_t> all;
    for (uint32_t gpu = 0; gpu < count; ++gpu) {
      const auto at = static_cast<ptrdiff_t>(random.below(all.size() + 1));
      all.insert(all.begin() + at, gpu);
    }
    const auto wanted = static_cast<ptrdiff_t>(1 + random.below(count));
    make_links({all.begin(), all.begin() + wanted}, {all.begin() + wanted, all.end()});
  }

  // What happens on the way, at most one reason to fail among much that may only delay.
  void make_weather() {
    engine::Random& random = world_.random();
    for (SimFiles* const files : files_) {
      files->delay_max =
          std::chrono::microseconds(1 + random.below(random.chance(1, 4) ? 5000 : 300));
      if (errors_) files->error_permille = 20;
    }
    if (world_.buggify("flips", 200)) devices_->faults.flip_permille = 5;
    if (world_.buggify("lost", 200)) devices_->faults.lose_permille = 5;
    if (world_.buggify("short", 200)) {
      for (SimFiles* const files : files_) {
        const uint64_t size = content_[0].size();
        const uint64_t length = random.below(size);
        if (shorter_ == UINT64_MAX) shorter_ = length;
        files->file(0).resize(shorter_);
      }
    }
  }

  bool islands_ = world_.buggify("islands", 500);
  bool errors_ = world_.buggify("errors", 200);
  uint64_t shorter_ = UINT64_MAX;
};

TEST_P(SpreadSimulation, all_arrives_or_the_reason_is_told_and_then_nothing_moves) {
  make_any_links();
  make_weather();
  engine::Random& random = world_.random();
  const bool cancels = world_.buggify("cancel", 300);
  if (world_.buggify("deadline", 300)) {
    order_.deadline = loop_.now() + std::chrono::microseconds(random.below(4000));
  }
  const uint64_t turns = random.below(300);
  spread_->start();
  for (uint64_t i = 0; i < turns && !spread_->ended(); ++i) {
    world_.run_for(std::chrono::microseconds(10));
  }
  if (cancels && !spread_->ended()) spread_->stop({Code::cancelled, "cancelled"});
  finish();
  EXPECT_EQ(devices_->detours(), 0U);
  if (!spread_->stopped()) {
    EXPECT_TRUE(all_is_there());
    EXPECT_EQ(spread_->bytes_done(), order_.pieces.bytes);
    EXPECT_EQ(carried() % std::max<uint64_t>(order_.pieces.bytes, 1), 0U);
    EXPECT_EQ(carried() + forwarded(), order_.destinations.size() * order_.pieces.bytes + lent());
    return;
  }
  const Code code = spread_->failure().status.code();
  EXPECT_TRUE(code == Code::cancelled || code == Code::timed_out || code == Code::io_error ||
              code == Code::corrupt || code == Code::peer_gone)
      << spread_->failure().message;
  EXPECT_FALSE(spread_->failure().message.empty());
  // Whoever owns the memory uses it for something else now.
  const std::vector<std::byte> other(bytes_, std::byte{0x77});
  for (const DeviceSpan& memory : order_.destinations) devices_->poke(memory.data, other);
  world_.run_for(std::chrono::milliseconds(20));
  for (const DeviceSpan& memory : order_.destinations) {
    std::vector<std::byte> got(bytes_);
    devices_->peek(memory.data, got);
    EXPECT_EQ(got, other);
  }
}

std::vector<uint64_t> seeds() {
  const sim::SeedRange range = sim::seed_range(150);
  std::vector<uint64_t> all;
  for (uint64_t i = 0; i < range.count; ++i) all.push_back(range.first + i);
  return all;
}
INSTANTIATE_TEST_SUITE_P(Seeds, SpreadSimulation, testing::ValuesIn(seeds()));

}  // namespace
}  // namespace penstock::load
