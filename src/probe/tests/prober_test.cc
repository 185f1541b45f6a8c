#include "tests/sim_peers.h"

#include <atomic>
#include <gtest/gtest.h>
#include <thread>

#include "penstock/net.h"

namespace penstock::probe {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Prober, measures_what_the_plan_says) {
  SimPeers sim(2);
  Awaited<ProbeOp> op;
  op.net = &sim.peer(1).net;
  op.to = {NodeId(2), kService};
  op.plan = check_plan(milliseconds(500));
  probe(sim.peer(1).loop, op);
  ASSERT_TRUE(sim.world.run_until([&] { return op.is_over; }, seconds(30)));
  ASSERT_TRUE(op.status.ok()) << op.status.name();
  ASSERT_EQ(op.figures.size(), 3U);
  for (const Figures& figures : op.figures) {
    EXPECT_GT(figures.calls, 10U);
    EXPECT_GT(figures.calls_per_second(), 0);
    // There and back again, each between 1 and 2 ms; and two messages for what is transferred.
    EXPECT_GE(figures.median, milliseconds(2));
    EXPECT_LE(figures.p99, milliseconds(8));
    EXPECT_LE(figures.median, figures.p99);
    EXPECT_LE(figures.seconds, 0.25);
  }
  EXPECT_EQ(sim.peer(2).service.in_progress(), 0U);
}

TEST(Prober, does_one_call_at_least_however_short_the_time_is) {
  SimPeers sim(2);
  Awaited<ProbeOp> op;
  op.net = &sim.peer(1).net;
  op.to = {NodeId(2), kService};
  op.plan = {{Workload::Kind::fetch, 4096, 1, engine::Duration(1)}};
  probe(sim.peer(1).loop, op);
  ASSERT_TRUE(sim.world.run_until([&] { return op.is_over; }, seconds(30)));
  ASSERT_EQ(op.figures.size(), 1U);
  EXPECT_EQ(op.figures[0].calls, 1U);
  EXPECT_GT(op.figures[0].calls_per_second(), 0);
}

TEST(Prober, ends_in_bounded_time_when_nobody_answers) {
  SimPeers sim(2);
  sim.network.set_partitioned(NodeId(1), NodeId(2), true);
  Awaited<ProbeOp> op;
  op.net = &sim.peer(1).net;
  op.to = {NodeId(2), kService};
  op.plan = check_plan(milliseconds(500));
  const engine::Time begun = sim.world.now();
  probe(sim.peer(1).loop, op);
  ASSERT_TRUE(sim.world.run_until([&] { return op.is_over; }, seconds(30)));
  EXPECT_FALSE(op.status.ok());
  EXPECT_TRUE(op.figures.empty());
  EXPECT_LE(sim.world.now() - begun, limits::kReachTime + seconds(1));
}

TEST(Prober, keeps_what_it_has_measured_before_the_other_side_was_lost) {
  SimPeers sim(2);
  Awaited<ProbeOp> op;
  op.net = &sim.peer(1).net;
  op.to = {NodeId(2), kService};
  op.plan = check_plan(seconds(1));
  probe(sim.peer(1).loop, op);
  sim.world.run_for(milliseconds(300));  // of the second workload
  sim.network.set_partitioned(NodeId(1), NodeId(2), true);
  ASSERT_TRUE(sim.world.run_until([&] { return op.is_over; }, seconds(60)));
  EXPECT_FALSE(op.status.ok());
  ASSERT_FALSE(op.figures.empty());
  EXPECT_LT(op.figures.size(), 3U);
  sim.network.heal();
  sim.world.run_for(seconds(20));
  EXPECT_EQ(sim.peer(2).service.in_progress(), 0U);
}

// Answers "busy" so many times, and then as it should.
class Busy final : public engine::Service {
 public:
  explicit Busy(engine::Service& behind, int times) : behind_(behind), left_(times) {}
  void on_call(engine::IncomingCall& call) override {
    const bool is_echo = call.method == static_cast<uint16_t>(Method::echo);
    if (is_echo || left_ == 0) return behind_.on_call(call);
    --left_;
    call.reply(Code::busy, {});
  }

 private:
  engine::Service& behind_;
  int left_;
};

TEST(Prober, asks_again_after_busy_and_says_so_when_that_does_not_end) {
  for (const bool ends : {true, false}) {
    SimPeers sim(2);
    Busy busy(sim.peer(2).service, ends ? 5 : 1'000'000);
    sim.peer(2).net.withdraw({NodeId(2), kService});
    sim.peer(2).net.serve({NodeId(2), kService}, busy);
    Awaited<ProbeOp> op;
    op.net = &sim.peer(1).net;
    op.to = {NodeId(2), kService};
    op.plan = {{Workload::Kind::place, 4096, 2, milliseconds(300)}};
    probe(sim.peer(1).loop, op);
    ASSERT_TRUE(sim.world.run_until([&] { return op.is_over; }, seconds(30)));
    EXPECT_EQ(op.status, ends ? Status(Code::ok) : Status(Code::busy));
    EXPECT_EQ(op.figures.size(), ends ? 1U : 0U);
  }
}

TEST(Prober, measures_between_threads_of_one_process) {
  net::LocalNetwork network;
  engine::SeededRandom random{1};
  engine::FutexParker near_parker{engine::system_clock()}, far_parker{engine::system_clock()};
  engine::Loop near(engine::system_clock(), random, near_parker);
  engine::Loop far(engine::system_clock(), random, far_parker);
  net::LocalNet near_net(network, near), far_net(network, far);
  Service service({&far, nullptr, [] { return MachineFacts(); }});
  far_net.serve({NodeId(1), kService}, service);
  std::thread thread([&] { far.run(); });
  Awaited<ProbeOp> op;
  op.net = &near_net;
  op.to = {NodeId(1), kService};
  op.plan = check_plan(milliseconds(50));
  probe(near, op);
  while (!op.is_over) near.poll_or_park(engine::kNever);
  far.stop();
  thread.join();
  far_net.withdraw({NodeId(1), kService});
  ASSERT_TRUE(op.status.ok()) << op.status.name();
  ASSERT_EQ(op.figures.size(), 3U);
  for (const Figures& figures : op.figures) EXPECT_GT(figures.calls_per_second(), 0);
}

}  // namespace
}  // namespace penstock::probe
