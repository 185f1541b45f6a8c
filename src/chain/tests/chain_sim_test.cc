// Three to five targets of one chain, clients on all sides, and faults from a seed; afterwards what
// the clients saw must be linearisable, all copies equal, and nothing left over.
#include <gtest/gtest.h>

#include "penstock/testing_chains.h"

namespace penstock::chain {
namespace {

using engine::Thread;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t kClients = 4;

// How a story goes: some are long, with time to recover; in others all that happens meets; and in
// some the clients wait for new versions of the chain, and are at their quickest while these begin.
struct Pace {
  int steps = 18;
  milliseconds between_steps{300};  // of a client, at most
  milliseconds between_faults{1500};
  uint64_t faults = 5;
  uint64_t chunks = 2;
  uint64_t registers = 2;
  bool watchful = false;
};
constexpr Pace kCalm{};
constexpr Pace kHasty{.steps = 50,
                      .between_steps = milliseconds(60),
                      .between_faults = milliseconds(400),
                      .faults = 10,
                      .chunks = 1,
                      .registers = 1};
constexpr Pace kWatchful{.steps = 60,
                         .between_steps = milliseconds(6),
                         .between_faults = milliseconds(1200),
                         .faults = 6,
                         .chunks = 1,
                         .registers = 1,
                         .watchful = true};
constexpr int kBurst = 6;

const Pace& pace_of(uint64_t dice) {
  return dice == 0 ? kCalm : dice == 1 ? kHasty : kWatchful;
}

class ChainStory {
 public:
  ChainStory(uint64_t seed, bool on_targets)
      : world_(seed), network_(world_), pace_(pace_of(world_.random().below(3))) {
    world_.set_time_limit(std::chrono::hours(2));
    const size_t count = 3 + world_.random().below(3);
    for (uint32_t i = 1; i <= count; ++i) {
      std::unique_ptr<test::Storage> storage;
      if (on_targets) {
        storage = std::make_unique<test::TargetStorage>(world_);
      } else {
        storage = std::make_unique<test::MemoryStorage>(world_);
      }
      nodes_.push_back(
          std::make_unique<test::StorageNode>(world_, network_, i, std::move(storage)));
    }
    table_ = std::make_unique<test::ChainTable>(world_, nodes_);
    for (uint32_t i = 0; i < kClients; ++i) {
      clients_.push_back(
          std::make_unique<test::RegisterClient>(world_, network_, *table_, history_, 101 + i));
    }
  }

  uint64_t run() {
    for (const auto& node : nodes_) node->start();
    table_->start();
    std::vector<Thread> programs;
    // Some write hardly ever: these hear late of new versions.
    for (size_t i = 0; i < kClients; ++i) {
      programs.emplace_back("client", [this, i] { work(*clients_[i], i % 2 == 0 ? 100 : 700); });
    }
    inject_faults();
    heal();
    for (Thread& program : programs) program.join();
    if (world_.chance(300)) lose_all_power();
    settle();
    read_all();
    EXPECT_EQ(history_.check(), "") << where();
    EXPECT_GT(history_.ended(), 0U);
    check_copies();
    stop();
    return world_.trace_hash();
  }

 private:
  std::string where() const { return "(seed " + std::to_string(world_.seed()) + ")"; }

  void wait(milliseconds at_most) {
    world_.run_for(milliseconds(world_.random().below(static_cast<uint64_t>(at_most.count()))));
  }

  // Another version than this one, or half a second without.
  void await_version(uint64_t& seen) {
    for (int left = 100; left > 0 && table_->view().version == seen; --left) {
      world_.run_for(milliseconds(5));
    }
    seen = table_->view().version;
  }

  test::History::Register any_register() {
    return {world_.random().below(pace_.chunks), world_.random().below(pace_.registers)};
  }

  void work(test::RegisterClient& client, uint32_t writes_permille) {
    uint64_t seen = 0;
    for (int step = 0; step < pace_.steps; ++step) {
      if (pace_.watchful && step % kBurst == 0) await_version(seen);
      if (world_.chance(writes_permille)) {
        client.write(any_register());
      } else {
        client.read(any_register());
      }
      wait(pace_.between_steps);
    }
  }

  void inject_faults() {
    network_.faults.detection = milliseconds(300);
    network_.faults.drop_permille = world_.chance(500) ? 20 : 0;
    network_.faults.duplicate_permille = world_.chance(500) ? 30 : 0;
    if (world_.chance(300)) network_.faults.delay_max = milliseconds(30);
    table_->lost_permille = world_.chance(500) ? 50 : 0;
    for (const auto& node : nodes_) {
      if (!world_.chance(80)) continue;
      node->failing = true;
      node->fail_writes(100);
    }
    for (uint64_t left = 1 + world_.random().below(pace_.faults); left > 0; --left) {
      wait(pace_.between_faults);
      one_fault();
    }
  }

  void one_fault() {
    test::StorageNode& node = *nodes_[world_.random().below(nodes_.size())];
    const uint64_t kind = world_.random().below(6);
    if (kind == 0) {
      test::StorageNode& other = *nodes_[world_.random().below(nodes_.size())];
      network_.set_partitioned(NodeId{node.number()}, NodeId{other.number()},
                               node.number() != other.number());
    } else if (kind == 1) {
      table_->cut_off.insert(node.number());
    } else if (kind == 2) {
      network_.heal();
      table_->cut_off.clear();
    } else if (kind == 3) {
      lose_all_power();
    } else {
      restart(node);
    }
  }

  void restart(test::StorageNode& node) {
    node.die(world_.chance(500));
    wait(pace_.between_faults);
    node.start();
  }

  void lose_all_power() {
    std::vector<Thread> deaths;
    for (const auto& node : nodes_) {
      deaths.emplace_back("death", [this, &node] {
        node->die(true);
        world_.run_for(milliseconds(world_.random().below(1000)));
        node->start();
      });
    }
    for (Thread& death : deaths) death.join();
  }

  void heal() {
    network_.heal();
    network_.faults = {};
    network_.faults.detection = milliseconds(300);
    table_->cut_off.clear();
    table_->lost_permille = 0;
    // A disk that failed is believed again after a restart; until then the last copy of all may be
    // one that serves no more.
    for (const auto& node : nodes_) {
      node->fail_writes(0);
      if (std::exchange(node->failing, false)) restart(*node);
    }
  }

  // Once nothing fails any more the chain is whole again in bounded time.
  void settle() {
    const bool whole = world_.run_until(
        [this] {
          if (!table_->all_serve()) return false;
          for (const auto& node : nodes_) {
            if (node->host == nullptr) return false;
            const Host::Status status = node->host->status();
            if (status.pending + status.waiting > 0) return false;
          }
          return true;
        },
        seconds(60));
    EXPECT_TRUE(whole) << "no progress " << where();
  }

  void read_all() {
    for (uint64_t chunk = 0; chunk < pace_.chunks; ++chunk) {
      for (uint64_t part = 0; part < pace_.registers; ++part) {
        EXPECT_TRUE(clients_[0]->read({chunk, part})) << where();
      }
    }
  }

  template <class Operation>
  void do_in(test::StorageNode& node, Operation& op) {
    bool done = false;
    op.owner = &done;
    op.completion = [](engine::Op& ended) { ended.owner_as<bool>() = true; };
    node.store().submit(op);
    world_.run_until([&] { return done; });
    ASSERT_TRUE(op.status.ok()) << op.status.name() << where();
  }

  struct Copy {
    UpdateName committed;
    std::string bytes;
    friend bool operator==(const Copy&, const Copy&) = default;
  };
  void read_copies(test::StorageNode& node, std::map<ChunkId, Copy>& copies) {
    EXPECT_TRUE(node.store().pending(test::kChain).empty()) << where();
    store::ListOp list;
    list.from = {test::kChain, {}};
    list.limit = 100;
    do_in(node, list);
    for (const store::ListEntry& entry : list.entries) {
      Copy& copy = copies[entry.chunk];
      copy.committed = entry.state.committed;
      copy.bytes.resize(entry.state.length);
      if (copy.bytes.empty()) continue;
      store::CopyReadOp read;
      read.at = {test::kChain, entry.chunk};
      read.destination = {reinterpret_cast<std::byte*>(copy.bytes.data()), copy.bytes.size()};
      do_in(node, read);
    }
    // A chunk of which nothing was ever committed is none.
    std::erase_if(copies, [](const auto& one) { return one.second.committed == UpdateName{}; });
  }

  void check_copies() {
    std::map<ChunkId, Copy> first;
    read_copies(*nodes_.front(), first);
    for (const auto& node : nodes_) {
      std::map<ChunkId, Copy> here;
      read_copies(*node, here);
      EXPECT_TRUE(here == first) << "node " << node->number() << " " << where();
    }
  }

  void stop() {
    table_->stop();
    for (const auto& client : clients_) client->close();
    std::vector<Thread> deaths;
    for (const auto& node : nodes_) {
      deaths.emplace_back("death", [&node] { node->die(false); });
    }
    for (Thread& death : deaths) death.join();
  }

  sim::SimWorld world_;
  sim::SimNetwork network_;
  const Pace pace_;
  std::vector<std::unique_ptr<test::StorageNode>> nodes_;
  std::unique_ptr<test::ChainTable> table_;
  test::History history_;
  std::vector<std::unique_ptr<test::RegisterClient>> clients_;
};

void run_stories(uint64_t usual_count, bool on_targets) {
  const sim::SeedRange seeds = sim::seed_range(usual_count);
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    ChainStory(seed, on_targets).run();
    if (testing::Test::HasFailure()) return;
  }
}

TEST(ChainSim, clients_see_one_chunk_whatever_fails) {
  run_stories(300, false);
}

TEST(ChainSim, clients_see_one_chunk_on_targets_whatever_fails) {
  run_stories(60, true);
}

TEST(ChainSim, the_same_seed_leaves_the_same_trace) {
  for (const bool on_targets : {false, true}) {
    EXPECT_EQ(ChainStory(3, on_targets).run(), ChainStory(3, on_targets).run());
  }
}

}  // namespace
}  // namespace penstock::chain
