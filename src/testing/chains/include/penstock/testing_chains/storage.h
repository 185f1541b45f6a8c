// What a node of the simulation keeps its chunks in: the store in memory, or a target on simulated
// disk and database.
#pragma once

#include <memory>
#include <optional>

#include "penstock/chain_store_fake.h"
#include "penstock/sim.h"
#include "penstock/store.h"

namespace penstock::test {

// Outlives the processes of its node, of which there is one at a time.
class Storage {
 public:
  virtual ~Storage() = default;
  // A process begins. The store lives until end().
  virtual store::ChainStore& begin(sim::SimLoop& loop) = 0;
  // It is killed, or loses power: what is under way ends without effect.
  virtual void die(bool power_cut) = 0;
  // And all of that has ended.
  virtual void end() = 0;
  // This share of writes fails from now on.
  virtual void fail_writes(uint32_t permille) = 0;
};

class MemoryStorage final : public Storage {
 public:
  explicit MemoryStorage(sim::SimWorld& world) : world_(world) {}
  store::ChainStore& begin(sim::SimLoop& loop) override {
    store_.emplace(image_, loop);
    store_->fault = [this] {
      return world_.chance(fault_permille_) ? Status(Code::io_error) : Status(Code::ok);
    };
    return *store_;
  }
  void die(bool power_cut) override {
    store_->die();
    if (power_cut) image_.power_cut(world_.random());
  }
  void end() override { store_.reset(); }
  void fail_writes(uint32_t permille) override { fault_permille_ = permille; }

 private:
  sim::SimWorld& world_;
  store::FakeChainImage image_;
  std::optional<store::FakeChainStore> store_;
  uint32_t fault_permille_ = 0;
};

class TargetStorage final : public Storage {
 public:
  explicit TargetStorage(sim::SimWorld& world) : platter_(world), records_(world) {}
  store::ChainStore& begin(sim::SimLoop& loop) override {
    disk_.emplace(platter_, loop);
    kv_.emplace(records_);
    store::TargetConfig config;
    config.directory = "/target";
    config.id = TargetId(1);
    config.capacity_bytes = 64 * kMiB;
    config.reserve_bytes = 0;
    // A few maps only, so that commits have to wait for them now and then.
    config.map_cache_bytes = 1;
    config.defragment.enabled = false;
    auto opened = store::Target::open(loop, *disk_, *kv_, config);
    ASSERT(opened.has_value());
    target_ = std::move(*opened);
    return target_->chains();
  }
  void die(bool power_cut) override {
    if (power_cut) {
      platter_.power_cut();
      records_.power_cut();
    } else {
      platter_.kill();
      records_.kill();
    }
  }
  void end() override {
    target_.reset();
    kv_.reset();
    disk_.reset();
  }
  void fail_writes(uint32_t permille) override { platter_.faults.write_error_permille = permille; }

 private:
  sim::SimDiskImage platter_;
  sim::SimKvImage records_;
  std::optional<sim::SimDisk> disk_;
  std::optional<sim::SimKv> kv_;
  std::unique_ptr<store::Target> target_;
};

}  // namespace penstock::test
