// Threads that enter and leave, while sessions end under them.
#include <atomic>
#include <gtest/gtest.h>
#include <memory>
#include <thread>
#include <vector>

#include "penstock/holds_net.h"
#include "penstock/kv.h"
#include "penstock/net.h"

namespace penstock::holds_net {
namespace {

constexpr NodeId kSelf{1};
constexpr engine::Address kHolds{kSelf, 9};

// A loop and the thread that runs it.
class LoopThread {
 public:
  explicit LoopThread(net::LocalNetwork& network) : net(network, loop) {}
  ~LoopThread() { ASSERT(!thread_.joinable()); }
  void start() {
    thread_ = std::thread([this] { loop.run(); });
  }
  void stop() {
    loop.stop();
    thread_.join();
  }

 private:
  engine::SeededRandom random_{7};
  engine::FutexParker parker_{engine::system_clock()};

 public:
  engine::Loop loop{engine::system_clock(), random_, parker_};
  net::LocalNet net;

 private:
  std::thread thread_;
};

class Nothing final : public holds::Keeping {
 public:
  void drop(InodeId, Hold, std::function<void()> done) override { done(); }
  void settle(InodeId, std::function<void()> done) override { done(); }
  void drop_names(InodeId, std::vector<std::string>, std::function<void()> done) override {
    done();
  }
  void drop_all(bool, std::function<void()> done) override {
    ++drop_alls;
    done();
  }
  std::atomic<int> drop_alls{0};
};

TEST(HoldsThreads, enter_and_leave_while_sessions_end) {
  net::LocalNetwork network(kSelf);
  LoopThread serving(network), asking(network);
  const std::unique_ptr<engine::Kv> kv = kv::make_memory_kv();
  HoldsServiceConfig serves;
  serves.loop = &serving.loop;
  serves.net = &serving.net;
  serves.address = kHolds;
  serves.kv = kv.get();
  serves.fence = [](AgentId, const std::function<void()>& done) { done(); };
  serves.settle = [](AgentId, const std::vector<InodeId>&, const std::function<void()>& done) {
    done();
  };
  auto service = HoldsService::open(serves);
  ASSERT_TRUE(service.has_value());
  (*service)->start();
  Nothing keeping;
  HoldsAgentConfig asks;
  asks.loop = &asking.loop;
  asks.net = &asking.net;
  asks.node = kSelf;
  asks.service = kHolds;
  asks.keeping = &keeping;
  const std::unique_ptr<HoldsAgent> agent = HoldsAgent::make(asks);
  agent->start();
  serving.start();
  asking.start();

  std::atomic<uint64_t> entered{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (uint64_t thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&, thread] {
      std::atomic<uint64_t> over{0};
      for (uint64_t i = 0; !stop; ++i) {
        const InodeId inode(1 + (i + thread) % 5);
        const Hold hold = i % 3 == 0 ? Hold::exclusive : Hold::shared;
        holds::Ticket ticket;
        if (!agent->enter(inode, hold, ticket)) {
          holds::Holding::Waiter waiting;
          waiting.loop = &asking.loop;
          waiting.inode = inode;
          waiting.hold = hold;
          waiting.owner = &over;
          waiting.completion = [](engine::Op& op) {
            auto& count = op.owner_as<std::atomic<uint64_t>>();
            ++count;
            count.notify_one();
          };
          const uint64_t before = over;
          agent->wait(waiting);
          over.wait(before);
          ASSERT(waiting.status.ok() && waiting.entered);
          ticket = waiting.ticket;
        }
        entered += agent->is_good(ticket) ? 1 : 0;
        agent->leave(ticket);
      }
    });
  }
  for (int i = 0; i < 10; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    (void)engine::thread_caller().call(serving.loop, [&](engine::Op& done) {
      (*service)->expel(kSelf);
      serving.loop.complete(done, Code::ok);
    });
    EXPECT_FALSE((*service)->is_exclusive_somewhere(InodeId(99)));
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(entered, 100U);
  EXPECT_GT(keeping.drop_alls, 1);
  EXPECT_EQ(agent->figures().running, 0U);
  (void)engine::thread_caller().call(asking.loop, [&](engine::Op& done) { agent->close(done); });
  (void)engine::thread_caller().call(serving.loop,
                                     [&](engine::Op& done) { (*service)->stop(done); });
  asking.stop();
  serving.stop();
}

}  // namespace
}  // namespace penstock::holds_net
