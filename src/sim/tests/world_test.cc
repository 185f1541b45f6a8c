#include <gtest/gtest.h>

#include "penstock/sim.h"

namespace penstock::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Ping : engine::Op {};

TEST(SimWorld, time_passes_only_when_the_loop_is_idle) {
  SimWorld world(1);
  SimLoop loop(world);
  engine::PollingCaller caller;
  const Time start = world.now();
  ASSERT_TRUE(caller.call(loop, [&](engine::Op& done) { loop.complete(done, Code::ok); }).ok());
  EXPECT_EQ(world.now(), start);
  engine::Timer timer;
  ASSERT_TRUE(caller
                  .call(loop,
                        [&](engine::Op& done) {
                          timer.owner = &done;
                          timer.completion = [](engine::Op& op) {
                            engine::Op& end = op.owner_as<engine::Op>();
                            end.completion(end);
                          };
                          loop.start(timer, start + seconds(5));
                        })
                  .ok());
  EXPECT_EQ(world.now(), start + seconds(5));
}

TEST(SimWorld, events_run_in_order_of_time_and_then_of_scheduling) {
  SimWorld world(1);
  std::vector<int> log;
  world.after(seconds(2), "c", [&] { log.push_back(3); });
  world.after(seconds(1), "a", [&] { log.push_back(1); });
  world.after(seconds(1), "b", [&] { log.push_back(2); });
  const auto dropped = world.after(seconds(1), "d", [&] { log.push_back(9); });
  world.cancel(dropped);
  world.cancel(dropped);
  world.run_for(seconds(3));
  EXPECT_EQ(log, (std::vector<int>{1, 2, 3}));
}

TEST(SimWorld, an_idle_loop_lets_the_others_run) {
  SimWorld world(1);
  SimLoop near(world);
  SimLoop far(world);
  // A message to the far loop, which answers after a while.
  struct Hop : engine::Op {
    SimLoop* far = nullptr;
    SimLoop* near = nullptr;
    engine::Timer timer;
    engine::Op* done = nullptr;
  } hop;
  hop.far = &far;
  hop.near = &near;
  hop.completion = [](engine::Op& op) {
    auto& self = static_cast<Hop&>(op);
    self.timer.owner = &self;
    self.timer.completion = [](engine::Op& timer) {
      Hop& back = timer.owner_as<Hop>();
      back.near->complete_remote(*back.done, Code::busy);
    };
    self.far->start(self.timer, self.far->now() + milliseconds(7));
  };
  engine::PollingCaller caller;
  const Time start = world.now();
  const Status status = caller.call(near, [&](engine::Op& done) {
    hop.done = &done;
    far.complete_remote(hop, Code::ok);
  });
  EXPECT_EQ(status, Status(Code::busy));
  EXPECT_EQ(world.now(), start + milliseconds(7));
}

TEST(SimWorldDeathTest, a_deadlock_aborts_and_names_the_seed) {
  EXPECT_DEATH(
      {
        SimWorld world(4711);
        SimLoop loop(world);
        engine::PollingCaller caller;
        (void)caller.call(loop, [](engine::Op&) {});
      },
      "seed 4711.*deadlock");
}

TEST(SimWorld, the_same_seed_gives_the_same_trace) {
  const auto run = [](uint64_t seed) {
    SimWorld world(seed);
    for (int i = 0; i < 100; ++i) {
      world.after(world.between(seconds(0), seconds(9)), "x", [&, i] { world.trace("i", i); });
    }
    world.run_for(seconds(10));
    return world.trace_hash();
  };
  EXPECT_EQ(run(3), run(3));
  EXPECT_NE(run(3), run(4));
}

}  // namespace
}  // namespace penstock::sim
