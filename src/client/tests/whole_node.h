// A whole node on simulated disks and databases, which can be killed or lose power at any moment
// and begin another life on what is left.
#pragma once

#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <vector>

#include "penstock/chunks.h"
#include "penstock/client.h"
#include "penstock/net.h"
#include "penstock/sim.h"
#include "penstock/store.h"

namespace penstock::client {

// Meta's database. Its calls are over in an instant of simulated time, so moments to die at are
// counted here: before and after each commit.
class MortalKv final : public engine::Kv {
 public:
  MortalKv(engine::Kv& below, std::function<void()> moment)
      : below_(below), moment_(std::move(moment)) {}
  void submit(engine::KvOp& op) override { below_.submit(op); }
  using engine::Kv::run;
  Status run(engine::KvOp& op) override {
    moment_();
    const Status status = below_.run(op);
    moment_();
    return status;
  }
  Status sync() override {
    moment_();
    return below_.sync();
  }

 private:
  engine::Kv& below_;
  const std::function<void()> moment_;
};

class WholeNode {
 public:
  explicit WholeNode(uint64_t seed);
  ~WholeNode();

  // False if it died on the way.
  bool start();
  // Settles and closes everything.
  void stop();
  // The end of a life that was cut short: what still runs comes to its end without effect.
  void bury();

  // Arms the next death: at a moment between now and then.
  void plan_death();
  void cancel_death();
  bool dead() const { return dead_; }
  // In any of the deaths since the last forget_power_cuts().
  bool power_was_cut() const { return power_was_cut_; }
  void forget_power_cuts() { power_was_cut_ = false; }

  size_t shards() const { return disks_.size(); }
  const Credentials root;
  sim::SimWorld world;
  std::unique_ptr<FileSystem> files;
  std::unique_ptr<meta::Meta> meta;
  std::vector<std::unique_ptr<store::Target>> targets;
  std::vector<std::unique_ptr<sim::SimLoop>> loops;
  sim::SimKvImage meta_image;

 private:
  void die();
  void tear_down();

  std::vector<std::unique_ptr<sim::SimDiskImage>> disks_;
  std::vector<std::unique_ptr<sim::SimKvImage>> maps_;

  std::unique_ptr<net::LocalNetwork> network_;
  std::vector<std::unique_ptr<sim::SimDisk>> live_disks_;
  std::vector<std::unique_ptr<sim::SimKv>> live_maps_;
  std::vector<std::unique_ptr<net::LocalNet>> nets_;
  std::vector<std::unique_ptr<engine::Service>> services_;
  std::unique_ptr<sim::SimKv> live_meta_kv_;
  std::unique_ptr<MortalKv> meta_kv_;

  bool dead_ = false;
  bool power_was_cut_ = false;
  int moments_left_ = -1;
  sim::SimWorld::EventId death_ = 0;
};

}  // namespace penstock::client
