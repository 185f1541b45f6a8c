// Hostile clients beside an honest one, on a node in a process of its own. A short run here;
// `./dev hostile` for long ones.
#include "attackers.h"
#include "honest_client.h"
#include "watched_node.h"

#include <cctype>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <functional>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <thread>

#include "penstock/testing.h"
#include "penstock/testing_node.h"

namespace penstock::test {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr uint64_t kCacheMiB = 16;
// What malloc keeps of what was freed, for each of many threads: in a run with tables of 3 MiB, 19
// to 23 MiB were in use throughout, and the process held 80. And for each of the two databases one
// table of 32 MiB that was written out and is still held.
constexpr uint64_t kGrowthMost = 96 * kMiB;
// Of a byte in a database's log, in the table in memory that holds it, too.
constexpr uint64_t kTableBytesMost = 2;

// In the logs of the node's databases.
uint64_t logged_bytes(const std::string& store) {
  uint64_t bytes = 0;
  std::error_code gone;
  for (const auto& file : fs::recursive_directory_iterator(store, gone)) {
    const fs::path& path = file.path();
    const bool is_log = path.extension() == ".log" && std::isdigit(path.stem().string()[0]) != 0;
    const uint64_t size = is_log ? fs::file_size(path, gone) : 0;
    // A database may have dropped it meanwhile.
    if (size != static_cast<uint64_t>(-1)) bytes += size;
  }
  return bytes;
}

class Hostile : public testing::Test {
 protected:
  void SetUp() override { log::set_level(log::Level::off); }
  void TearDown() override { remove_shared_files(); }

  void remove_shared_files() const {
    std::vector<fs::path> ours;
    for (const auto& file : fs::directory_iterator("/dev/shm")) {
      if (file.path().filename().string().starts_with(shared_)) ours.push_back(file.path());
    }
    std::error_code ignored;
    for (const fs::path& path : ours) fs::remove(path, ignored);
  }
  // Links of regions stay when their makers die.
  static void remove_links(const WatchedNode& node) {
    if (node.mount().empty()) return;
    std::error_code ignored;
    std::vector<fs::path> links;
    for (const auto& link : fs::directory_iterator(node.mount() + "/3fs-virt/iovs")) {
      links.push_back(link.path());
    }
    for (const fs::path& link : links) fs::remove(link, ignored);
  }

  // The node cache keeps the memory of classes of readers who have left, for when they come back:
  // an index of each class, and slabs within its budget. Takes those out of the descriptors.
  static void expect_cache_within_bounds(Holdings* holdings) {
    uint64_t indexes = 0, slabs = 0;
    std::erase_if(holdings->descriptors, [&](const auto& one) {
      const bool index = one.first.starts_with("/memfd:penstock-arena");
      const bool slab = one.first.starts_with("/memfd:penstock-slab");
      if (index) indexes += one.second;
      if (slab) slabs += one.second;
      return index || slab;
    });
    EXPECT_LE(indexes, kUsers + 1) << "attackers' users, and the honest one";
    EXPECT_LE(slabs, kCacheMiB) << "a slab has a MiB at least";
  }

  // What the node held is back to what it was.
  static void expect_flat(const WatchedNode& node, Holdings before) {
    expect_cache_within_bounds(&before);
    Holdings now;
    const bool flat = eventually([&] {
      now = node.holdings();
      expect_cache_within_bounds(&now);
      return now.valid && now.sessions == before.sessions && now.shares == before.shares &&
             now.open_files == before.open_files && now.descriptors == before.descriptors;
    });
    EXPECT_TRUE(flat) << "before: " << to_text(before) << "\nnow: " << to_text(now);
  }
  // What comes to a node that this test does not see inside.
  static void expect_depth(const Tally& tally) {
    for (const Feat feat : {Feat::sessions, Feat::files, Feat::regions, Feat::rings, Feat::reads,
                            Feat::writes, Feat::syncs, Feat::refused_operations, Feat::many}) {
      EXPECT_GT(tally.of(feat), 0u) << kFeatNames[static_cast<size_t>(feat)];
    }
  }
  // What the databases have to tidy up comes to an end; a thread that spins does not.
  static void expect_idle(const WatchedNode& node) {
    EXPECT_TRUE(eventually([&] {
      const uint64_t before = node.cpu_ms();
      std::this_thread::sleep_for(std::chrono::seconds(2));
      return node.cpu_ms() - before < 1000;
    }));
  }

  const std::string shared_ = fmt::format("penstock-hostile-{}-", ::getpid());
};

// PENSTOCK_SECONDS and PENSTOCK_SEED, as `./dev hostile` sets them.
TEST_F(Hostile, clients_harm_neither_the_node_nor_an_honest_client) {
  const uint64_t seed = number_from("PENSTOCK_SEED", 1);
  const std::chrono::seconds time(number_from("PENSTOCK_SECONDS", 8));
  std::printf("./dev hostile --seconds %lld --seed %llu\n", static_cast<long long>(time.count()),
              static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  WatchedNode node(
      {.arguments = {"--cache", fmt::format("{}MiB", kCacheMiB), "--chunk-size", "64KiB"}});
  ASSERT_TRUE(node.is_up()) << node.ending();
  HonestClient honest(node);
  honest.work(0);
  const Holdings before = node.holdings();
  ASSERT_TRUE(before.valid);
  Tally& tally = Tally::make();
  Attackers attackers({node.socket(), node.mount(), shared_}, tally, seed);
  uint64_t rounds = 0;
  // Twice the same: what the first half leaves behind is what the node needs to work at all.
  std::array<uint64_t, 2> heap{}, logged{};
  for (size_t half = 0; half < 2; ++half) {
    const auto begun = Clock::now();
    while (Clock::now() < begun + time / 2) {
      attackers.tend();
      const auto round_begun = Clock::now();
      honest.work(++rounds);
      ASSERT_TRUE(node.lives()) << "seed " << seed << ", round " << rounds << ": the node died, "
                                << node.ending();
      ASSERT_FALSE(HasFailure()) << "seed " << seed << ", round " << rounds;
      EXPECT_LT(Clock::now() - round_begun, kPatience) << "round " << rounds;
    }
    attackers.end();
    remove_links(node);
    expect_flat(node, before);
    heap[half] = node.anonymous_bytes();
    logged[half] = logged_bytes(node.store());
  }
  std::printf(
      "%zu attackers: %s\n%llu honest rounds; %s\nheap: %.1f MiB after half of it, "
      "%.1f MiB at the end; in the databases' logs, and so in their tables in memory: %.1f and "
      "%.1f MiB\n",
      attackers.started(), tally.text().c_str(), static_cast<unsigned long long>(rounds),
      honest.times().c_str(), static_cast<double>(heap[0]) / kMiB,
      static_cast<double>(heap[1]) / kMiB, static_cast<double>(logged[0]) / kMiB,
      static_cast<double>(logged[1]) / kMiB);
  expect_depth(tally);
  const uint64_t in_tables = logged[1] > logged[0] ? logged[1] - logged[0] : 0;
  EXPECT_LT(heap[1], heap[0] + kTableBytesMost * in_tables + kGrowthMost);
  expect_idle(node);
  honest.work(++rounds);
  // What was stored while programs changed it is what was verified.
  const Output scrub = penstock({"scrub", node.store()});
  EXPECT_EQ(scrub.exit_code, 0) << scrub.out << scrub.err;
  const Output down = penstock({"down", node.store()});
  EXPECT_EQ(down.exit_code, 0) << down.err;
}

}  // namespace
}  // namespace penstock::test
