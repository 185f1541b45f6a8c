// What a node of the simulation keeps its chunks in: the store in memory, or a target on simulated
// disk and database.
#pragma once

#include <algorithm>
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
  // What is asked of its disk from now on takes so much longer.
  virtual void stall(engine::Duration duration) = 0;
  // Some of the blocks that it has change, silently.
  virtual void damage() = 0;
  // All that it has is verified, and healed if it can be. Blocks the calling thread.
  virtual void scrub() = 0;
  // From the next process on an operation takes so long, at most; one on a disk is one of several.
  virtual void slow_down(engine::Duration delay_max) = 0;
};

class MemoryStorage final : public Storage {
 public:
  explicit MemoryStorage(sim::SimWorld& world) : world_(world) {}
  store::ChainStore& begin(sim::SimLoop& loop) override {
    store_.emplace(image_, loop);
    store_->stall = stall_;
    if (delay_max_ > engine::Duration::zero()) store_->delay_max = delay_max_;
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
  void stall(engine::Duration duration) override {
    stall_ = duration;
    if (store_.has_value()) store_->stall = duration;
  }
  void damage() override {
    std::vector<store::ChainChunk> all;
    for (const auto& [at, chunk] : image_.chunks()) all.push_back(at);
    for (const store::ChainChunk& at : all) {
      const uint64_t blocks = image_.chunks().at(at).bytes.size() / limits::kBlockBytes + 1;
      if (world_.chance(700))
        image_.damage(at, static_cast<uint32_t>(world_.random().below(blocks)));
    }
  }
  void scrub() override {
    bool over = false;
    store_->scrub([&over] { over = true; });
    world_.run_until([&over] { return over; });
  }
  void slow_down(engine::Duration delay_max) override { delay_max_ = delay_max; }

 private:
  sim::SimWorld& world_;
  store::FakeChainImage image_;
  std::optional<store::FakeChainStore> store_;
  uint32_t fault_permille_ = 0;
  engine::Duration stall_{};
  engine::Duration delay_max_{};
};

class TargetStorage final : public Storage {
 public:
  explicit TargetStorage(sim::SimWorld& world) : world_(world), platter_(world), records_(world) {}
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
    // One that is made soon, and is full now and then.
    config.log_bytes = 128 * kKiB;
    config.log_after = 3;
    config.defragment.enabled = false;
    // A target whose log cannot be brought to its places does not open.
    const uint32_t failing = std::exchange(platter_.faults.write_error_permille, 0);
    auto opened = store::Target::open(loop, *disk_, *kv_, config);
    platter_.faults.write_error_permille = failing;
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
  void stall(engine::Duration duration) override {
    const sim::SimDiskFaults usual;
    platter_.faults.latency_min = usual.latency_min + duration;
    platter_.faults.latency_max = usual.latency_max + duration;
  }
  // Blocks that are free are among them, and those of what is pending.
  void damage() override {
    const std::vector<std::string> files = platter_.files();
    if (std::find(files.begin(), files.end(), kData) == files.end()) return;
    constexpr uint64_t kBlocks = 256;
    for (uint64_t block = 0; block < kBlocks; ++block) {
      const uint64_t at = block * limits::kBlockBytes;
      const auto bytes = platter_.peek(kData, at, limits::kBlockBytes);
      const bool used =
          std::any_of(bytes.begin(), bytes.end(), [](std::byte b) { return b != std::byte{}; });
      if (used && world_.chance(700)) {
        platter_.flip_bit(kData, at + world_.random().below(limits::kBlockBytes), 5);
      }
    }
  }
  void scrub() override {
    store::ScrubOp scrub;
    bool over = false;
    scrub.owner = &over;
    scrub.completion = [](engine::Op& done) { done.owner_as<bool>() = true; };
    target_->submit(scrub);
    world_.run_until([&over] { return over; });
  }
  void slow_down(engine::Duration delay_max) override { platter_.faults.latency_max = delay_max; }

 private:
  static constexpr const char* kData = "/target/data-0000";
  sim::SimWorld& world_;
  sim::SimDiskImage platter_;
  sim::SimKvImage records_;
  std::optional<sim::SimDisk> disk_;
  std::optional<sim::SimKv> kv_;
  std::unique_ptr<store::Target> target_;
};

}  // namespace penstock::test
