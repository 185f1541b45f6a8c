#include "whole_node.h"

namespace penstock::client {

using std::chrono::microseconds;
using std::chrono::seconds;

WholeNode::WholeNode(uint64_t seed) : world(seed), meta_image(world) {
  world.set_time_limit(std::chrono::hours(24));
  const size_t shards = 1 + world.random().below(2);
  for (size_t i = 0; i < shards; ++i) {
    disks_.push_back(std::make_unique<sim::SimDiskImage>(world, kGiB));
    maps_.push_back(std::make_unique<sim::SimKvImage>(world));
  }
  if (world.random().chance(1, 2)) meta_image.faults.conflict_permille = 20;
  if (world.random().chance(1, 2)) maps_[0]->faults.conflict_permille = 20;
  if (world.random().chance(1, 4)) maps_[0]->faults.unknown_commit_permille = 20;
}

WholeNode::~WholeNode() {
  cancel_death();
  if (files != nullptr) bury();
}

bool WholeNode::start() {
  dead_ = false;
  network_ = std::make_unique<net::LocalNetwork>();
  FileSystemConfig config;
  std::vector<engine::Address> addresses;
  for (size_t i = 0; i < disks_.size(); ++i) {
    loops.push_back(std::make_unique<sim::SimLoop>(world));
    live_disks_.push_back(std::make_unique<sim::SimDisk>(*disks_[i], *loops[i]));
    live_maps_.push_back(std::make_unique<sim::SimKv>(*maps_[i]));
    store::TargetConfig target;
    target.directory = "/store";
    target.id = TargetId{static_cast<uint32_t>(i)};
    target.capacity_bytes = 256 * kMiB;
    auto opened = store::Target::open(*loops[i], *live_disks_[i], *live_maps_[i], target);
    if (!opened) {
      EXPECT_TRUE(dead_) << opened.error().message;
      return false;
    }
    targets.push_back(std::move(*opened));
    services_.push_back(chunks::make_service(*targets[i]));
    nets_.push_back(std::make_unique<net::LocalNet>(*network_, *loops[i]));
    nets_[i]->serve({NodeId{1}, static_cast<uint32_t>(i)}, *services_[i]);
    config.shards.push_back({loops[i].get(), nets_[i].get()});
    addresses.push_back({NodeId{1}, static_cast<uint32_t>(i)});
  }
  config.chains = inodes::ChainAddresses::dense(addresses);
  live_meta_kv_ = std::make_unique<sim::SimKv>(meta_image);
  meta_kv_ = std::make_unique<MortalKv>(*live_meta_kv_, [this] {
    if (moments_left_ > 0 && --moments_left_ == 0) die();
  });
  meta::MetaOptions options;
  options.default_layout.chunk_bytes_log2 = 16;
  options.default_layout.chain_count = static_cast<uint32_t>(disks_.size());
  auto opened = meta::Meta::open(*meta_kv_, world.clock(), options);
  if (!opened) {
    EXPECT_TRUE(dead_) << opened.error().message;
    return false;
  }
  meta = std::move(*opened);
  config.written_ids_step = 40;
  auto made = FileSystem::open(*meta, std::move(config));
  if (!made) {
    EXPECT_TRUE(dead_) << made.error().message;
    return false;
  }
  files = std::move(*made);
  return !dead_;
}

void WholeNode::stop() {
  files->close();
  files = nullptr;
  EXPECT_TRUE(meta->close().ok());
  for (size_t i = 0; i < targets.size(); ++i) {
    const Status closed =
        engine::thread_caller().call(*loops[i], [&](engine::Op& done) { targets[i]->close(done); });
    EXPECT_TRUE(closed.ok()) << closed.name();
  }
  tear_down();
}

void WholeNode::bury() {
  if (!dead_) die();
  // Ghosts answer what is in flight.
  world.run_for(seconds(2));
  tear_down();
}

void WholeNode::tear_down() {
  files = nullptr;
  meta = nullptr;
  meta_kv_ = nullptr;
  live_meta_kv_ = nullptr;
  nets_.clear();
  services_.clear();
  targets.clear();
  live_maps_.clear();
  live_disks_.clear();
  loops.clear();
  network_ = nullptr;
}

void WholeNode::plan_death() {
  if (world.random().chance(1, 2)) {
    moments_left_ = 1 + static_cast<int>(world.random().below(400));
  } else {
    death_ = world.after(microseconds(1 + world.random().below(200'000)), "death", [this] {
      death_ = 0;
      die();
    });
  }
}

void WholeNode::cancel_death() {
  moments_left_ = -1;
  if (death_ != 0) world.cancel(std::exchange(death_, 0));
}

void WholeNode::die() {
  cancel_death();
  dead_ = true;
  const bool power = world.random().chance(2, 3);
  power_was_cut_ |= power;
  world.trace("die", power);
  const auto end = [power](auto& image) {
    if (power) {
      image.power_cut();
    } else {
      image.kill();
    }
  };
  for (auto& disk : disks_) end(*disk);
  for (auto& kv : maps_) end(*kv);
  end(meta_image);
}

}  // namespace penstock::client
