// Targets that stand before and behind one another in different chains, with clients at all heads
// and memory for hardly more than one update at each place: whatever fails, all that is asked for
// is done, and none takes more memory than it may.
#pragma once

#include <algorithm>
#include <deque>
#include <gtest/gtest.h>

#include "penstock/chain.h"
#include "penstock/chain_store_fake.h"
#include "penstock/testing_rails.h"
#include "penstock/wire.h"

namespace penstock::chain {
using std::chrono::milliseconds;
using std::chrono::seconds;

inline constexpr uint32_t kTargets = 3;
inline constexpr uint32_t kWriters = 2;
inline constexpr uint32_t kAtOnce = 6;  // of each client and chain
inline constexpr uint32_t kWriteBytesMax = 16 * kKiB;
inline constexpr uint64_t kHeldMax = 256 * kKiB;
// The largest, what is said of it, and what a chunk's slots take in a copy.
inline constexpr uint64_t kPassedMax = kWriteBytesMax + 4 * kKiB;
// An empty pool gives what is asked for, also while another is overdrawn.
inline constexpr uint64_t kMostHeld = (2 * kTargets - 1) * kPassedMax;
inline constexpr auto kPatience = seconds(60);

class RingStory {
 public:
  explicit RingStory(uint64_t seed, test::Wire wire = test::Wire::messages)
      : world_(seed), wires_(world_, wire) {
    for (uint32_t i = 1; i <= kTargets; ++i) {
      targets_.push_back(std::make_unique<Target>(*this, i));
    }
    std::vector<uint32_t> order{1, 2, 3};
    do {
      View view{ChainId{static_cast<uint32_t>(views_.size() + 1)}, 0, {}};
      for (const uint32_t number : order) view.members.push_back(member(number));
      views_.push_back(view);
      publish(views_.back());
    } while (std::next_permutation(order.begin(), order.end()));
    for (uint32_t i = 0; i < kWriters; ++i) clients_.push_back(std::make_unique<Client>(*this, i));
  }
  ~RingStory() {
    for (const auto& client : clients_) client->net->kill();
    for (const auto& target : targets_) {
      target->net->kill();
      target->store.die();
      target->host = nullptr;
    }
    world_.run_for(seconds(30));
  }

  uint64_t run(uint32_t writes, bool with_changes) {
    network_.faults.detection = milliseconds(200);
    if (world_.chance(500)) network_.faults.drop_permille = 10;
    if (world_.chance(500)) network_.faults.delay_max = milliseconds(2);
    left_ = writes;
    for (const auto& client : clients_) {
      for (const View& view : views_) {
        for (uint32_t i = 0; i < kAtOnce; ++i) client->start_next(view.chain, i);
      }
    }
    while (under_way_ > 0) {
      const size_t ended = ended_;
      EXPECT_TRUE(look_until([&] { return ended_ > ended; }, kPatience))
          << "no progress " << where();
      if (ended_ == ended) return 0;
      if (with_changes && world_.chance(30)) send_one_away();
    }
    wires_.heal();
    settle();
    return world_.trace_hash();
  }

  // What RDMA did, where there is some.
  const test::FabricCounts& rdma() const { return wires_.counts(); }

 private:
  struct Target {
    Target(RingStory& story, uint32_t its_number)
        : number(its_number),
          loop(story.world_, sim::LoopDriver::world_when_called),
          net(story.wires_.plug(loop, NodeId{number})),
          store(image, loop) {
      host = Host::make({.target = TargetId{number},
                         .incarnation = 1,
                         .loop = &loop,
                         .net = net.get(),
                         .store = &store,
                         .held_bytes_max = kHeldMax,
                         .passed_bytes_max = kPassedMax,
                         .report = [&story](const Report& report) { story.hear(report); }});
      net->serve({NodeId{number}, 0}, host->service());
      host->lease(story.world_.now() + std::chrono::hours(10));
    }
    const uint32_t number;
    sim::SimLoop loop;
    const std::unique_ptr<test::Plug> net;
    store::FakeChainImage image;
    store::FakeChainStore store;
    std::unique_ptr<Host> host;
  };

  // A call of a client; always of the same chunk, so that it is never joined with another.
  struct Write : engine::CallOp {
    RingStory* story = nullptr;
    uint32_t client = 0;
    uint32_t number = 0;
    ChainId chain;
    wire::ChunkRequest words;
    std::vector<std::byte> memory;
    std::array<std::byte, 64> answer{};
  };
  struct Client {
    Client(RingStory& its_story, uint32_t its_number)
        : story(its_story),
          number(its_number),
          loop(story.world_, sim::LoopDriver::world_when_called),
          net(story.wires_.plug(loop, NodeId{101 + number})) {
      chain_net = ChainNet::make({.loop = &loop,
                                  .net = net.get(),
                                  .chains = &story.chains_,
                                  .node = NodeId{101 + number},
                                  .incarnation = 1,
                                  .first_slot = 0,
                                  .slots = kAtOnce});
    }
    void start_next(ChainId chain, uint32_t place) {
      if (story.left_ == 0) return;
      --story.left_;
      ++story.under_way_;
      Write& write = writes.emplace_back();
      write.story = &story;
      write.client = number;
      write.number = place;
      write.chain = chain;
      const auto length = static_cast<uint32_t>(1 + story.world_.random().below(kWriteBytesMax));
      write.words = {.inode = 1 + number, .chunk = place, .begin = 0, .length = length};
      write.memory.resize(length, std::byte{static_cast<uint8_t>(story.left_)});
      write.to = address_of(chain);
      write.method = static_cast<uint16_t>(wire::ChunkMethod::write);
      write.request = wire::as_wire(write.words);
      write.response = write.answer;
      write.deadline = story.world_.now() + kPatience;
      write.exposures[0] = {{write.memory.data(), length}, engine::Access::fetch};
      write.exposure_count = 1;
      write.completion = [](engine::Op& done) {
        auto& self = static_cast<Write&>(done);
        self.story->ended(self);
      };
      chain_net->call(write);
    }
    RingStory& story;
    const uint32_t number;
    sim::SimLoop loop;
    const std::unique_ptr<test::Plug> net;
    std::deque<Write> writes;
    std::unique_ptr<ChainNet> chain_net;
  };

  std::string where() const { return "(seed " + std::to_string(world_.seed()) + ")"; }
  static Member member(uint32_t number) {
    return {TargetId{number}, 1, {NodeId{number}, 0}, Standing::serving};
  }

  void ended(Write& write) {
    EXPECT_TRUE(write.status.ok()) << write.status.name() << " " << where();
    write.memory = {};
    --under_way_;
    ++ended_;
    clients_[write.client]->start_next(write.chain, write.number);
  }

  // After each event all targets are looked at.
  template <class Reached>
  bool look_until(Reached reached, engine::Duration at_most) {
    return world_.run_until(
        [&] {
          for (const auto& target : targets_) {
            const uint64_t held = target->host->status().passed_bytes;
            EXPECT_LE(held, kMostHeld) << "target " << target->number << where();
          }
          return reached();
        },
        at_most);
  }

  // Everybody hears of the next version of this chain, sooner or later.
  void publish(View& view) {
    ++view.version;
    for (const auto& target : targets_) {
      const engine::Duration late = world_.between(milliseconds(0), milliseconds(20));
      world_.after(late, "ring.adopt", [&target, view] {
        if (target->host != nullptr) target->host->adopt(view);
      });
    }
    chains_.learn(view);
  }
  // One of its targets is to be brought up to date again, though it is alive.
  void send_one_away() {
    View& view = views_[world_.random().below(views_.size())];
    if (view.syncing() != nullptr) return;
    const size_t place = world_.random().below(kTargets);
    std::rotate(view.members.begin() + static_cast<ptrdiff_t>(place),
                view.members.begin() + static_cast<ptrdiff_t>(place) + 1, view.members.end());
    view.members.back().standing = Standing::syncing;
    publish(view);
  }
  void hear(const Report& report) {
    EXPECT_NE(report.kind, Report::Kind::failed) << where();
    if (report.kind != Report::Kind::repaired) return;
    View& view = views_[report.chain.value - 1];
    if (report.version != view.version || view.syncing() == nullptr) return;
    view.members.back().standing = Standing::serving;
    publish(view);
  }

  void settle() {
    const auto is_quiet = [this] {
      const auto is_empty = [](const auto& target) {
        const Host::Status status = target->host->status();
        return status.pending + status.waiting + status.ungreeted + status.passed_bytes == 0;
      };
      const auto is_whole = [](const View& view) { return view.serving() == kTargets; };
      return std::all_of(targets_.begin(), targets_.end(), is_empty) &&
             std::all_of(views_.begin(), views_.end(), is_whole);
    };
    EXPECT_TRUE(look_until(is_quiet, kPatience)) << "something is left " << where();
    for (const auto& [at, chunk] : targets_[0]->image.chunks()) {
      for (const auto& target : targets_) {
        const auto found = target->image.chunks().find(at);
        ASSERT_TRUE(found != target->image.chunks().end()) << where();
        EXPECT_EQ(found->second.bytes, chunk.bytes) << where();
      }
    }
  }

  sim::SimWorld world_;
  test::Wires wires_;
  sim::SimNetwork& network_ = wires_.network;
  KnownChains chains_{[](ChainId) {}};
  std::vector<std::unique_ptr<Target>> targets_;
  std::vector<View> views_;  // of the chains: all orders that there are
  std::vector<std::unique_ptr<Client>> clients_;
  uint32_t left_ = 0;
  size_t under_way_ = 0;
  size_t ended_ = 0;
};

}  // namespace penstock::chain
