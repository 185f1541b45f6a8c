// A file system over shards, put together: over a store of its own, or over names and chunks that
// are elsewhere.
#pragma once

#include "capabilities.h"
#include "capability_signer.h"
#include "disks.h"
#include "leased_names.h"
#include "node_holds.h"
#include "node_shard.h"
#include "remote_names.h"
#include "served_names.h"
#include "storage.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "penstock/agent.h"
#include "penstock/client.h"
#include "penstock/cluster.h"
#include "penstock/inodes.h"
#include "penstock/net.h"

namespace penstock::agent {

// Started and stopped by one thread; the rest is thread safe in between.
class Node {
 public:
  static Outcome<std::unique_ptr<Node>> start(const AgentConfig& config);
  // Without files: its targets are the cluster's, or it has the controller.
  static Outcome<std::unique_ptr<Node>> start_storage(const AgentConfig& config);
  static Outcome<std::unique_ptr<Node>> start(const DisklessConfig& config);
  ~Node();
  void stop();
  // See Agent::hurry().
  void hurry() {
    if (remote_names_ != nullptr) remote_names_->hurry();
  }

  // Null: it has no disks.
  Storage* storage() { return storage_.get(); }
  // Where its socket and its files about sessions are; empty: nowhere.
  const std::string& directory() const { return directory_; }
  // The key of reopen tokens.
  const std::array<uint64_t, 2>& secret() const { return secret_; }
  client::FileSystem& files() { return *files_; }
  // Null: it knows no names, or does not know them yet.
  meta::Meta* meta();
  // Null: it is alone.
  cluster::Participant* cluster() { return participant_.get(); }
  std::vector<std::unique_ptr<NodeShard>>& shards() { return shards_; }
  std::vector<DiskStatus> disks() const;
  // See Agent::take_disk_off().
  Outcome<void> take_disk_off(const std::string& path);
  // The rings of shard i are served once the session part is told of it here.
  void serve_rings(uint32_t shard, engine::Poller& rings);
  void withdraw_rings(uint32_t shard, engine::Poller& rings);
  // Status of all targets of its own, gathered from their loops.
  std::vector<store::TargetStatus> target_status();
  Outcome<void> checkpoint_meta();
  // See Agent::move_names().
  Outcome<NamesMoved> move_names(const std::string& to, const NamesProgress& progress);
  NamesStatus names_status() const;
  void set_defragment(bool enabled);
  // See Agent::offer_table().
  Outcome<void> offer_table(const inodes::ChainTable& table,
                            std::span<const engine::Address> addresses);

 private:
  Node() = default;
  static Outcome<std::unique_ptr<Node>> start(const AgentConfig& given, bool has_agent);
  Outcome<void> build(const AgentConfig& config, bool has_agent);
  Outcome<void> prepare_cluster(const AgentConfig& config, uint8_t kept);
  Outcome<void> add_own_targets(const AgentConfig& config);
  Outcome<std::vector<Disk>> find_disks(const AgentConfig& config);
  Outcome<void> add_new_disk(const std::string& path, std::vector<Disk>& disks);
  Outcome<void> add_disks(const AgentConfig& config);
  Outcome<void> add_disk(const AgentConfig& config, const Disk& disk);
  Outcome<void> add_loop_alone(const AgentConfig& config);
  Outcome<void> finish_making();
  Outcome<void> open_names(const AgentConfig& config);
  Outcome<void> make_nets();
  // Where the targets in its own directory are served, within the process.
  engine::Address own_address(const NodeShard& shard) const;
  Outcome<void> offer_own_chains();
  void offer(const controller::Table& table);
  Outcome<void> open_files();
  Outcome<void> begin_holding();
  void let_calls_end();
  std::shared_ptr<const meta_net::Limits> limits_of(NodeId node);
  void share_names();
  bool may_act();
  Outcome<void> serve_names();
  Outcome<void> serve_all_names();
  void find_names();
  Outcome<void> build(const DisklessConfig& config);
  void use_chains(const AgentOptions& options);
  void run_shards();
  // Of the targets of its own.
  engine::DiskSpace own_space();
  // For files of the root directory's layout: what its chains can hold, each byte counted once.
  engine::DiskSpace space();
  // As it is, or was when its database could be reached.
  std::optional<meta::Attributes> known_root();

  std::string directory_;
  std::array<uint64_t, 2> secret_{};
  net::LocalNetwork network_;  // between its own shards
  std::vector<std::unique_ptr<NodeShard>> shards_;
  std::unique_ptr<Storage> storage_;
  std::mutex root_mutex_;
  std::optional<meta::Attributes> known_root_;
  std::vector<Disk> new_disks_;     // that are not listed yet
  mutable std::mutex disks_mutex_;  // of the list on disk, and of what follows
  std::vector<DiskStatus> disk_status_;
  std::unique_ptr<cluster::Participant> participant_;
  std::shared_ptr<inodes::ChainAddresses> chains_;
  std::shared_ptr<inodes::ChainTables> tables_;
  // With the names of a cluster, null elsewhere.
  std::unique_ptr<meta_net::NodeRights> rights_;
  std::unique_ptr<CapabilitySigner> signer_;
  std::unique_ptr<Capabilities> capabilities_;         // null: this node has the names
  std::vector<std::unique_ptr<OwnChain>> own_chains_;  // by their numbers
  std::unique_ptr<RemoteNames> remote_names_;          // null: the names are its own
  // Null: the node is alone, or has no files. The second is for threads and loops that come before
  // it is there.
  std::unique_ptr<NodeHolds> holds_;
  std::atomic<NodeHolds*> holds_seen_{nullptr};
  std::unique_ptr<client::FileSystem> files_;
  std::unique_ptr<Standbys> standbys_;         // null: nobody could take the names over
  std::unique_ptr<LeasedNames> leased_names_;  // the same
  std::mutex served_mutex_;                    // of the pointer
  std::unique_ptr<ServedNames> served_names_;  // null: to nobody
  bool has_names_ = true;
  engine::Duration spin_{};  // of its shards
  bool running_ = false;
};

// What a shard says of itself and of its target, where it has one, without its rings.
ShardStatus shard_status(NodeShard& shard, const store::TargetStatus* target);

}  // namespace penstock::agent
