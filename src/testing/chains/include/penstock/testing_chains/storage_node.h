// A process with a simulated target in a chain.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "penstock/chain.h"
#include "penstock/controller.h"
#include "penstock/testing_chains/storage.h"
#include "penstock/testing_rails.h"

namespace penstock::test {

inline constexpr ChainId kChain = kFirstSharedChain;

// A process with one target. It tells the controller how it is, over messages that take their time.
class StorageNode {
 public:
  StorageNode(sim::SimWorld& world, Wires& wires, uint32_t number, std::unique_ptr<Storage> storage)
      : world_(world), wires_(wires), number_(number), storage_(std::move(storage)) {}
  ~StorageNode() { ASSERT(host == nullptr && net_ == nullptr); }

  // A process begins, which has nothing open.
  void start();
  // Its target has got that incarnation, and is served.
  void open(controller::Incarnation incarnation);
  // Killed, or without power. What was under way comes to its end without effect.
  void die(bool power_cut);
  bool is_up() const { return is_up_; }

  uint32_t number() const { return number_; }
  engine::Address address() const { return {NodeId{number_}, 0}; }
  TargetId target() const { return TargetId{number_}; }
  controller::Uuid uuid() const;
  // The incarnation that the target keeps.
  controller::Incarnation incarnation() const { return incarnation_; }
  store::ChainStore& store() { return *store_; }

  // This share of its writes to the disk fails.
  void fail_writes(uint32_t permille) { storage_->fail_writes(permille); }
  bool failing = false;
  // What is asked of its disk from now on takes so much longer.
  void stall(engine::Duration duration) { storage_->stall(duration); }
  // Some of what is on it changes, silently.
  void damage() { storage_->damage(); }
  // Finds and heals that. Blocks the calling thread.
  void scrub() { storage_->scrub(); }
  // From its next life on.
  void slow_down(engine::Duration delay_max) { storage_->slow_down(delay_max); }

  // Of its host from its next life on.
  engine::Duration tombstone_pause = std::chrono::seconds(1);

  std::unique_ptr<chain::Host> host;

  // What it will say of itself next, and what it was told.
  controller::Uuid process;
  uint64_t opening = 0;
  controller::NodeIncarnation admitted;
  uint64_t sequence = 0;
  uint64_t answered = 0;
  controller::MapVersion applied;
  std::map<uint64_t, engine::Time> sent;  // heartbeats, until they are answered
  std::vector<controller::ChainReport> reports;
  struct Accused {
    engine::Time first{};
    engine::Time last{};
  };
  std::map<uint32_t, Accused> unreachable;
  // Called when there is something to report.
  std::function<void(StorageNode&)> speak;

  std::vector<NodeId> accused() const;

 private:
  void on_report(const chain::Report& report);

  sim::SimWorld& world_;
  Wires& wires_;
  const uint32_t number_;
  bool is_up_ = false;
  controller::Incarnation incarnation_;
  const std::unique_ptr<Storage> storage_;
  std::unique_ptr<sim::SimLoop> loop_;
  std::unique_ptr<Plug> net_;
  store::ChainStore* store_ = nullptr;
};

}  // namespace penstock::test
