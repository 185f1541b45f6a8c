// A file system over shards, put together: over a store of its own, or over names and chunks that
// are elsewhere.
#pragma once

#include "node_shard.h"
#include "storage.h"

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "penstock/agent.h"
#include "penstock/client.h"
#include "penstock/net.h"

namespace penstock::agent {

// Started and stopped by one thread; the rest is thread safe in between.
class Node {
 public:
  static Outcome<std::unique_ptr<Node>> start(const AgentConfig& config);
  static Outcome<std::unique_ptr<Node>> start(const DisklessConfig& config);
  ~Node();
  void stop();

  // Null: it has no disks.
  Storage* storage() { return storage_.get(); }
  // Where its socket and its files about sessions are; empty: nowhere.
  const std::string& directory() const { return directory_; }
  // The key of reopen tokens.
  const std::array<uint64_t, 2>& secret() const { return secret_; }
  client::FileSystem& files() { return *files_; }
  std::vector<std::unique_ptr<NodeShard>>& shards() { return shards_; }
  // The rings of shard i are served once the session part is told of it here.
  void serve_rings(uint32_t shard, engine::Poller& rings);
  void withdraw_rings(uint32_t shard, engine::Poller& rings);
  // Status of all targets of its own, gathered from their loops.
  std::vector<store::TargetStatus> target_status();
  void set_defragment(bool enabled);

 private:
  Node() = default;
  Outcome<void> build(const AgentConfig& config);
  Outcome<void> build(const DisklessConfig& config);
  void run_shards();
  // Of the targets of its own.
  engine::DiskSpace space();

  std::string directory_;
  std::array<uint64_t, 2> secret_{};
  net::LocalNetwork network_;  // between its own shards
  std::vector<std::unique_ptr<NodeShard>> shards_;
  std::unique_ptr<Storage> storage_;
  std::unique_ptr<client::FileSystem> files_;
  bool running_ = false;
};

}  // namespace penstock::agent
