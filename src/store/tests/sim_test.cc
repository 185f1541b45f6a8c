// PENSTOCK_SEED and PENSTOCK_SEEDS choose the runs.
#include "simulation.h"

namespace penstock::store {
namespace {

struct RunResult {
  std::string complaint;
  uint64_t trace_hash;
  uint64_t operations;
  uint64_t failures;
  uint64_t moved;
  uint64_t logged;
  uint64_t records;
  uint64_t replayed;
  int weather;
};

RunResult simulate(uint64_t seed) {
  engine::SeededRandom random(mix64(seed));
  constexpr Weather kWeathers[] = {Weather::fair,  Weather::fair,     Weather::tight,
                                   Weather::rough, Weather::breaking, Weather::silent,
                                   Weather::full};
  const Weather weather = kWeathers[random.below(std::size(kWeathers))];
  RigOptions options;
  options.capacity_bytes = weather == Weather::tight ? kMiB + random.below(3 * kMiB) : 32 * kMiB;
  // From "everything fits" to "nothing stays".
  options.map_cache_bytes = random.chance(1, 3) ? kMiB : random.chance(1, 2) ? 32 * kKiB : 1;
  options.direct = !random.chance(1, 6);
  options.alignment = random.chance(1, 2) ? 4096 : 512;
  // Mostly on, as soon as anything is scattered, and now and then in the midst of the work.
  options.defragment.enabled = !random.chance(1, 4);
  options.defragment.wait = std::chrono::microseconds(100 + random.below(3000));
  options.defragment.breaks_min = random.chance(1, 4) ? 3 : 1;
  // From one that wraps every few writes to one that never does; and none.
  if (random.chance(4, 5)) options.log_bytes = (64 * kKiB) << random.below(5);
  options.log_after = static_cast<uint32_t>(1 + random.below(4));
  Simulation simulation(seed, options, weather);
  std::string complaint = simulation.run(3);
  return {complaint,
          simulation.trace_hash(),
          simulation.operations(),
          simulation.failures(),
          simulation.moved(),
          simulation.logged(),
          simulation.records(),
          simulation.replayed(),
          static_cast<int>(weather)};
}

class StoreSimulation : public testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("PENSTOCK_TRACE") == nullptr) log::set_level(log::Level::off);
  }
  void TearDown() override { log::set_level(log::Level::warning); }
};

TEST_F(StoreSimulation, keeps_its_promises_whatever_happens) {
  const sim::SeedRange range = sim::seed_range(1000);
  uint64_t operations = 0;
  uint64_t failures = 0;
  uint64_t moved = 0;
  uint64_t logged = 0, records = 0, replayed = 0;
  for (uint64_t i = 0; i < range.count; ++i) {
    const uint64_t seed = range.first + i;
    const RunResult outcome = simulate(seed);
    ASSERT_EQ(outcome.complaint, "")
        << "PENSTOCK_SEED=" << seed << " PENSTOCK_SEEDS=1, weather " << outcome.weather;
    operations += outcome.operations;
    failures += outcome.failures;
    moved += outcome.moved;
    logged += outcome.logged;
    records += outcome.records;
    replayed += outcome.replayed;
  }
  fmt::print(
      "{} seeds, {} operations, {} of them failed as they should, {} blocks moved; {} logged in {} "
      "records, {} of these replayed\n",
      range.count, operations, failures, moved, logged, records, replayed);
  if (range.count >= 100) {
    EXPECT_GT(moved, range.count) << "the defragmenter was not tried";
    EXPECT_GT(logged, range.count) << "the log was not tried";
    EXPECT_GT(replayed, range.count / 4) << "the log was not tried";
  }
}

TEST_F(StoreSimulation, repeats_itself_for_the_same_seed) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    EXPECT_EQ(simulate(seed).trace_hash, simulate(seed).trace_hash) << seed;
  }
  EXPECT_NE(simulate(1).trace_hash, simulate(2).trace_hash);
}

}  // namespace
}  // namespace penstock::store
