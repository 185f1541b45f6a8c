// Very many calls that end at every moment of their way, in memory that is given to others at once.
#include "nodes.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <map>

namespace penstock::verbs {
namespace {

using engine::Access;
using engine::CallOp;
using engine::IncomingCall;
using engine::Op;
using engine::TransferOp;

// PENSTOCK_CALLS=1000000 for a long run.
uint64_t wanted_calls() {
  const char* const text = std::getenv("PENSTOCK_CALLS");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 20'000;
}

uint64_t seed() {
  const char* const text = std::getenv("PENSTOCK_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 0) : 1;
}

// Which bytes the network may write to now. Everything else belongs to somebody else.
class Owners {
 public:
  void open(MutableBytes bytes) { open_[bytes.data()] = bytes.size(); }
  void close(MutableBytes bytes) { ASSERT_EQ(open_.erase(bytes.data()), 1u); }
  void written(MutableBytes bytes) {
    auto after = open_.upper_bound(bytes.data());
    if (after != open_.begin()) {
      const auto& [start, length] = *std::prev(after);
      if (range_within(static_cast<uint64_t>(bytes.data() - start), bytes.size(), length)) return;
    }
    ++late;
  }
  uint64_t late = 0;  // packets that were written to what was not open

 private:
  std::map<std::byte*, uint64_t> open_;
};

// Moves bytes both ways for each call, a random while after it came, in random pieces; often
// answers late, so that the caller has given up before.
class StormService final : public engine::Service {
 public:
  StormService(Nodes& nodes, Owners& owners) : nodes_(nodes), owners_(owners) {}

  void on_call(IncomingCall& call) override {
    auto* const work = new Work{.service = this, .call = &call};
    work->left = static_cast<uint32_t>(nodes_.random.below(4));
    work->timer.owner = work;
    work->timer.completion = [](Op& op) {
      op.owner_as<Work>().service->go_on(op.owner_as<Work>());
    };
    wait(*work);
  }

 private:
  struct Work {
    StormService* service = nullptr;
    IncomingCall* call = nullptr;
    uint32_t left = 0;  // transfers
    engine::Timer timer{};
    TransferOp transfer{};
    std::vector<std::byte> bytes{};
  };

  void wait(Work& work) {
    const engine::Duration pause(
        static_cast<int64_t>(nodes_.random.below(nodes_.random.chance(1, 4) ? 2'000'000 : 50'000)));
    nodes_.loop.start(work.timer, nodes_.loop.now() + pause);
  }

  void go_on(Work& work) {
    IncomingCall& call = *work.call;
    if (work.left == 0 || call.exposure_count == 0) {
      call.reply(Code::ok, {});
      delete &work;
      return;
    }
    --work.left;
    const auto index = static_cast<uint32_t>(nodes_.random.below(call.exposure_count));
    const uint64_t length = call.exposure_length(index);
    const uint64_t offset = nodes_.random.below(length + 1);
    work.bytes.assign(nodes_.random.below(length - offset + 1), std::byte{0x5a});
    TransferOp& op = work.transfer;
    op.call = &call;
    op.exposure = index;
    op.exposure_offset = offset;
    op.local = {work.bytes.data(), work.bytes.size(), engine::kNoBuffer, engine::MemoryKind::host};
    op.owner = &work;
    op.completion = [](Op& done) {
      auto& self = done.owner_as<Work>();
      if (self.call->exposure_access(self.transfer.exposure) == Access::fetch &&
          !self.bytes.empty()) {
        self.service->owners_.close(self.bytes);
      }
      self.service->wait(self);
    };
    if (call.exposure_access(index) == Access::place) return call.place(op);
    if (!work.bytes.empty()) owners_.open(work.bytes);
    call.fetch(op);
  }

  Nodes& nodes_;
  Owners& owners_;
};

// One caller that calls again and again, each time with another part of its memory. Between two
// calls it is somebody else's, who would notice a change.
class Storm {
 public:
  static constexpr uint64_t kBytes = 48 * kKiB;
  static constexpr uint32_t kCallers = 24;

  explicit Storm(uint64_t calls, NetConfig config = {}, uint64_t number = seed())
      : nodes(number, config), service(nodes, owners), left(calls) {
    // Connections are lost by the thousand here.
    log::set_level(log::Level::error);
    nodes.far->serve(kService, service);
    nodes.fabric.on_write = [this](MutableBytes bytes) { owners.written(bytes); };
    for (uint32_t i = 0; i < kCallers; ++i) {
      auto& caller = *callers.emplace_back(std::make_unique<Caller>());
      caller.storm = this;
      caller.memory.resize(kBytes);
      // The others' is registered for each call.
      if (i % 2 == 0) nodes.near->announce({caller.memory});
      caller.pause.owner = caller.op.owner = &caller;
      caller.pause.completion = [](Op& op) { op.owner_as<Caller>().start(); };
      caller.op.completion = [](Op& op) { op.owner_as<Caller>().ended(); };
    }
  }

  void run() {
    for (const auto& caller : callers) caller->start();
    // Far more than it takes: nothing hangs.
    uint64_t turns = 100'000 + left * 2'000;
    while (running() && --turns > 0) nodes.turn();
    ASSERT_GT(turns, 0u) << "calls did not end";
    nodes.far->withdraw(kService);
    nodes.turns(2'000);
    nodes.close();
  }

  bool running() const {
    return std::ranges::any_of(callers, [](const auto& caller) { return caller->busy; });
  }

  struct Caller {
    Storm* storm = nullptr;
    CallOp op;
    engine::Timer pause;
    std::vector<std::byte> memory;
    bool busy = false;

    void start() {
      if (storm->left == 0) {
        busy = false;
        return;
      }
      --storm->left;
      busy = true;
      engine::Random& random = storm->nodes.random;
      op.to = kService;
      op.exposure_count = static_cast<uint32_t>(random.below(engine::kNetExposuresMax + 1));
      uint64_t at = 0;
      for (uint32_t i = 0; i < op.exposure_count; ++i) {
        const uint64_t length = random.below(kBytes / engine::kNetExposuresMax);
        op.exposures[i] = {{memory.data() + at, length, engine::kNoBuffer, {}},
                           random.chance(2, 3) ? Access::place : Access::fetch};
        if (op.exposures[i].access == Access::place && length != 0) {
          storm->owners.open(op.exposures[i].memory.bytes());
        }
        at += length + 1;
      }
      op.deadline = random.chance(1, 8)
                        ? engine::kNever
                        : storm->nodes.clock.now() +
                              engine::Duration(static_cast<int64_t>(1 + random.below(1'500'000)));
      storm->nodes.near->call(op);
    }

    void ended() {
      ++storm->ends[op.status.code()];
      for (uint32_t i = 0; i < op.exposure_count; ++i) {
        if (op.exposures[i].access == Access::place && op.exposures[i].memory.length != 0) {
          storm->owners.close(op.exposures[i].memory.bytes());
        }
      }
      // For how long it is somebody else's.
      const auto others = static_cast<int64_t>(storm->nodes.random.below(400));
      storm->nodes.loop.start(pause, storm->nodes.loop.now() + std::chrono::microseconds(others));
    }
  };

  Nodes nodes;
  Owners owners;
  StormService service;
  uint64_t left;
  std::vector<std::unique_ptr<Caller>> callers;
  std::map<Code, uint64_t> ends;
};

NetConfig forced_at_once() {
  NetConfig config;
  config.patience.release = engine::Duration::zero();
  return config;
}

void report(Storm& storm, const VerbsNet& near) {
  const NetCounts counts = near.counts();
  const test::FabricCounts& fabric = storm.nodes.fabric.counts;
  const auto told = [](const char* name, uint64_t value) {
    testing::Test::RecordProperty(name, std::to_string(value));
    std::printf("  %s %llu", name, static_cast<unsigned long long>(value));
  };
  told("requested", counts.calls);
  told("windows", counts.windows_bound);
  told("forced", counts.forced);
  told("links_lost", counts.links_lost);
  told("packets_written", fabric.packets_written);
  told("refused", fabric.refused);
  told("cut", fabric.cut);
  told("broken", fabric.broken);
  told("late", storm.owners.late);
  for (const auto& [code, count] : storm.ends) {
    told(std::string(Status(code).name()).c_str(), count);
  }
  std::printf("\n");
}

TEST(Storm, no_late_write_lands_when_servers_stop_by_themselves) {
  Storm storm(wanted_calls());
  storm.nodes.fabric.faults.breaks = 5;
  const VerbsNet& near = *storm.nodes.near;
  storm.nodes.far_device.steps_each_poll = 8;
  for (const auto& caller : storm.callers) caller->start();
  while (storm.running()) storm.nodes.turn();
  report(storm, near);
  EXPECT_EQ(storm.owners.late, 0u);
  // Who has released a call has nothing of it under way.
  EXPECT_EQ(storm.nodes.fabric.counts.refused, 0u);
  EXPECT_GT(storm.ends[Code::ok], 0u);
  EXPECT_GT(storm.ends[Code::timed_out], 0u);
  EXPECT_GT(storm.ends[Code::peer_gone], 0u);
  storm.nodes.far->withdraw(kService);
  storm.nodes.turns(2'000);
}

TEST(Storm, no_late_write_lands_when_windows_are_closed_by_force) {
  Storm storm(wanted_calls(), forced_at_once());
  const VerbsNet& near = *storm.nodes.near;
  storm.nodes.fabric.packet_bytes = 512;
  for (const auto& caller : storm.callers) caller->start();
  while (storm.running()) storm.nodes.turn();
  report(storm, near);
  EXPECT_EQ(storm.owners.late, 0u);
  EXPECT_GT(near.counts().forced, 0u);
  EXPECT_GT(storm.nodes.fabric.counts.refused, 0u);
  EXPECT_GT(storm.nodes.fabric.counts.cut, 0u);
  storm.nodes.far->withdraw(kService);
  storm.nodes.turns(2'000);
}

// Soft-RoCE: what was looked up before an invalidation is copied after it.
TEST(Storm, no_late_write_lands_where_windows_do_not_close_at_once) {
  Storm storm(wanted_calls(), forced_at_once());
  const VerbsNet& near = *storm.nodes.near;
  storm.nodes.fabric.packet_bytes = 512;
  storm.nodes.fabric.faults.slow_copies = true;
  storm.nodes.near_device.set_closes_at_once(false);
  for (const auto& caller : storm.callers) caller->start();
  while (storm.running()) storm.nodes.turn();
  report(storm, near);
  EXPECT_EQ(storm.owners.late, 0u);
  EXPECT_GT(near.counts().forced, 0u);
  storm.nodes.far->withdraw(kService);
  storm.nodes.turns(2'000);
}

TEST(Storm, the_test_sees_late_copies_when_the_device_is_believed) {
  Storm storm(20'000, forced_at_once());
  storm.nodes.fabric.packet_bytes = 512;
  storm.nodes.fabric.faults.slow_copies = true;
  for (const auto& caller : storm.callers) caller->start();
  while (storm.running()) storm.nodes.turn();
  EXPECT_GT(storm.owners.late, 0u);
  storm.nodes.far->withdraw(kService);
  storm.nodes.turns(2'000);
}

TEST(Storm, the_test_sees_late_writes_when_windows_stay_open) {
  Storm storm(5'000, forced_at_once());
  storm.nodes.fabric.faults.windows_stay_open = true;
  for (const auto& caller : storm.callers) caller->start();
  while (storm.running()) storm.nodes.turn();
  EXPECT_GT(storm.owners.late, 0u);
  storm.nodes.far->withdraw(kService);
  storm.nodes.turns(2'000);
}

TEST(Storm, the_same_seed_does_the_same) {
  const auto trace = [](uint64_t number) {
    Storm storm(1'000, {}, number);
    storm.nodes.fabric.faults.breaks = 100;
    storm.run();
    const test::FabricCounts& counts = storm.nodes.fabric.counts;
    return std::tuple(counts.steps, counts.packets_written, counts.refused, storm.ends);
  };
  EXPECT_EQ(trace(7), trace(7));
  EXPECT_NE(trace(7), trace(8));
}

}  // namespace
}  // namespace penstock::verbs
