#include <atomic>
#include <cstring>
#include <gtest/gtest.h>
#include <thread>

#include "penstock/net.h"

namespace penstock::net {
namespace {

using engine::Access;
using engine::Address;
using engine::CallOp;
using engine::IncomingCall;
using engine::Loop;
using engine::Op;

constexpr Address kEcho{NodeId{1}, 7};

// Answers with the request; with exposures, fills the first and remembers whether it could reach
// it.
class Echo final : public engine::Service {
 public:
  void on_call(IncomingCall& call) override {
    ++calls;
    if (hold) {
      held.push_back(&call);
      return;
    }
    if (call.exposure_count > 0) {
      const auto memory = call.direct(0);
      direct_data = memory ? memory->data : nullptr;
      if (memory) std::memset(memory->data, 0x5a, memory->length);
    }
    call.reply(Code::ok, call.request);
  }

  int calls = 0;
  bool hold = false;
  std::vector<IncomingCall*> held;
  std::byte* direct_data = nullptr;
};

struct Node {
  explicit Node(LocalNetwork& network) : net(network, loop) {}
  engine::SeededRandom random{1};
  engine::FutexParker parker{engine::system_clock()};
  Loop loop{engine::system_clock(), random, parker};
  LocalNet net;
};

struct Caller {
  CallOp op;
  std::array<std::byte, 64> request{};
  std::array<std::byte, 64> response{};
  int completions = 0;

  explicit Caller(Address to) {
    op.to = to;
    op.request = request;
    op.response = response;
    op.owner = this;
    op.completion = [](Op& done) { ++done.owner_as<Caller>().completions; };
  }
};

void turn(Loop& loop) {
  while (loop.poll()) {
  }
}

TEST(LocalNet, delivers_in_a_later_turn_and_without_copies) {
  LocalNetwork network;
  Node node(network);
  Echo echo;
  node.net.serve(kEcho, echo);
  Caller caller(kEcho);
  caller.request[3] = std::byte{9};
  std::array<std::byte, 4096> memory{};
  caller.op.exposures[0] = {{memory.data(), memory.size()}, Access::place};
  caller.op.exposure_count = 1;
  node.net.call(caller.op);
  EXPECT_EQ(echo.calls, 0);
  EXPECT_EQ(caller.completions, 0);
  turn(node.loop);
  EXPECT_EQ(caller.completions, 1);
  EXPECT_TRUE(caller.op.status.ok());
  EXPECT_EQ(caller.op.response_length, 64u);
  EXPECT_EQ(caller.response[3], std::byte{9});
  EXPECT_EQ(echo.direct_data, memory.data());
  EXPECT_EQ(memory[4095], std::byte{0x5a});
}

TEST(LocalNet, refuses_what_is_too_large_and_unknown_addresses) {
  LocalNetwork network;
  Node node(network);
  Caller nobody({NodeId{9}, 9});
  node.net.call(nobody.op);
  Caller large(kEcho);
  std::array<std::byte, engine::kNetMessageMax + 1> request{};
  large.op.request = request;
  node.net.call(large.op);
  Caller many(kEcho);
  many.op.exposure_count = engine::kNetExposuresMax + 1;
  node.net.call(many.op);
  turn(node.loop);
  EXPECT_EQ(nobody.op.status, Status(Code::peer_gone));
  EXPECT_EQ(large.op.status, Status(Code::invalid_argument));
  EXPECT_EQ(many.op.status, Status(Code::invalid_argument));
}

TEST(LocalNet, a_response_larger_than_the_callers_buffer_is_a_bad_message) {
  LocalNetwork network;
  Node node(network);
  Echo echo;
  node.net.serve(kEcho, echo);
  Caller caller(kEcho);
  caller.op.response = MutableBytes(caller.response).first(8);
  node.net.call(caller.op);
  turn(node.loop);
  EXPECT_EQ(caller.op.status, Status(Code::bad_message));
  EXPECT_EQ(caller.op.response_length, 0u);
}

TEST(LocalNet, withdrawn_services_get_no_calls_and_finish_those_they_have) {
  LocalNetwork network;
  Node node(network);
  Echo echo;
  echo.hold = true;
  node.net.serve(kEcho, echo);
  Caller first(kEcho), second(kEcho), third(kEcho);
  node.net.call(first.op);
  turn(node.loop);
  ASSERT_EQ(echo.calls, 1);
  node.net.call(second.op);
  node.net.withdraw(kEcho);
  node.net.call(third.op);
  turn(node.loop);
  EXPECT_EQ(echo.calls, 1);
  EXPECT_EQ(second.op.status, Status(Code::peer_gone));
  EXPECT_EQ(third.op.status, Status(Code::peer_gone));
  EXPECT_EQ(first.completions, 0);
  echo.held[0]->reply(Code::busy, {});
  turn(node.loop);
  EXPECT_EQ(first.completions, 1);
  EXPECT_EQ(first.op.status, Status(Code::busy));
  // The address is free for another service.
  Echo next;
  node.net.serve(kEcho, next);
  node.net.call(third.op);
  turn(node.loop);
  EXPECT_EQ(next.calls, 1);
  EXPECT_TRUE(third.op.status.ok());
}

TEST(LocalNet, cancel_counts_before_delivery_only) {
  LocalNetwork network;
  Node node(network);
  Echo echo;
  echo.hold = true;
  node.net.serve(kEcho, echo);
  Caller early(kEcho), late(kEcho);
  node.net.call(late.op);
  turn(node.loop);
  node.net.call(early.op);
  node.net.cancel(early.op);
  node.net.cancel(late.op);
  turn(node.loop);
  EXPECT_EQ(early.op.status, Status(Code::cancelled));
  EXPECT_EQ(early.completions, 1);
  EXPECT_EQ(late.completions, 0);
  echo.held[0]->reply(Code::ok, {});
  turn(node.loop);
  EXPECT_EQ(late.completions, 1);
  EXPECT_EQ(echo.calls, 1);
}

TEST(LocalNet, a_deadline_in_the_past_ends_the_call_before_delivery) {
  LocalNetwork network;
  Node node(network);
  Echo echo;
  node.net.serve(kEcho, echo);
  Caller caller(kEcho);
  caller.op.deadline = node.loop.now();
  node.net.call(caller.op);
  turn(node.loop);
  EXPECT_EQ(caller.op.status, Status(Code::timed_out));
  EXPECT_EQ(echo.calls, 0);
}

TEST(LocalNet, transfers_are_checked_against_the_exposure) {
  LocalNetwork network;
  Node node(network);
  Echo echo;
  echo.hold = true;
  node.net.serve(kEcho, echo);
  Caller caller(kEcho);
  std::array<std::byte, 16> in{}, out{};
  out.fill(std::byte{3});
  caller.op.exposures[0] = {{in.data(), in.size()}, Access::place};
  caller.op.exposures[1] = {{out.data(), out.size()}, Access::fetch};
  caller.op.exposure_count = 2;
  node.net.call(caller.op);
  turn(node.loop);
  std::array<std::byte, 8> local{};
  const auto transfer = [&](bool place, uint32_t exposure, uint64_t offset) {
    engine::TransferOp op;
    op.completion = [](Op&) {};
    op.exposure = exposure;
    op.exposure_offset = offset;
    op.local = {local.data(), local.size()};
    if (place) {
      echo.held[0]->place(op);
    } else {
      echo.held[0]->fetch(op);
    }
    turn(node.loop);
    return op.status;
  };
  EXPECT_TRUE(transfer(false, 1, 8).ok());
  EXPECT_EQ(local[7], std::byte{3});
  EXPECT_TRUE(transfer(true, 0, 8).ok());
  EXPECT_EQ(in[7], std::byte{0});
  EXPECT_EQ(in[15], std::byte{3});
  EXPECT_EQ(transfer(true, 1, 0), Status(Code::access_denied));
  EXPECT_EQ(transfer(false, 0, 0), Status(Code::access_denied));
  EXPECT_EQ(transfer(true, 0, 9), Status(Code::invalid_argument));
  EXPECT_EQ(transfer(true, 0, UINT64_MAX), Status(Code::invalid_argument));
  EXPECT_EQ(transfer(true, 2, 0), Status(Code::invalid_argument));
  EXPECT_EQ(echo.held[0]->exposure_length(1), 16u);
  EXPECT_EQ(echo.held[0]->exposure_length(5), 0u);
  echo.held[0]->reply(Code::ok, {});
  turn(node.loop);
}

TEST(LocalNet, calls_cross_threads_both_ways) {
  LocalNetwork network;
  Node near(network), far(network);
  Echo echo;
  far.net.serve(kEcho, echo);
  std::thread server([&] { far.loop.run(); });
  // Several calls in flight, each sent again on its end.
  struct Stream {
    Caller caller{kEcho};
    LocalNet* net = nullptr;
    int left = 3000;
    int bad = 0;
  };
  std::vector<Stream> streams(8);
  for (Stream& stream : streams) {
    stream.net = &near.net;
    stream.caller.op.owner = &stream;
    stream.caller.op.completion = [](Op& op) {
      Stream& self = op.owner_as<Stream>();
      uint32_t sent = 0, back = 0;
      std::memcpy(&sent, self.caller.request.data(), 4);
      std::memcpy(&back, self.caller.response.data(), 4);
      self.bad += !op.status.ok() || sent != back;
      if (--self.left == 0) return;
      ++sent;
      std::memcpy(self.caller.request.data(), &sent, 4);
      self.net->call(self.caller.op);
    };
    near.net.call(stream.caller.op);
  }
  const auto finished = [&] {
    return std::all_of(streams.begin(), streams.end(), [](auto& s) { return s.left == 0; });
  };
  while (!finished()) near.loop.poll_or_park(engine::kNever);
  far.loop.stop();
  server.join();
  EXPECT_EQ(echo.calls, 8 * 3000);
  for (const Stream& stream : streams) EXPECT_EQ(stream.bad, 0);
}

}  // namespace
}  // namespace penstock::net
