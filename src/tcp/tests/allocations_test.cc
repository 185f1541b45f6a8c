// Calls cost no memory and few system calls once a connection is there.
#include "tests/node.h"

#include <gtest/gtest.h>

namespace penstock::tcp {
namespace {

using engine::Access;
using engine::Op;

// Replies at once; places from memory that it has.
class Quiet final : public engine::Service {
 public:
  void on_call(engine::IncomingCall& call) override {
    if (call.exposure_count == 0) return call.reply(Code::ok, call.request);
    ASSERT(!busy_);
    busy_ = true;
    transfer_.owner = this;
    transfer_.call = &call;
    transfer_.local = {memory_.data(), call.exposure_length(0), engine::kNoBuffer,
                       engine::MemoryKind::host};
    transfer_.completion = [](Op& op) {
      op.owner_as<Quiet>().busy_ = false;
      static_cast<engine::TransferOp&>(op).call->reply(op.status, {});
    };
    if (call.exposure_access(0) == Access::place) {
      call.place(transfer_);
    } else {
      call.fetch(transfer_);
    }
  }

 private:
  std::vector<std::byte> memory_ = std::vector<std::byte>(kMiB);
  engine::TransferOp transfer_;
  bool busy_ = false;
};

class TcpCosts : public testing::Test {
 protected:
  TcpCosts() {
    far_.net().serve(kService, service_);
    table_.nodes[kFar] = {far_.listen()};
  }
  void run(TestCall& call) {
    const int before = call.completions;
    near_.net().call(call);
    while (call.completions == before) {
      near_.loop().poll_or_park(near_.loop().clock().now());
      far_.loop().poll_or_park(far_.loop().clock().now());
    }
    ASSERT_TRUE(call.status.ok());
  }

  Table table_;
  Quiet service_;
  Node near_{config_of(kNear, table_)};
  Node far_{config_of(kFar, table_)};
};

TEST_F(TcpCosts, calls_allocate_nothing) {
  std::vector<std::byte> memory(kMiB);
  TestCall echo(kEcho), large(kPlace), small(kPlace), offered(kFetch), asked(kFetch);
  large.expose(memory, Access::place);
  small.expose(MutableBytes(memory).first(4096), Access::place);
  offered.expose(MutableBytes(memory).first(4096), Access::fetch);
  asked.expose(memory, Access::fetch);
  const std::array<TestCall*, 5> calls = {&echo, &large, &small, &offered, &asked};
  const auto round = [&] {
    for (TestCall* const call : calls) run(*call);
  };
  for (int i = 0; i < 5; ++i) round();
  const uint64_t before = test::allocations();
  for (int i = 0; i < 20; ++i) round();
  EXPECT_EQ(test::allocations() - before, 0u);
}

TEST_F(TcpCosts, many_small_calls_share_system_calls) {
  struct Many : TestCall {
    Many() : TestCall(kEcho) {}
  };
  std::vector<std::unique_ptr<Many>> calls;
  for (int i = 0; i < 64; ++i) calls.push_back(std::make_unique<Many>());
  run(*calls[0]);
  const uint64_t before = near_.net().system_calls();
  for (const auto& call : calls) near_.net().call(*call);
  for (const auto& call : calls) {
    while (call->completions < (call == calls[0] ? 2 : 1)) {
      // Not put to sleep: it submits by itself.
      (void)near_.loop().poll();
      (void)far_.loop().poll();
    }
  }
  EXPECT_LE(near_.net().system_calls() - before, 16u) << "for 64 calls";
}

}  // namespace
}  // namespace penstock::tcp
