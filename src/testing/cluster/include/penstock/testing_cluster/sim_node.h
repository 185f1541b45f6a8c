// Nodes of a simulated cluster: each with a store, a mount, or both, on wires that lose and delay.
#pragma once

#include <memory>
#include <vector>

#include "penstock/chunks.h"
#include "penstock/client.h"
#include "penstock/sim.h"
#include "penstock/store.h"

namespace penstock::test {

// Its disks and databases outlive its lives. What it calls on other nodes goes over SimNet, and
// what it calls on itself, too. start() and what follows may be called by any thread of the
// simulation.
class SimNode {
 public:
  // `number` is its address; `targets` are those of the files that it mounts, none for a node that
  // only stores.
  SimNode(sim::SimNetwork& network, sim::SimWorld& world, uint32_t number,
          std::vector<engine::Address> targets);
  ~SimNode();

  // Its store, and once that is there its mount; the reason of what failed.
  Status start_store();
  Status start_mount();
  // Settles and closes everything.
  void stop();
  // The process is killed, or the machine loses power. What still runs comes to an end without
  // effect: returns when it has.
  void die(bool power_cut);

  uint32_t number() const { return number_; }
  engine::Address address() const { return {NodeId{number_}, 0}; }
  // Null while there is no mount. A thread that holds it finds its calls ending with closed once
  // the node dies, and lets go of it then.
  std::shared_ptr<client::FileSystem> files() const { return files_; }
  sim::SimLoop& loop() { return *loop_; }
  // What its store holds, as long as it is there.
  store::TargetStatus stored() const { return target_->status(); }
  const client::Credentials root;

 private:
  void tear_down();

  sim::SimNetwork& network_;
  sim::SimWorld& world_;
  const uint32_t number_;
  const std::vector<engine::Address> targets_;

  sim::SimDiskImage disk_image_;
  sim::SimKvImage map_image_;
  sim::SimKvImage meta_image_;

  std::unique_ptr<sim::SimLoop> loop_;
  std::unique_ptr<sim::SimNet> net_;
  std::unique_ptr<sim::SimDisk> disk_;
  std::unique_ptr<sim::SimKv> maps_;
  std::unique_ptr<store::Target> target_;
  std::unique_ptr<engine::Service> service_;
  std::unique_ptr<sim::SimKv> meta_kv_;
  std::unique_ptr<meta::Meta> meta_;
  std::shared_ptr<client::FileSystem> files_;
  bool serving_ = false;
};

}  // namespace penstock::test
