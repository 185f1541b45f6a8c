// One node on the threads of the machine: its controller, its member, and a target on a loop of its
// own.
#include "question.h"

#include <atomic>
#include <gtest/gtest.h>
#include <semaphore>

#include "penstock/kv.h"
#include "penstock/membership.h"
#include "penstock/net.h"

namespace penstock::membership {
namespace {

// A loop that a thread runs.
class RunningLoop {
 public:
  RunningLoop() : thread_("loop", [this] { loop.run(); }) {}
  ~RunningLoop() { end(); }
  void end() {
    if (!thread_.joinable()) return;
    loop.stop();
    thread_.join();
    // What completes late, as timers do of what is gone, completes here.
    while (loop.poll() || loop.next_work() != engine::kNever) loop.poll_or_park(loop.next_work());
  }
  // Runs something in it, and waits for its end.
  void run(const std::function<void()>& what) {
    const Status status = engine::thread_caller().call(loop, [&](engine::Op& done) {
      what();
      loop.complete(done, Code::ok);
    });
    ASSERT_TRUE(status.ok());
  }

 private:
  engine::SeededRandom random_{1};
  engine::FutexParker parker_{engine::system_clock()};

 public:
  engine::Loop loop{engine::system_clock(), random_, parker_};

 private:
  engine::Thread thread_;
};

class OneNode final : private LocalNode {
 public:
  OneNode() {
    controller_.run([this] {
      controller_net_ = std::make_unique<net::LocalNet>(network_, controller_.loop);
      service_ = ControllerService::make({.loop = &controller_.loop,
                                          .net = controller_net_.get(),
                                          .node = NodeId{1},
                                          .keeper = {.kv = kv_.get(),
                                                     .clock = &engine::system_clock(),
                                                     .process = {{1}},
                                                     .cluster = {{7}},
                                                     .timing = {}}});
      service_->start();
      admit();
    });
  }
  ~OneNode() override {
    const Status left = engine::thread_caller().call(
        member_loop_.loop, [this](engine::Op& done) { member_->leave(done); });
    EXPECT_TRUE(left.ok());
    const Status stopped = engine::thread_caller().call(
        controller_.loop, [this](engine::Op& done) { service_->stop(done); });
    EXPECT_TRUE(stopped.ok());
    controller_.run([this] { service_ = nullptr; });
    member_loop_.run([this] { member_ = nullptr; });
    target_loop_.end();
    member_loop_.end();
    controller_.end();
  }

  void wait_for_lease() { leased_.acquire(); }
  Answer ask(const Request& request) {
    AskOp op;
    op.config = {&member_loop_.loop, member_net_.get(), kService};
    op.request = request;
    struct Waiter {
      engine::Loop* loop = nullptr;
      engine::Op* done = nullptr;
    } waiter;
    const Status status = engine::thread_caller().call(member_loop_.loop, [&](engine::Op& done) {
      waiter = {&member_loop_.loop, &done};
      op.owner = &waiter;
      op.completion = [](engine::Op& ended) {
        const auto& self = ended.owner_as<Waiter>();
        self.loop->complete(*self.done, ended.status);
      };
      membership::ask(op);
    });
    EXPECT_TRUE(status.ok());
    return op.answer;
  }
  void report(const chain::Report& report) {
    // As a host would, and a client, in loops of their own.
    target_loop_.run([&] {
      member_->report(TargetId{1}, report);
      member_->refresh();
    });
  }
  uint64_t views() const { return views_.load(); }

 private:
  static constexpr engine::Address kService{NodeId{1}, wire::kControllerService};

  void admit() {
    controller::Join join{.cluster = {{7}}, .node = {{1}}, .process = {{2}}};
    join.predecessor_ended = true;
    service_->admit(join, [this](const Answer& answer) {
      const auto* admitted = std::get_if<Admitted>(&answer);
      if (admitted == nullptr) return admit();  // it does not lead yet
      auto& begin = Task<engine::Op>::make(
          [this, admitted = *admitted](Task<engine::Op>&) { start_member(admitted); });
      member_loop_.loop.complete_remote(begin, Code::ok);
    });
  }
  void start_member(const Admitted& admitted) {
    member_net_ = std::make_unique<net::LocalNet>(network_, member_loop_.loop);
    member_ = Member::make({.controller = {&member_loop_.loop, member_net_.get(), kService},
                            .admitted = admitted,
                            .node = this,
                            .chains = &chains_});
    member_->start();
    member_->open({.uuid = {{3}}, .capacity_bytes = kGiB}, [this](const auto& opened) {
      ASSERT_TRUE(opened.has_value());
      member_->serve(*opened);
    });
  }

  void map_changed(const ClusterMap&, const MapChanges&) override {}
  void give(TargetId, Orders orders, engine::Op& done) override {
    auto& op = Task<engine::Op>::make([this, orders = std::move(orders), &done](Task<engine::Op>&) {
      views_ += orders.views.size();
      const bool is_leased = orders.lease_until.has_value();
      member_loop_.loop.complete_remote(done, Code::ok);
      if (is_leased) leased_.release();
    });
    target_loop_.loop.complete_remote(op, Code::ok);
  }
  void refused(Code, const std::string& reason) override { ADD_FAILURE() << reason; }

  net::LocalNetwork network_;
  std::unique_ptr<engine::Kv> kv_ = kv::make_memory_kv();
  chain::KnownChains chains_{[](ChainId) {}};
  std::counting_semaphore<> leased_{0};
  std::atomic<uint64_t> views_{0};
  std::unique_ptr<net::LocalNet> controller_net_, member_net_;
  std::unique_ptr<ControllerService> service_;
  std::unique_ptr<Member> member_;
  RunningLoop controller_, member_loop_, target_loop_;
};

TEST(MembershipThreads, a_target_on_a_loop_of_its_own_gets_chains_and_leases) {
  OneNode node;
  node.wait_for_lease();
  const Answer made = node.ask(controller::TablePlan{.copies = 1, .chains = 3});
  ASSERT_TRUE(std::holds_alternative<controller::Made>(made));
  for (int left = 1000; left > 0 && node.views() < 3; --left) {
    node.report({chain::Report::Kind::repaired, ChainId{1}, 1, TargetId{1}});
    ASSERT_TRUE(std::holds_alternative<controller::Health>(node.ask(AskHealth{})));
    node.wait_for_lease();
  }
  EXPECT_EQ(node.views(), 3U);
}

}  // namespace
}  // namespace penstock::membership
