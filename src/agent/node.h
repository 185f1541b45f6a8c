// What a node is made of, put together: shards with their disks and targets, the databases, the
// namespace and the file system.
#pragma once

#include "session.h"
#include "store_directory.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "penstock/agent.h"
#include "penstock/disk.h"
#include "penstock/kv.h"
#include "penstock/net.h"
#include "penstock/store.h"

namespace penstock::agent {

// One polling thread with everything that belongs to it. Made and taken apart by the thread that
// starts the node; in between the shard's thread owns all of it.
class NodeShard {
 public:
  static Outcome<std::unique_ptr<NodeShard>> make(const AgentConfig& config,
                                                  const StoreDirectory& store,
                                                  net::LocalNetwork& network, uint32_t index);
  ~NodeShard();

  void run();
  // Commits what is pending and ends the thread. No operation may come any more.
  void stop();

  engine::Address address() const { return {0, index_}; }
  engine::Loop& loop() { return *loop_; }
  engine::Parker& parker() { return driver_->parker(); }
  engine::Disk& disk() { return *disk_; }
  engine::Net& net() { return *net_; }
  store::Target& target() { return *target_; }

 private:
  explicit NodeShard(uint32_t index) : index_(index), random_(engine::system_seed()) {}

  const uint32_t index_;
  engine::SeededRandom random_;
  std::unique_ptr<engine::Kv> kv_;
  std::unique_ptr<disk::DiskDriver> driver_;
  std::unique_ptr<engine::Loop> loop_;
  engine::Disk* disk_ = nullptr;
  std::unique_ptr<store::Target> target_;
  std::unique_ptr<engine::Service> service_;
  std::unique_ptr<net::LocalNet> net_;
  std::thread thread_;
};

class Node {
 public:
  static Outcome<std::unique_ptr<Node>> start(const AgentConfig& config);
  ~Node();
  void stop();

  const StoreDirectory& store() const { return *store_; }
  client::FileSystem& files() { return *files_; }
  meta::Meta& meta() { return *meta_; }
  std::vector<std::unique_ptr<NodeShard>>& shards() { return shards_; }
  // The rings of shard i are served once the session part is told of it here.
  void serve_rings(uint32_t shard, engine::Poller& rings);
  void withdraw_rings(uint32_t shard, engine::Poller& rings);
  // Status of all targets, gathered from their loops.
  std::vector<store::TargetStatus> target_status();
  void set_defragment(bool enabled);

 private:
  Node() = default;
  Outcome<void> build(const AgentConfig& config);
  engine::DiskSpace space();

  std::unique_ptr<StoreDirectory> store_;
  net::LocalNetwork network_;
  std::unique_ptr<engine::Kv> meta_kv_;
  std::vector<std::unique_ptr<NodeShard>> shards_;
  std::unique_ptr<meta::Meta> meta_;
  std::unique_ptr<client::FileSystem> files_;
  bool running_ = false;
};

}  // namespace penstock::agent
