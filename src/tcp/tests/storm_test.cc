// Calls of all sizes that end early at any moment, over real sockets and with the server in a
// thread of its own: memory of a call that has ended is never touched, and calls that end well are
// right.
#include "tests/node.h"

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>
#include <thread>

#include "penstock/testing_wires.h"

namespace penstock::tcp {
namespace {

using engine::Access;
using engine::Op;
using std::chrono::microseconds;

constexpr std::byte kCanary{0xc3};
constexpr size_t kBytesMax = 2 * kMiB;

// Fast, also where every access is instrumented.
bool all_are(Bytes bytes, std::byte value) {
  if (bytes.empty()) return true;
  return bytes[0] == value && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
}

class Storm {
 public:
  Storm(Node& node, uint64_t seed) : node_(node), random_(seed) {}

  void run(int calls, int at_once) {
    left_ = calls;
    for (int i = 0; i < at_once; ++i) {
      Caller& caller = *callers_.emplace_back(std::make_unique<Caller>());
      caller.storm = this;
      start(caller);
    }
    while (running_ != 0) {
      node_.loop().poll_or_park(engine::kNever);
      if (!random_.chance(1, 20)) continue;
      // Also one that has ended, or was sent long ago.
      node_.net().cancel(callers_[random_.below(callers_.size())]->op);
    }
    for (const auto& caller : callers_) expect_canary(*caller);
  }

  int ok = 0;
  int timed_out = 0;
  int cancelled = 0;
  int others = 0;

 private:
  struct Caller {
    TestCall op{kEcho};
    std::vector<std::byte> memory = std::vector<std::byte>(kBytesMax, kCanary);
    size_t bytes = 0;
    Storm* storm = nullptr;
  };

  static void expect_canary(const Caller& caller) {
    ASSERT_TRUE(all_are(caller.memory, kCanary)) << "written to after the call had ended";
  }

  void start(Caller& caller) {
    ++running_;
    --left_;
    TestCall& op = caller.op;
    op.to = kService;
    op.method = random_.chance(1, 2) ? kPlace : kFetch;
    const size_t most = size_t{1} << random_.below(22);
    caller.bytes = 1 + random_.below(std::min(most, kBytesMax));
    const auto content = static_cast<std::byte>(random_.below(200));
    op.request_bytes[0] = content;
    op.exposure_count = 0;
    op.expose(MutableBytes(caller.memory).first(caller.bytes),
              op.method == kPlace ? Access::place : Access::fetch);
    if (op.method == kFetch) std::fill_n(caller.memory.begin(), caller.bytes, content);
    op.deadline = engine::kNever;
    if (random_.chance(1, 2)) {
      op.deadline = node_.loop().clock().now() + microseconds(10 + random_.below(3000));
    }
    op.owner = &caller;
    op.completion = [](Op& done) {
      auto& ended = done.owner_as<Caller>();
      ended.storm->end(ended);
    };
    node_.net().call(op);
  }

  void end(Caller& caller) {
    const TestCall& op = caller.op;
    if (op.status.ok()) {
      ++ok;
      if (op.method == kPlace) {
        EXPECT_TRUE(all_are(Bytes(caller.memory).first(caller.bytes), op.request_bytes[0]));
      } else {
        uint32_t checksum = 0;
        std::memcpy(&checksum, op.response_bytes.data(), sizeof checksum);
        EXPECT_EQ(checksum, crc32c(Bytes(caller.memory).first(caller.bytes)));
      }
    } else if (op.status == Status(Code::timed_out)) {
      ++timed_out;
    } else if (op.status == Status(Code::cancelled)) {
      ++cancelled;
    } else {
      ++others;
    }
    --running_;
    std::fill(caller.memory.begin(), caller.memory.end(), kCanary);
    if (left_ == 0) return;
    // Some rest, so that what comes late finds the canary.
    Caller* next = &caller;
    if (resting_ != nullptr || random_.chance(1, 4)) std::swap(next, resting_);
    if (next == nullptr) return;
    expect_canary(*next);
    start(*next);
  }

  Node& node_;
  engine::SeededRandom random_;
  std::vector<std::unique_ptr<Caller>> callers_;
  Caller* resting_ = nullptr;
  int left_ = 0;
  int running_ = 0;
};

class TcpStorm : public testing::TestWithParam<bool> {};

TEST_P(TcpStorm, ended_calls_are_over) {
  for (const uint64_t seed : {1, 2, 3}) {
    Table table;
    TestService service;
    NetworkConfig config = config_of(kFar, table);
    config.calls_max = 6;
    if (GetParam()) config.credentials = test::credentials_of(kFar);
    config.record_helpers = 2;
    Node far(config);
    far.net().serve(kService, service);
    table.nodes[kFar] = {far.listen()};
    NetworkConfig near_config = config_of(kNear, table);
    if (GetParam()) near_config.credentials = test::credentials_of(kNear);
    near_config.record_helpers = 2;
    Node near(near_config);
    std::thread server([&] { far.loop().run(); });
    Storm storm(near, seed);
    storm.run(1000, 10);
    far.loop().stop();
    server.join();
    far.stop_listening();
    far.net().withdraw(kService);
    run_until({&far.loop(), &near.loop()}, [&] { return service.transfers_under_way == 0; });
    EXPECT_GT(storm.ok, 0);
    EXPECT_GT(storm.timed_out, 0);
    EXPECT_EQ(storm.others, 0);
    std::printf("seed %d: %d ok, %d timed out, %d cancelled\n", static_cast<int>(seed), storm.ok,
                storm.timed_out, storm.cancelled);
  }
}

INSTANTIATE_TEST_SUITE_P(All, TcpStorm, testing::Bool(), [](const auto& sealed) {
  return sealed.param ? "sealed" : "in_the_clear";
});

}  // namespace
}  // namespace penstock::tcp
