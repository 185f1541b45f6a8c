// What a target still has of chains in which it has no part any more.
#include "three_replicas.h"

namespace penstock::chain {
namespace {

using std::chrono::seconds;

class RemainsTest : public ThreeReplicas {
 protected:
  void write_some(uint32_t chunks) {
    for (uint32_t i = 0; i < chunks; ++i)
      ASSERT_EQ(write(i, 0, "chunk " + std::to_string(i)), Code::ok);
  }
  // Without the third one, whether it is listed as waiting or not at all.
  void adopt_two() { adopt({Standing::serving, Standing::serving}); }
  size_t chunks(uint32_t number) { return replica(number).image.chunks().size(); }
  void expect_repaired() {
    const auto is_repaired = [this] {
      for (const Report& report : replica(2).reports) {
        if (report.kind == Report::Kind::repaired && report.version == version_) return true;
      }
      return false;
    };
    EXPECT_TRUE(world_.run_until(is_repaired, seconds(60)));
  }
};

TEST_F(RemainsTest, go_when_the_chain_has_its_copies_elsewhere) {
  write_some(600);
  ASSERT_EQ(chunks(3), 600U);
  adopt_two();
  world_.run_for(seconds(10));
  EXPECT_EQ(chunks(3), 0U);
  EXPECT_EQ(chunks(1), 600U);
  EXPECT_EQ(read(7, 0, 7), "chunk 7");
  expect_nobody_left();
}

TEST_F(RemainsTest, stay_while_the_target_waits_for_its_turn) {
  write_some(10);
  adopt({Standing::serving, Standing::serving, Standing::waiting});
  world_.run_for(seconds(10));
  EXPECT_EQ(chunks(3), 10U);
}

TEST_F(RemainsTest, never_meet_repair_when_the_target_comes_back) {
  write_some(600);
  for (int turns = 0; turns < 40; ++turns) {
    adopt_two();
    // At another moment of their going each time.
    for (int i = 0; i < turns; ++i) world_.run_for(std::chrono::microseconds(200));
    adopt({Standing::serving, Standing::serving, Standing::syncing});
    expect_repaired();
    ASSERT_EQ(chunks(3), 600U) << turns;
    for (const uint32_t chunk : {0U, 7U, 300U, 599U}) {
      ASSERT_EQ(bytes(3, chunk), "chunk " + std::to_string(chunk)) << turns;
    }
    adopt({Standing::serving, Standing::serving, Standing::serving});
  }
  expect_nobody_left();
}

TEST_F(RemainsTest, of_an_earlier_life_go_when_the_map_says_so) {
  write_some(10);
  Replica& third = replica(3);
  third.net.kill();
  third.host = nullptr;
  third.host = Host::make({.target = TargetId{3},
                           .incarnation = 2,
                           .loop = &third.loop,
                           .net = &third.net,
                           .store = &third.store,
                           .report = [](const Report&) {}});
  third.host->leave(kFirstChain);
  world_.run_for(seconds(10));
  EXPECT_EQ(chunks(3), 0U);
}

}  // namespace
}  // namespace penstock::chain
