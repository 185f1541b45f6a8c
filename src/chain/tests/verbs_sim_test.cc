// The stories of chains and rings over RDMA: queue pairs on a simulated fabric, which break when
// nodes die, links are cut, or devices go. What cannot go by RDMA goes by messages.
#include "chain_story.h"
#include "ring_story.h"

namespace penstock::chain {
namespace {

using test::Wire;

class VerbsSim : public testing::Test {
 protected:
  // Queue pairs are lost by the thousand here.
  VerbsSim() { log::set_level(log::Level::error); }

  // One seed may do little by RDMA, and lose nothing.
  // `all_seeds`: those that are always run. A few others may be without one or the other.
  void expect_rdma(bool all_seeds) const {
    const auto tell = [](const char* name, uint64_t value) {
      RecordProperty(name, std::to_string(value));
      std::printf("  %s %llu", name, static_cast<unsigned long long>(value));
    };
    tell("ended", ended_);
    tell("windows", sum_.bound);
    tell("joined", sum_.joined);
    tell("given_up", sum_.given_up);
    tell("broken", sum_.broken);
    tell("refused", sum_.refused);
    std::printf("\n");
    if (!all_seeds) return;
    // Each write is passed on, so that most go by RDMA when there are more windows than calls.
    EXPECT_GT(sum_.bound, ended_);
    EXPECT_GT(sum_.given_up, 0U);
    EXPECT_GT(sum_.broken, 0U);
  }

  void count(const test::FabricCounts& rdma, uint64_t ended) {
    sum_.bound += rdma.bound;
    sum_.joined += rdma.joined;
    sum_.given_up += rdma.given_up;
    sum_.broken += rdma.broken;
    sum_.refused += rdma.refused;
    ended_ += ended;
  }

  void run_stories(uint64_t usual_count, bool on_targets, Kind kind = Kind::usual) {
    const sim::SeedRange seeds = sim::seed_range(usual_count);
    for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
      ChainStory story(seed, on_targets, kind, Wire::verbs);
      story.run();
      count(story.rdma_in_faults(), story.ended_in_faults());
      if (HasFailure()) return;
    }
    expect_rdma(seeds.first == 1 && seeds.count >= usual_count);
  }

 private:
  test::FabricCounts sum_;  // while faults came
  uint64_t ended_ = 0;      // reads and writes, meanwhile
};

TEST_F(VerbsSim, clients_see_one_chunk_whatever_fails) {
  run_stories(40, false);
}

TEST_F(VerbsSim, clients_see_one_chunk_on_targets_whatever_fails) {
  run_stories(15, true);
}

TEST_F(VerbsSim, clients_see_one_chunk_when_versions_come_late) {
  run_stories(15, false, Kind::late);
}

TEST_F(VerbsSim, removed_chunks_leave_no_name_whatever_fails) {
  run_stories(15, false, Kind::removing);
}

TEST_F(VerbsSim, targets_that_follow_one_another_do_not_wait_in_a_ring) {
  constexpr uint32_t kWrites = 400;
  const sim::SeedRange seeds = sim::seed_range(10);
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    RingStory story(seed, Wire::verbs);
    story.run(kWrites, seed % 2 == 0);
    count(story.rdma(), kWrites);
    if (HasFailure()) return;
  }
  expect_rdma(seeds.first == 1 && seeds.count >= 10);
}

TEST_F(VerbsSim, the_same_seed_leaves_the_same_trace) {
  const auto trace = [](uint64_t seed) {
    return ChainStory(seed, false, Kind::usual, Wire::verbs).run();
  };
  EXPECT_EQ(trace(3), trace(3));
  EXPECT_NE(trace(3), trace(4));
  EXPECT_EQ(RingStory(5, Wire::verbs).run(200, true), RingStory(5, Wire::verbs).run(200, true));
}

}  // namespace
}  // namespace penstock::chain
