// Three to five targets of one chain, clients on all sides, and faults from a seed; afterwards what
// the clients saw must be linearisable, all copies equal, and nothing left over.
#pragma once

#include "pace.h"

#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "penstock/testing_chains.h"

namespace penstock::chain {

using engine::Thread;
using std::chrono::milliseconds;
using std::chrono::seconds;

inline constexpr size_t kClients = 4;

class ChainStory {
 public:
  ChainStory(uint64_t seed, bool on_targets, Kind kind = Kind::usual,
             test::Wire wire = test::Wire::messages)
      : world_(seed),
        wires_(world_, wire),
        pace_(pace_for(kind, kind == Kind::late ? 0 : world_.random().below(3))),
        with_damage_(kind == Kind::damaged) {
    world_.set_time_limit(std::chrono::hours(2));
    const size_t count = 3 + world_.random().below(3);
    for (uint32_t i = 1; i <= count; ++i) {
      std::unique_ptr<test::Storage> storage;
      if (on_targets) {
        storage = std::make_unique<test::TargetStorage>(world_);
      } else {
        storage = std::make_unique<test::MemoryStorage>(world_);
      }
      nodes_.push_back(std::make_unique<test::StorageNode>(world_, wires_, i, std::move(storage)));
      if (pace_.late && world_.chance(300)) nodes_.back()->slow_down(milliseconds(4));
      if (pace_.removals_permille > 0) nodes_.back()->tombstone_pause = milliseconds(20);
    }
    table_ = std::make_unique<test::ChainTable>(world_, nodes_);
    for (uint32_t i = 0; i < kClients; ++i) {
      clients_.push_back(
          std::make_unique<test::RegisterClient>(world_, wires_, *table_, history_, 101 + i));
    }
  }

  uint64_t run() {
    for (const auto& node : nodes_) node->start();
    table_->start();
    if (pace_.late) aim_at_promotions();
    std::vector<Thread> programs;
    // Some write hardly ever: these hear late of new versions.
    for (size_t i = 0; i < kClients; ++i) {
      programs.emplace_back(
          "client", [this, i] { work(*clients_[i], i % 2 == 0 ? (pace_.late ? 30 : 100) : 700); });
    }
    inject_faults();
    rdma_in_faults_ = wires_.counts();
    ended_in_faults_ = history_.ended();
    heal();
    for (Thread& program : programs) program.join();
    if (world_.chance(300)) lose_all_power();
    settle();
    scrub_all();
    // Names of removed chunks go in the background: copies are compared when they have gone.
    if (pace_.removals_permille > 0) {
      check_tombstones();
    } else {
      check_copies();
    }
    read_all();
    EXPECT_EQ(history_.check(), "") << where();
    EXPECT_GT(history_.ended(), 0U);
    if (wires_.wire() == test::Wire::verbs) check_rails();
    for (const metrics::Sample& sample : metrics::snapshot()) {
      if (sample.name == "chain.healed") healed_ = sample.value;
    }
    stop();
    return world_.trace_hash();
  }

  // The disk of one node stalls while clients work. They go on within 10 s, and once the disk
  // answers again the chain is whole. Where all stall one is left, and the chain goes on when it
  // answers.
  void run_with_stall(bool of_all) {
    for (const auto& node : nodes_) node->start();
    table_->start();
    for (const auto& client : clients_) EXPECT_TRUE(client->write({0, 0}) && client->read({0, 0}));
    const size_t first = of_all ? 0 : world_.random().below(nodes_.size());
    for (size_t i = first; i < (of_all ? nodes_.size() : first + 1); ++i) {
      nodes_[i]->stall(of_all ? seconds(6) : std::chrono::minutes(2));
    }
    if (of_all) {
      world_.after(seconds(10), "stall.ends", [this] {
        for (const auto& node : nodes_) node->stall({});
      });
    }
    const engine::Time begun = world_.now();
    bool written = false;
    // Clients have less patience than a stall takes.
    while (!written && world_.now() - begun < seconds(120)) written = clients_[0]->write({0, 0});
    const engine::Duration took = world_.now() - begun;
    EXPECT_TRUE(written) << where();
    if (!of_all) {
      EXPECT_LT(took, seconds(10)) << where();
      EXPECT_LT(table_->view().serving(), nodes_.size()) << where();
      const engine::Time next = world_.now();
      for (const auto& client : clients_) EXPECT_TRUE(client->read({0, 0})) << where();
      EXPECT_LT(world_.now() - next, seconds(10)) << where();
    }
    EXPECT_GE(table_->view().serving(), 1U) << where();
    for (const auto& node : nodes_) node->stall({});
    // What was asked of it meanwhile ends when it would have.
    world_.run_for(std::chrono::minutes(3));
    settle();
    check_copies();
    read_all();
    EXPECT_EQ(history_.check(), "") << where();
    stop();
  }

  // What RDMA did while faults came, where there is some, and how many reads and writes ended well.
  const test::FabricCounts& rdma_in_faults() const { return rdma_in_faults_; }
  uint64_t ended_in_faults() const { return ended_in_faults_; }
  // Blocks that were healed by processes that lived to the end.
  uint64_t healed() const { return healed_; }
  // Names of removed chunks that went, at replicas that lived to the end.
  uint64_t dropped() const { return dropped_; }
  // Chunks with damage of which no good copy was left.
  size_t lost() const { return lost_.size(); }

 private:
  std::string where() const { return "(seed " + std::to_string(world_.seed()) + ")"; }

  void wait(milliseconds at_most) {
    world_.run_for(milliseconds(world_.random().below(static_cast<uint64_t>(at_most.count()))));
  }

  // Another version than this one, or half a second without; of which the client may hear.
  void await_version(test::RegisterClient& client, uint64_t& seen) {
    for (int left = 100; left > 0 && table_->view().version == seen; --left) {
      world_.run_for(milliseconds(5));
    }
    seen = table_->view().version;
    if (pace_.late && world_.chance(700)) client.refresh();
  }

  test::History::Register any_register() {
    // Most slots go on to the chunk that stays.
    if (pace_.removals_permille > 0) return {world_.chance(200) ? 1 : 0, 0};
    return {world_.random().below(pace_.chunks), world_.random().below(pace_.registers)};
  }

  void work(test::RegisterClient& client, uint32_t writes_permille) {
    uint64_t seen = 0;
    for (int step = 0; step < pace_.steps; ++step) {
      if (pace_.watchful && step % pace_.burst == 0) await_version(client, seen);
      if (pace_.removals_permille > 0 && world_.chance(pace_.removals_permille)) {
        client.remove(1, {pace_.chunks, pace_.registers});
      } else if (world_.chance(writes_permille)) {
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
    if (pace_.late) {
      network_.faults.drop_permille = 120;
      network_.faults.detection = milliseconds(20);
      for (const auto& node : nodes_) {
        table_->hears_late[node->number()] = world_.between(milliseconds(0), milliseconds(250));
      }
    }
    for (const auto& node : nodes_) {
      if (!world_.chance(80)) continue;
      node->failing = true;
      node->fail_writes(100);
    }
    for (uint64_t left = 1 + world_.random().below(pace_.faults); left > 0; --left) {
      wait(pace_.between_faults);
      // Always of the same disk: so there is a good copy, unless all others are lost at some time.
      if (with_damage_ && world_.chance(600)) nodes_[world_.seed() % nodes_.size()]->damage();
      one_fault();
    }
  }

  void scrub_all() {
    for (const auto& node : nodes_) node->scrub();
  }
  // As soon as one says that repair of another has ended, which therefore will serve, it does not
  // hear that one any more for a while: what the other has it may not know to be there.
  void aim_at_promotions() {
    for (const auto& node : nodes_) {
      node->speak = [this, speak = node->speak](test::StorageNode& speaks) {
        const View view = table_->view();
        const Member* const syncing = view.syncing();
        const bool ends = !speaks.reports.empty() && syncing != nullptr &&
                          speaks.reports.back().kind == controller::ChainReport::Kind::repaired;
        if (ends && !calm_ && world_.chance(500)) {
          cut_soon(syncing->address.node, NodeId{speaks.number()});
        }
        speak(speaks);
      };
    }
  }
  void cut_soon(NodeId from, NodeId to) {
    const engine::Duration begin = world_.between(milliseconds(0), milliseconds(40));
    const engine::Duration length = world_.between(milliseconds(50), milliseconds(300));
    world_.after(begin, "story.cut", [this, from, to] { network_.set_cut(from, to, !calm_); });
    world_.after(begin + length, "story.cut.ends",
                 [this, from, to] { network_.set_cut(from, to, false); });
  }

  void one_fault() {
    test::StorageNode& node = *nodes_[world_.random().below(nodes_.size())];
    const uint64_t kind = world_.random().below(wires_.wire() == test::Wire::verbs ? 7 : 6);
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
    } else if (kind == 6) {
      lose_device(NodeId{node.number()});
    } else {
      restart(node);
    }
  }

  // Its calls go by messages, until it is back and was tried again.
  void lose_device(NodeId node) {
    wires_.set_device(node, false);
    world_.after(world_.between(seconds(0), seconds(15)), "story.device.returns",
                 [this, node] { wires_.set_device(node, true); });
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
    calm_ = true;
    wires_.heal();
    network_.faults.detection = milliseconds(300);
    table_->cut_off.clear();
    table_->lost_permille = 0;
    table_->hears_late.clear();
    // A disk that failed is believed again after a restart; until then the last copy of all may be
    // one that serves no more.
    for (const auto& node : nodes_) {
      node->fail_writes(0);
      if (std::exchange(node->failing, false)) restart(*node);
    }
  }

  // Once nothing fails any more the chain is whole again in bounded time.
  void settle() {
    // Who has a queue pair whose other side has ended is not told: it notices by the silence.
    if (wires_.wire() == test::Wire::verbs) world_.run_for(verbs::limits::kSilenceMax + seconds(1));
    const bool whole = world_.run_until(
        [this] {
          if (!table_->all_serve()) return false;
          for (const auto& node : nodes_) {
            if (node->host == nullptr) return false;
            const Host::Status status = node->host->status();
            if (status.pending + status.waiting + status.ungreeted > 0) return false;
          }
          return true;
        },
        seconds(60));
    EXPECT_TRUE(whole) << "no progress " << where();
  }

  void read_all() {
    for (uint64_t chunk = 0; chunk < pace_.chunks; ++chunk) {
      for (uint64_t part = 0; part < pace_.registers; ++part) {
        EXPECT_EQ(clients_[0]->read({chunk, part}), !lost_.contains(chunk)) << where();
      }
    }
  }

  // Once nothing fails any more, all that a client reads comes by RDMA again, whichever replica it
  // asks.
  void check_rails() {
    // What failed most often is tried again, as is a device that was away.
    world_.run_for(verbs::limits::kRetryMax + rails::limits::kReopenAfter);
    const auto read = [this] {
      EXPECT_EQ(clients_[0]->read({0, 0}), !lost_.contains(0)) << where();
      world_.run_for(milliseconds(20));
    };
    for (int i = 0; i < 80; ++i) read();
    for (int i = 0; i < 10; ++i) {
      const uint64_t before = wires_.counts().bound;
      read();
      EXPECT_GT(wires_.counts().bound, before) << where();
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
    std::vector<uint32_t> damaged;  // here, so everywhere: else it had been healed
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
      read.list_damage = true;
      do_in(node, read);
      copy.damaged = read.damaged;
      EXPECT_TRUE(copy.damaged.empty() || with_damage_) << where();
      if (!copy.damaged.empty()) lost_.insert(entry.chunk.index);
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

  // In a version that begins after all removals names of removed chunks go, but those that slots
  // tell of.
  void check_tombstones() {
    std::vector<Thread> programs;
    for (const auto& client : clients_) {
      for (int of_each_slot = 0; of_each_slot < 2; ++of_each_slot) {
        programs.emplace_back("client", [&client] { client->write({0, 0}); });
      }
    }
    for (Thread& program : programs) program.join();
    restart(*nodes_[world_.random().below(nodes_.size())]);
    settle();
    world_.run_for(seconds(5));
    settle();
    check_copies();
    for (const auto& node : nodes_) {
      store::ListOp list;
      list.from = {test::kChain, {}};
      list.limit = 100;
      do_in(*node, list);
      for (const store::ListEntry& entry : list.entries) {
        const bool is_told_of = !node->store().slots_of({test::kChain, entry.chunk}).empty();
        EXPECT_TRUE(!entry.state.removed || is_told_of)
            << "the name of removed chunk " << entry.chunk.index << " is left on node "
            << node->number() << " " << where();
      }
    }
    for (const metrics::Sample& sample : metrics::snapshot()) {
      if (sample.name == "chain.dropped") dropped_ = sample.value;
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
  test::Wires wires_;
  sim::SimNetwork& network_ = wires_.network;
  const Pace pace_;
  const bool with_damage_;
  test::FabricCounts rdma_in_faults_;
  uint64_t ended_in_faults_ = 0;
  uint64_t healed_ = 0;
  uint64_t dropped_ = 0;
  std::set<uint64_t> lost_;
  bool calm_ = false;  // no fault comes any more
  std::vector<std::unique_ptr<test::StorageNode>> nodes_;
  std::unique_ptr<test::ChainTable> table_;
  test::History history_;
  std::vector<std::unique_ptr<test::RegisterClient>> clients_;
};

}  // namespace penstock::chain
