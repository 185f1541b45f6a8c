// What only the simulated network does: losing, repeating, cutting off and dying.
#include <cstring>
#include <gtest/gtest.h>

#include "penstock/sim.h"

namespace penstock::sim {
namespace {

using engine::Access;
using engine::Address;
using engine::IncomingCall;
using engine::Op;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Address kService{NodeId{2}, 1};

// Counts what it sees, and answers after `delay` with the first exposure filled.
class Slow final : public engine::Service {
 public:
  explicit Slow(SimLoop& loop) : loop_(loop) {}

  void on_call(IncomingCall& call) override {
    ++calls;
    auto* work = new Work;
    work->call = &call;
    work->service = this;
    work->completion = [](Op& op) {
      const std::unique_ptr<Work> self(static_cast<Work*>(&op));
      self->service->go_on(*self->call);
    };
    loop_.start(*work, loop_.now() + delay);
  }

  int calls = 0;
  Duration delay{};
  std::vector<Status> transfers;

 private:
  struct Work : engine::Timer {
    IncomingCall* call = nullptr;
    Slow* service = nullptr;
  };
  struct Transfer : engine::TransferOp {
    std::array<std::byte, 16> bytes;
    Slow* service = nullptr;
  };

  void go_on(IncomingCall& call) {
    if (call.exposure_count == 0) return call.reply(Code::ok, {});
    auto* op = new Transfer;
    op->bytes.fill(std::byte{1});
    op->service = this;
    op->call = &call;
    op->local = {op->bytes.data(), op->bytes.size(), engine::kNoBuffer, {}};
    op->completion = [](Op& done) {
      const std::unique_ptr<Transfer> self(static_cast<Transfer*>(&done));
      self->service->transfers.push_back(self->status);
      self->call->reply(self->status, {});
    };
    call.place(*op);
  }

  SimLoop& loop_;
};

struct Call : engine::CallOp {
  int completions = 0;
  std::array<std::byte, 16> memory{};
  Call() {
    to = kService;
    exposures[0] = {{memory.data(), memory.size(), engine::kNoBuffer, {}}, Access::place};
    exposure_count = 1;
    completion = [](Op& op) { ++static_cast<Call&>(op).completions; };
  }
};

class SimNetTest : public testing::Test {
 protected:
  SimNetTest() { far_->serve(kService, service_); }
  Status finish(Call& call) {
    EXPECT_TRUE(world_.run_until([&] { return call.completions > 0; }));
    return call.status;
  }

  SimWorld world_{2};
  SimLoop near_loop_{world_};
  SimLoop far_loop_{world_};
  SimNetwork network_{world_};
  Slow service_{far_loop_};
  std::unique_ptr<SimNet> near_ = std::make_unique<SimNet>(network_, near_loop_, NodeId{1});
  std::unique_ptr<SimNet> far_ = std::make_unique<SimNet>(network_, far_loop_, NodeId{2});
};

TEST_F(SimNetTest, a_timed_out_call_leaves_the_memory_alone_although_the_service_acts) {
  service_.delay = seconds(1);
  Call call;
  call.deadline = world_.now() + milliseconds(10);
  near_->call(call);
  EXPECT_EQ(finish(call), Status(Code::timed_out));
  world_.run_for(seconds(3));
  EXPECT_EQ(service_.calls, 1);
  ASSERT_EQ(service_.transfers.size(), 1u);
  EXPECT_EQ(service_.transfers[0], Status(Code::peer_gone));
  EXPECT_EQ(call.memory[0], std::byte{0});
  EXPECT_EQ(call.completions, 1);
}

TEST_F(SimNetTest, lost_messages_end_the_call_by_deadline_or_by_detection) {
  network_.faults.drop_permille = 1000;
  Call with_deadline, without;
  with_deadline.deadline = world_.now() + seconds(1);
  near_->call(with_deadline);
  near_->call(without);
  EXPECT_EQ(finish(with_deadline), Status(Code::timed_out));
  EXPECT_EQ(finish(without), Status(Code::peer_gone));
}

TEST_F(SimNetTest, repeated_messages_reach_the_service_twice_and_the_caller_once) {
  network_.faults.duplicate_permille = 1000;
  Call call;
  near_->call(call);
  EXPECT_TRUE(finish(call).ok());
  world_.run_for(seconds(1));
  EXPECT_EQ(service_.calls, 2);
  EXPECT_EQ(call.completions, 1);
  EXPECT_EQ(call.memory[15], std::byte{1});
  ASSERT_EQ(service_.transfers.size(), 2u);
  EXPECT_EQ(service_.transfers[0], Status(Code::ok));
  EXPECT_EQ(service_.transfers[1], Status(Code::peer_gone)) << "the memory is the first one's";
}

TEST_F(SimNetTest, partitioned_nodes_hear_nothing_until_they_are_healed) {
  network_.set_partitioned(NodeId{2}, NodeId{1}, true);
  Call call;
  near_->call(call);
  EXPECT_EQ(finish(call), Status(Code::peer_gone));
  EXPECT_EQ(service_.calls, 0);
  network_.heal();
  Call again;
  near_->call(again);
  EXPECT_TRUE(finish(again).ok());
}

TEST_F(SimNetTest, a_cut_loses_what_goes_its_way_alone) {
  network_.set_cut(NodeId{2}, NodeId{1}, true);
  Call unanswered;
  near_->call(unanswered);
  EXPECT_EQ(finish(unanswered), Status(Code::peer_gone));
  EXPECT_EQ(service_.calls, 1) << "it heard the question";
  network_.heal();
  network_.set_cut(NodeId{1}, NodeId{2}, true);
  Call unheard;
  near_->call(unheard);
  EXPECT_EQ(finish(unheard), Status(Code::peer_gone));
  EXPECT_EQ(service_.calls, 1);
  network_.set_cut(NodeId{1}, NodeId{2}, false);
  Call again;
  near_->call(again);
  EXPECT_TRUE(finish(again).ok());
}

TEST_F(SimNetTest, a_partition_swallows_a_response_on_its_way) {
  service_.delay = milliseconds(50);
  Call call;
  near_->call(call);
  world_.run_for(milliseconds(10));
  EXPECT_EQ(service_.calls, 1);
  network_.set_partitioned(NodeId{1}, NodeId{2}, true);
  EXPECT_EQ(finish(call), Status(Code::peer_gone));
  EXPECT_EQ(call.memory[0], std::byte{0});
}

TEST_F(SimNetTest, when_the_serving_process_dies_its_calls_end) {
  service_.delay = milliseconds(50);
  Call call;
  near_->call(call);
  world_.run_for(milliseconds(10));
  far_->kill();
  EXPECT_EQ(finish(call), Status(Code::peer_gone));
  Call next;
  near_->call(next);
  EXPECT_EQ(finish(next), Status(Code::peer_gone));
  // Another life of the node serves again.
  far_ = std::make_unique<SimNet>(network_, far_loop_, NodeId{2});
  far_->serve(kService, service_);
  Call again;
  near_->call(again);
  EXPECT_TRUE(finish(again).ok());
}

TEST_F(SimNetTest, when_the_calling_process_dies_its_calls_end_closed) {
  service_.delay = milliseconds(50);
  Call call;
  near_->call(call);
  world_.run_for(milliseconds(10));
  near_->kill();
  EXPECT_EQ(finish(call), Status(Code::closed));
  world_.run_for(seconds(1));
  ASSERT_EQ(service_.transfers.size(), 1u);
  EXPECT_EQ(service_.transfers[0], Status(Code::peer_gone));
  EXPECT_EQ(call.memory[0], std::byte{0});
  Call next;
  near_->call(next);
  EXPECT_EQ(finish(next), Status(Code::closed));
}

TEST_F(SimNetTest, a_cancelled_call_ends_once_and_the_service_never_sees_it) {
  network_.faults.duplicate_permille = 1000;
  Call call;
  near_->call(call);
  near_->cancel(call);
  EXPECT_EQ(finish(call), Status(Code::cancelled));
  world_.run_for(seconds(1));
  EXPECT_EQ(call.completions, 1);
  EXPECT_EQ(service_.calls, 0);
}

TEST_F(SimNetTest, a_call_that_the_service_has_ends_as_without_a_cancel) {
  service_.delay = milliseconds(50);
  Call call;
  near_->call(call);
  world_.run_for(milliseconds(10));
  near_->cancel(call);
  world_.run_for(milliseconds(10));
  EXPECT_EQ(call.completions, 0);
  EXPECT_TRUE(finish(call).ok());
  EXPECT_EQ(call.memory[0], std::byte{1});
  world_.run_for(seconds(1));
  EXPECT_EQ(call.completions, 1);
}

TEST_F(SimNetTest, later_calls_overtake_earlier_ones) {
  network_.faults.delay_max = milliseconds(10);
  std::vector<Call> calls(50);
  int ended = 0, out_of_order = 0;
  for (Call& call : calls) near_->call(call);
  std::vector<bool> seen(50);
  while (ended < 50) {
    world_.run_for(milliseconds(1));
    for (int i = 0; i < 50; ++i) {
      if (calls[i].completions == 0 || seen[i]) continue;
      seen[i] = true;
      ++ended;
      for (int earlier = 0; earlier < i; ++earlier) out_of_order += !seen[earlier];
    }
  }
  EXPECT_GT(out_of_order, 0);
}

}  // namespace
}  // namespace penstock::sim
