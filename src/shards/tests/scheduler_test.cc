#include "../scheduler.h"

#include <deque>
#include <gtest/gtest.h>
#include <map>
#include <vector>

#include "penstock/sim.h"

namespace penstock::shards {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// A scheduler and operations that wait at it. Operations are handed on as a client would do it, one
// piece each, and land when the test says so.
class Rig {
 public:
  struct Job : IoOp {
    Flow* from = nullptr;
    IoClass io_class = IoClass::small;
    bool begun = false;
    bool over = false;
  };
  struct Sent {
    Job* job = nullptr;
    UnderWay piece;
  };

  Rig() : world(7), loop(world), scheduler(loop, company, [this] { pump(); }) {}
  ~Rig() {
    while (!under_way.empty()) land();
    EXPECT_FALSE(scheduler.has_waiting());
  }

  Job& submit(Flow& flow, uint64_t length, IoKind kind = IoKind::read, bool durable = false) {
    Job& job = jobs.emplace_back();
    job.from = job.flow = &flow;
    job.kind = kind;
    job.durable = durable;
    job.memory.length = length;
    job.io_class = Scheduler::class_of(job);
    if (job.io_class == IoClass::small) scheduler.note_small();
    if (!scheduler.may_begin(flow, job.io_class)) {
      scheduler.add_unstarted(job, flow, job.io_class);
    } else {
      begin(job);
      if (scheduler.passes(flow, job.io_class)) {
        send(job);
        return job;
      }
      scheduler.add(job, flow, job.io_class);
    }
    pump();
    return job;
  }
  void pump() {
    for (auto next = scheduler.next(); next.io != nullptr; next = scheduler.next()) {
      auto& job = static_cast<Job&>(*next.io);
      if (!job.begun) begin(job);
      send(job);
      scheduler.end_dispatch(next);
    }
  }
  // The oldest ends.
  void land() {
    const Sent sent = under_way.front();
    under_way.pop_front();
    scheduler.landed(sent.job->io_class, sent.piece);
    scheduler.ended(*sent.job->from);
    ++landed;
    sent.job->over = true;
    bytes[sent.job->from] += sent.job->memory.length;
    pump();
  }
  void pass(engine::Duration time) {
    world.run_for(time);
    loop.poll();
  }
  void cancel(Job& job) {
    scheduler.remove(job, *job.from, job.io_class);
    if (job.begun) scheduler.ended(*job.from);
    job.internal = nullptr;
    job.over = true;
  }

  void drop_waiting() {
    for (Job& job : jobs) {
      if (job.linked()) cancel(job);
    }
    while (!jobs.empty() && jobs.front().over) jobs.pop_front();
  }

  sim::SimWorld world;
  sim::SimLoop loop;
  Company company;
  Scheduler scheduler;
  std::deque<Job> jobs;
  std::deque<Sent> under_way;
  std::map<Flow*, uint64_t> bytes;  // that landed
  uint64_t landed = 0;

 private:
  void begin(Job& job) {
    job.internal = &job;
    job.begun = true;
    scheduler.begun(*job.from);
  }
  void send(Job& job) {
    Sent& sent = under_way.emplace_back(Sent{&job, {}});
    sent.piece.length = static_cast<uint32_t>(job.memory.length);
    scheduler.sent(job, *job.from, job.io_class, true, sent.piece);
  }
};

struct User {
  explicit User(uint32_t weight = 100) {
    EXPECT_TRUE(terms.set({.weight = weight}).ok());
    flow.join(nullptr, &terms);
  }
  Terms terms;
  Flow flow;
};

struct Ring {
  explicit Ring(Flow& above) { flow.join(&above, nullptr); }
  Flow flow;
};

TEST(SchedulerTest, nothing_waits_while_the_bounds_are_open) {
  Flow flow;
  Rig rig;
  for (int i = 0; i < 512; ++i) rig.submit(flow, 4096);
  EXPECT_EQ(rig.under_way.size(), 512u);
  EXPECT_FALSE(rig.scheduler.has_waiting());
  rig.submit(flow, 4096);
  EXPECT_TRUE(rig.scheduler.has_waiting());
  rig.land();
  EXPECT_EQ(rig.under_way.size(), 512u);
  EXPECT_FALSE(rig.scheduler.has_waiting());
}

TEST(SchedulerTest, a_small_read_goes_at_once_beside_a_flood) {
  Flow flood, small;
  Rig rig;
  for (int i = 0; i < 1000; ++i) rig.submit(flood, kMiB);
  EXPECT_EQ(rig.under_way.size(), 16u);
  rig.submit(small, 4096);
  EXPECT_EQ(rig.under_way.size(), 17u);
  EXPECT_EQ(rig.under_way.back().job->from, &small);
  // From now on less of the flood is ahead of the next small one.
  for (int i = 0; i < 17; ++i) rig.land();
  EXPECT_EQ(rig.under_way.size(), 1u);
  rig.submit(small, 4096);
  EXPECT_EQ(rig.under_way.size(), 2u);
}

TEST(SchedulerTest, large_reads_get_what_the_disk_moves_in_the_time_of_small_ones) {
  Flow flood, small;
  Rig rig;
  // A disk that moves 1 MiB in 100 µs, whatever it has, and answers small reads in 500.
  const auto last = [&] { return rig.scheduler.bound(IoClass::read); };
  for (int i = 0; i < 1000; ++i) rig.submit(flood, kMiB);
  for (int i = 0; i < 100; ++i) {
    rig.pass(microseconds(100));
    rig.land();
  }
  EXPECT_NEAR(static_cast<double>(last()), 40e6, 10e6);  // 4 ms of 10 GB/s
  rig.submit(small, 4096);
  EXPECT_NEAR(static_cast<double>(last()), 2.6e6, 0.7e6);  // a quarter of a millisecond
  // Nothing small for a while: as before.
  rig.pass(milliseconds(300));
  EXPECT_GE(last(), 16 * kMiB);
}

TEST(SchedulerTest, many_small_reads_hold_a_flood_back_more_than_few_do) {
  Flow flood, small;
  Rig rig;
  constexpr uint64_t kPiece = 128 * kKiB;
  // First come, first served, 25 µs each: ten pieces in a quarter of a millisecond, four in a
  // tenth, and behind these a read takes so long that there may be eight.
  const auto most_beside_a_read_every = [&](engine::Duration gap) {
    uint64_t most = 0;
    engine::Time next = rig.world.now();
    const engine::Time settled = next + milliseconds(300);
    const engine::Time end = next + milliseconds(800);
    while (rig.world.now() < end) {
      if (rig.world.now() >= next) {
        rig.submit(small, 4096);
        next += gap;
      }
      for (int i = 0; i < 4; ++i) rig.submit(flood, kPiece);
      if (rig.world.now() > settled) {
        most = std::max(most, rig.scheduler.under_way(IoClass::read));
      }
      rig.pass(microseconds(25));
      rig.land();
      rig.drop_waiting();
    }
    while (!rig.under_way.empty()) rig.land();
    return most;
  };
  EXPECT_LE(most_beside_a_read_every(milliseconds(5)), 8 * kPiece);
  EXPECT_GE(most_beside_a_read_every(milliseconds(100)), 10 * kPiece);
}

TEST(SchedulerTest, a_disk_that_is_slow_to_answer_gets_more_at_a_time) {
  Flow flood, small;
  Rig rig;
  // Each piece takes a millisecond, and as many as there are go on at once.
  const auto rounds = [&](int count) {
    for (int round = 0; round < count; ++round) {
      for (int i = 0; i < 300; ++i) rig.submit(flood, 256 * kKiB);
      rig.submit(small, 4096);
      rig.pass(milliseconds(1));
      for (size_t left = rig.under_way.size(); left > 0; --left) rig.land();
      rig.drop_waiting();
    }
  };
  rounds(300);
  EXPECT_GT(rig.scheduler.bound(IoClass::read), 8 * kMiB);
}

TEST(SchedulerTest, what_the_flood_costs_small_reads_is_not_taken_for_a_slow_disk) {
  Flow flood, small;
  Rig rig;
  uint64_t most = 0;
  // First come, first served: 1 MiB in a millisecond.
  for (int round = 0; round < 400; ++round) {
    for (int i = 0; i < 100; ++i) rig.submit(flood, 256 * kKiB);
    rig.submit(small, 4096);
    const uint64_t ahead = rig.scheduler.under_way(IoClass::read);
    if (round > 100) most = std::max(most, ahead);
    while (rig.bytes[&small] == 0) {
      rig.pass(
          std::chrono::nanoseconds(rig.under_way.front().job->memory.length * 1'000'000 / kMiB));
      rig.land();
    }
    rig.bytes[&small] = 0;
    rig.drop_waiting();
  }
  EXPECT_LE(most, kMiB);
}

TEST(SchedulerTest, users_share_by_weight_however_many_rings_they_have) {
  User one, ten(300);
  Ring alone(one.flow);
  std::deque<Ring> many;
  for (int i = 0; i < 10; ++i) many.emplace_back(ten.flow);
  Rig rig;
  for (int i = 0; i < 1000; ++i) rig.submit(alone.flow, kMiB);
  for (int i = 0; i < 1000; ++i) rig.submit(many[i % 10].flow, kMiB);
  // What went before any operation waited.
  for (int i = 0; i < 16; ++i) rig.land();
  rig.bytes.clear();
  for (int i = 0; i < 400; ++i) rig.land();
  uint64_t sum = 0;
  for (Ring& ring : many) {
    EXPECT_EQ(rig.bytes[&ring.flow], 30 * kMiB);
    sum += rig.bytes[&ring.flow];
  }
  EXPECT_EQ(sum, 3 * rig.bytes[&alone.flow]);
  EXPECT_EQ(rig.bytes[&alone.flow], 100 * kMiB);
}

TEST(SchedulerTest, sessions_of_a_user_share_alike) {
  User user;
  Ring session_a(user.flow), session_b(user.flow);
  Ring a(session_a.flow);
  std::deque<Ring> b;
  for (int i = 0; i < 4; ++i) b.emplace_back(session_b.flow);
  Rig rig;
  for (int i = 0; i < 600; ++i) rig.submit(a.flow, kMiB);
  for (int i = 0; i < 600; ++i) rig.submit(b[i % 4].flow, kMiB);
  for (int i = 0; i < 16; ++i) rig.land();
  rig.bytes.clear();
  for (int i = 0; i < 400; ++i) rig.land();
  EXPECT_EQ(rig.bytes[&a.flow], 200 * kMiB);
  for (Ring& ring : b) EXPECT_EQ(rig.bytes[&ring.flow], 50 * kMiB);
}

TEST(SchedulerTest, sizes_do_not_matter_for_shares) {
  User large, small;
  Rig rig;
  for (int i = 0; i < 1000; ++i) rig.submit(large.flow, kMiB);
  for (int i = 0; i < 2000; ++i) rig.submit(small.flow, 128 * kKiB);
  for (int i = 0; i < 16; ++i) rig.land();
  rig.bytes.clear();
  while (rig.bytes[&large.flow] < 100 * kMiB) rig.land();
  // An operation costs 16 KiB beside its bytes.
  EXPECT_NEAR(static_cast<double>(rig.bytes[&small.flow]) / kMiB, 100 * (1040.0 / 1024) * 128 / 144,
              1.5);
}

TEST(SchedulerTest, who_asks_for_one_thing_at_a_time_is_not_behind_a_queue) {
  User flood, patient;
  Rig rig;
  for (int i = 0; i < 3000; ++i) rig.submit(flood.flow, 4096);
  uint64_t most = 0;
  for (int round = 0; round < 50; ++round) {
    Rig::Job& job = rig.submit(patient.flow, 4096);
    const uint64_t before = rig.landed;
    while (job.begun && rig.bytes[&patient.flow] == 0) rig.land();
    most = std::max(most, rig.landed - before);
    rig.bytes[&patient.flow] = 0;
  }
  // What was under way already, and a turn of the other's.
  EXPECT_LE(most, 512u + 5u);
}

TEST(SchedulerTest, one_user_leaves_places_for_the_next) {
  User greedy, other, third;
  Rig rig;
  for (uint32_t i = 0; i < 2 * kIoOpsMax; ++i) rig.submit(greedy.flow, 4096);
  EXPECT_TRUE(rig.scheduler.may_begin(other.flow, IoClass::small));
  EXPECT_FALSE(rig.scheduler.may_begin(greedy.flow, IoClass::small));
  for (uint32_t i = 0; i < kIoOpsMax; ++i) rig.submit(other.flow, 4096);
  EXPECT_FALSE(rig.scheduler.may_begin(other.flow, IoClass::small));
  EXPECT_TRUE(rig.scheduler.may_begin(third.flow, IoClass::small));
  // All of it goes on.
  while (!rig.under_way.empty()) rig.land();
  EXPECT_EQ(rig.landed, 3 * kIoOpsMax);
}

TEST(SchedulerTest, a_limit_on_operations_under_way_holds) {
  User user;
  EXPECT_TRUE(user.terms.set({.operations_in_flight = 3}).ok());
  Rig rig;
  for (int i = 0; i < 10; ++i) rig.submit(user.flow, 4096);
  EXPECT_EQ(rig.under_way.size(), 3u);
  for (int i = 0; i < 7; ++i) {
    rig.land();
    EXPECT_EQ(rig.under_way.size(), 3u);
  }
}

TEST(SchedulerTest, limits_by_the_second_hold_and_bind_nobody_else) {
  User limited, other;
  EXPECT_TRUE(limited.terms.set({.operations_per_second = 1000}).ok());
  Rig rig;
  for (int i = 0; i < 2000; ++i) rig.submit(limited.flow, 4096);
  for (int i = 0; i < 500; ++i) rig.submit(other.flow, 4096);
  for (int step = 0; step < 1000; ++step) {
    rig.pass(milliseconds(1));
    while (!rig.under_way.empty()) rig.land();
  }
  EXPECT_EQ(rig.bytes[&other.flow], 500u * 4096);
  EXPECT_NEAR(static_cast<double>(rig.bytes[&limited.flow]) / 4096, 1000, 15);
  // Without the limit the rest goes at once.
  EXPECT_TRUE(limited.terms.set({}).ok());
  rig.pass(milliseconds(200));
  while (!rig.under_way.empty()) rig.land();
  EXPECT_EQ(rig.bytes[&limited.flow], 2000u * 4096);
}

TEST(SchedulerTest, a_limit_that_is_lifted_holds_nobody_any_more) {
  User limited;
  EXPECT_TRUE(limited.terms.set({.bytes_per_second = 1}).ok());
  Rig rig;
  rig.submit(limited.flow, 4096);
  rig.submit(limited.flow, 4096);
  rig.pass(std::chrono::seconds(10));
  EXPECT_EQ(rig.under_way.size(), 1u);
  EXPECT_TRUE(limited.terms.set({}).ok());
  rig.pass(milliseconds(200));
  EXPECT_EQ(rig.under_way.size(), 2u);
}

TEST(SchedulerTest, bytes_are_limited_across_shards) {
  User limited;
  EXPECT_TRUE(limited.terms.set({.bytes_per_second = 100 * kMiB}).ok());
  Flow elsewhere;
  elsewhere.join(nullptr, &limited.terms);
  Rig here;
  // Another shard has used a second's worth.
  limited.terms.charge(here.loop.now(), 100 * kMiB, true);
  here.submit(limited.flow, kMiB);
  here.pass(milliseconds(900));
  EXPECT_TRUE(here.under_way.empty());
  here.pass(milliseconds(100));
  EXPECT_EQ(here.under_way.size(), 1u);
}

TEST(SchedulerTest, what_waits_can_be_taken_back) {
  User user, limited, few;
  EXPECT_TRUE(limited.terms.set({.operations_per_second = 1}).ok());
  EXPECT_TRUE(few.terms.set({.operations_in_flight = 1}).ok());
  Rig rig;
  std::vector<Rig::Job*> waiting;
  for (int i = 0; i < 20; ++i) rig.submit(user.flow, kMiB);
  waiting.push_back(&rig.submit(user.flow, kMiB));
  rig.submit(limited.flow, 4096);
  waiting.push_back(&rig.submit(limited.flow, 4096));
  waiting.push_back(&rig.submit(limited.flow, 4096));
  rig.submit(few.flow, 4096);
  waiting.push_back(&rig.submit(few.flow, 4096));
  waiting.push_back(&rig.submit(few.flow, 4096));
  const uint64_t before = rig.landed + rig.under_way.size();
  for (Rig::Job* job : waiting) {
    ASSERT_TRUE(job->linked());
    rig.cancel(*job);
  }
  while (!rig.under_way.empty()) rig.land();
  EXPECT_EQ(rig.landed, before + 4);  // the four large ones that waited and were not taken back
  EXPECT_FALSE(rig.scheduler.has_waiting());
}

TEST(SchedulerTest, writes_and_reads_have_bounds_of_their_own) {
  Flow reads, writes, small;
  Rig rig;
  for (int i = 0; i < 100; ++i) rig.submit(writes, 4 * kMiB, IoKind::write, true);
  for (int i = 0; i < 100; ++i) rig.submit(reads, kMiB);
  EXPECT_EQ(rig.scheduler.under_way(IoClass::write), 64 * kMiB);
  EXPECT_EQ(rig.scheduler.under_way(IoClass::read), 16 * kMiB);
  // Small durable writes wait for commits: they are no load that a small read would wait behind.
  for (int i = 0; i < 1000; ++i) rig.submit(small, 4096, IoKind::write, true);
  EXPECT_EQ(rig.scheduler.under_way(IoClass::small), 0u);
  while (!rig.under_way.empty()) rig.land();
}

TEST(SchedulerTest, what_is_marked_counts_as_such) {
  IoOp op;
  op.memory.length = 4 * kMiB;
  EXPECT_EQ(Scheduler::class_of(op), IoClass::read);
  op.traffic = Traffic::latency;
  EXPECT_EQ(Scheduler::class_of(op), IoClass::small);
  op.memory.length = 4096;
  op.traffic = Traffic::throughput;
  EXPECT_EQ(Scheduler::class_of(op), IoClass::read);
  op.kind = IoKind::write;
  EXPECT_EQ(Scheduler::class_of(op), IoClass::write);
  op.kind = IoKind::sync;
  EXPECT_EQ(Scheduler::class_of(op), IoClass::small);
}

TEST(SchedulerTest, a_weight_is_checked) {
  Terms terms;
  EXPECT_EQ(terms.set({.weight = 0}), Status(Code::invalid_argument));
  EXPECT_EQ(terms.set({.weight = kWeightMax + 1}), Status(Code::invalid_argument));
  EXPECT_TRUE(terms.set({.weight = 1, .bytes_per_second = 5}).ok());
  EXPECT_EQ(terms.allowance(), (Allowance{.weight = 1, .bytes_per_second = 5}));
}

}  // namespace
}  // namespace penstock::shards
