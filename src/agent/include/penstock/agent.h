// A node in one process: shards, the file system, perhaps a store beneath it, and the server of
// sessions, whose rings and control calls come from other processes (or from this one).
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "penstock/client.h"
#include "penstock/cluster.h"
#include "penstock/engine.h"
#include "penstock/meta.h"
#include "penstock/node_cache.h"
#include "penstock/resources.h"
#include "penstock/sessions.h"
#include "penstock/telemetry.h"

namespace penstock::agent {

using node_cache::CacheStatus;
using resources::ResourceStatus;
using resources::UserStatus;
using sessions::SessionStatus;

// How an agent serves sessions.
struct AgentOptions {
  // Listens on <directory>/agent.sock when true; embedded nodes do not.
  bool listen = true;
  // How long a shard polls after its last work before it sleeps. Not given: by how many processors
  // there are for each shard, and whether applications have rings (decision 0010).
  std::optional<engine::Duration> spin;
  // DRAM of the node cache, over all classes of readers; 0: there is none.
  uint64_t cache_bytes = 0;
  // How long an application may leave its replies unread before its session ends.
  std::chrono::milliseconds reply_timeout{1000};
  // Where chains are served that are not the node's own, and the tables that directories may choose
  // from; null: none. Everything that files lie on has to be in there before the start, since the
  // lengths of files that were being written are looked for then; more may come at any time. The
  // agent adds what offer_table() brings, and its own chains.
  std::shared_ptr<inodes::ChainAddresses> chains;
  std::shared_ptr<inodes::ChainTables> tables;
};

// A node's part in a cluster. What is empty is as it was last.
struct ClusterOptions {
  // Where other nodes reach it, each as cluster::parse_listen() takes it.
  std::vector<std::string> listen = {};
  std::string rack;
  uint8_t roles = 0;  // bits of engine::Role; settled when the directory is made
  std::optional<cluster::Invitation> invitation;  // of a node that joins for the first time
  bool insecure = false;                          // as cluster::ParticipantConfig has it
  cluster::Rdma rdma = cluster::Rdma::automatic;
  std::shared_ptr<rails::Devices> devices = nullptr;  // in place of the machine's; for tests
  engine::Duration certificate_time{};
  // The cluster does not have this node any more, for a reason that is for people: it is of no use
  // then, and its process should end. Any thread.
  std::function<void(const std::string& reason)> refused = {};
};

// What a start says that waits for its turn, as another directory of the same node has the names
// (docs/decisions/0069-names-taken-over.md).
struct StandbyStatus {
  std::string holder;   // where that one listens; empty: it is not known
  std::string trouble;  // why this one could not take over now; empty: it could
};

// Makes the directory `made`, which is not there yet, to be started on another machine in the place
// of the one whose store is `directory`: its names are on a server, and it has the controller and
// no storage. It may run meanwhile. `listen`: HOST:PORT, where the other one is reached.
Outcome<void> make_standby(const std::string& directory, const std::string& made,
                           const std::string& listen);

// A node with a store of its own.
struct AgentConfig : AgentOptions {
  // The store directory. Made if missing or empty; anything else that is not a store is refused.
  std::string directory;
  bool create = true;  // false: refuse a directory that is not a store yet
  // Applies when the store is made: number of targets in the directory (one per shard; none where
  // it is made with disks, or without the role), chunk size of new files, capacity (0: what the
  // file system has).
  uint32_t shards = 1;
  uint64_t chunk_bytes = limits::kChunkBytesDefault;
  uint64_t capacity_bytes = 0;
  bool force_threads = false;  // do not try io_uring
  bool defragment = true;      // move scattered blocks together in the background
  // A store that is of a cluster takes part in it in any case.
  std::optional<ClusterOptions> cluster = {};
  // Where its names are, of a node that has some: postgresql://..., perhaps with a password, which
  // is not kept. Empty: where they are, or in RocksDB where the store is made.
  std::string names = {};
  // Told again and again while the start waits for its turn; false gives up (cancelled). Empty: it
  // waits until it has it. By the thread that starts.
  std::function<bool(const StandbyStatus&)> stands_by = {};
  // Another directory of this node has got the names, for good: a reason for people. The process
  // should end. Any thread, without blocking.
  std::function<void(const std::string& reason)> taken_over = {};
  // Directories of disks for a target each, absolute, beside those that it was given before. Of a
  // node of a cluster only.
  std::vector<std::string> disks = {};
};

// A node without disks, a client of names and chunks that are elsewhere: it is given `chains`.
struct DisklessConfig : AgentOptions {
  // Where its socket and its files about sessions are: a directory that is there, and this agent's
  // alone. Empty: it keeps no files, and `listen` must be false.
  std::string directory;
  uint32_t shards = 1;
  // The namespace. Outlives the agent.
  meta::Meta* meta = nullptr;
  // The way there: one Net for each shard, made by the thread that starts the agent, for the loop
  // that owns it then. What it stands on outlives the agent.
  std::function<std::unique_ptr<engine::Net>(engine::Loop&)> make_net;
  // Free and total bytes of the targets together.
  std::function<engine::DiskSpace()> space;
  // The key of reopen tokens: agents with the same key accept each other's.
  std::array<uint64_t, 2> token_key{};
};

struct ShardStatus {
  uint32_t index = 0;
  engine::DiskFacts disk;
  uint64_t target_capacity_bytes = 0;
  uint64_t target_used_bytes = 0;
  uint64_t corrupt_blocks_seen = 0;
  uint64_t scattered_bytes = 0;  // whose blocks lie apart on the disk
  uint64_t moved_bytes = 0;      // brought together since the start
  bool full = false;             // no room for the metadata of writes; goes on by itself
  bool failed = false;           // takes no updates until the next start
  uint64_t ring_operations_in_flight = 0;
};

// A disk of a node, as disks.h has them.
struct DiskStatus {
  std::string path;
  std::string trouble;        // why the node runs without it; empty: it has it
  controller::Uuid target{};  // by which the cluster knows it
  bool is_taken_off = false;  // this process has it open still, the next one will not
};

// Where the names of a store are.
struct NamesStatus {
  std::string at;       // "rocksdb", or a URL without a password; empty: they are elsewhere
  bool moves = false;   // they are being moved
  std::string to;       // where, as `at`
  uint64_t copied = 0;  // records so far
  std::vector<std::string> standbys = {};  // where others would listen that could take them over
};

// Told how far a move is, by the thread that moves; false gives up, as long as that is possible.
struct NamesMoving {
  uint64_t records = 0;
  uint64_t bytes = 0;
  uint64_t rounds = 0;  // over what had changed meanwhile
};
using NamesProgress = std::function<bool(const NamesMoving&)>;

struct NamesMoved {
  uint64_t records = 0;
  uint64_t bytes = 0;
  uint64_t rounds = 0;
  engine::Duration pause{};  // how long changes waited
  std::string from;          // as NamesStatus::at
  std::string to;
};

struct AgentStatus {
  std::string directory;
  NamesStatus names;
  uint64_t uptime_seconds = 0;
  client::FileSystemStatus file_system;
  std::vector<ShardStatus> shards;
  std::vector<SessionStatus> sessions;
  std::vector<ResourceStatus> resources;
  std::vector<UserStatus> users;
  // What this process may use, from which the above follows, and the file that says so.
  uint64_t memory_bytes = 0;
  std::string memory_limit;
  uint64_t mappings = 0;
  std::string mappings_limit;
  // What users may have for whom something was set.
  std::vector<std::pair<uint32_t, client::Allowance>> allowances;
  // So far: operations that waited for their turn, and times that a limit held something back.
  uint64_t operations_waited = 0;
  uint64_t operations_slowed = 0;
  // Whether the kernel keeps this process from making pages of clients' memory.
  bool memory_is_fenced = false;
  std::vector<std::pair<std::string, uint64_t>> operations_by_route;
  // Those of rings, by kind and engine::Route, from the turn of the loop that took them to the one
  // that answered, and how many ended with which error number.
  std::vector<telemetry::OperationSample> ring_operations;
  std::map<int, uint64_t> ring_errors;
  // Of this process: databases that take no commits now, and updates that found no space so far.
  uint64_t databases_stopped = 0;
  uint64_t updates_without_space = 0;
  uint64_t cache_bytes = 0;  // at most; 0: there is no node cache
  std::vector<CacheStatus> cache;
  std::optional<cluster::ParticipantStatus> cluster;  // none: the node is alone
  std::vector<DiskStatus> disks;
};

// For a node cache where the operator gave no size: an eighth of the memory that this process may
// use, in whole MiB, and no more than is of use without being asked for.
uint64_t default_cache_bytes();

struct ScrubReport {
  uint64_t verified_bytes = 0;
  uint64_t healed_blocks = 0;  // damaged, and made good from other copies of their chains
  bool complete = false;       // false: ended early, or a target could not be gone through
  struct Bad {
    std::string path;  // or "inode N" when no name leads there
    uint64_t inode = 0;
    uint32_t chunk = 0;
    uint32_t block = 0;
    std::string reason;
  };
  std::vector<Bad> bad;  // what could not be healed
};

// Told how far a scrub is, in the thread that called it and about five times a second; false ends
// the scrub early.
using ScrubProgress = std::function<bool(uint64_t verified_bytes)>;

// Start and stop from one thread; the rest is thread safe.
class Agent {
 public:
  static Outcome<std::unique_ptr<Agent>> start(AgentConfig config);
  static Outcome<std::unique_ptr<Agent>> start(DisklessConfig config);
  virtual ~Agent() = default;
  // Ends all sessions, settles and commits everything, releases the directory. Idempotent.
  virtual void stop() = 0;
  // It is to stop soon: from now on nothing waits for long for a node that may be gone. Before
  // mounts end, which ask for what they have to.
  virtual void hurry() = 0;

  virtual client::FileSystem& files() = 0;
  // Null: the node is alone.
  virtual cluster::Participant* cluster() = 0;
  virtual AgentStatus status() = 0;
  // Reads and verifies everything that its own store has, beside other operations; blocks until
  // that is done.
  virtual ScrubReport scrub(const ScrubProgress& progress) = 0;
  // The disk at that path, which is listed, is not opened by later starts, and is not taken again.
  // Durable when it returns. not_found: none is listed there.
  virtual Outcome<void> take_disk_off(const std::string& path) = 0;

  // Makes a copy of its store's namespace database, of this moment, for a command that reads it:
  // that has a MetaCopy (meta_copy.h), which says where it is, and removes it. not_supported
  // without a store.
  virtual Outcome<void> checkpoint_meta() = 0;

  // Moves the names to another database, "rocksdb" or a URL, while they are used; blocks. What is
  // wrong with it is found before anything changes, and a failure leaves the names where they are;
  // but with may_have_happened the node has to start anew. not_supported where it has no names.
  virtual Outcome<NamesMoved> move_names(const std::string& to, const NamesProgress& progress) = 0;

  // Whether scattered blocks are brought together from now on.
  virtual void set_defragment(bool enabled) = 0;

  // What a user's sessions may have together, kept for restarts, or one session, as long as it
  // lives: `change` gets what is allowed now. What is allowed then.
  using AllowanceChange = std::function<void(client::Allowance&)>;
  virtual Outcome<client::Allowance> allow_user(uint32_t uid, const AllowanceChange& change) = 0;
  virtual Outcome<client::Allowance> allow_session(uint64_t session,
                                                   const AllowanceChange& change) = 0;

  // A table of chains is there, or has grown: from now on directories may choose it for their new
  // files. addresses[i] is where the shards' Nets reach chain table.chain_first + i. What uses the
  // table already keeps its chains, which are reached there from now on. A node with a store has
  // offered its own chains as table 0. invalid_argument, too_large: see ChainTables,
  // ChainAddresses.
  virtual Outcome<void> offer_table(const inodes::ChainTable& table,
                                    std::span<const engine::Address> addresses) = 0;

  // What the operations of rings did, shard by shard, while `meanwhile` ran. busy: another trace is
  // under way.
  virtual Outcome<std::vector<telemetry::Traced>> trace(const std::function<void()>& meanwhile) = 0;

  // A connected session socket of this process, as if it had connected to the agent's socket.
  virtual Outcome<UniqueFd> connect_local() = 0;

  // A mount of this file system shows files of this device number (st_dev): from now on descriptors
  // of it are accepted as proof of what their sender may do. Remove it before unmounting.
  virtual void add_mount(dev_t device, int connection) = 0;
  virtual void remove_mount(dev_t device) = 0;

  // Names of shared memory in mounts' virtual directories (USRBIO). The first front that has such a
  // directory makes the table, whose links `accounts` pay for; all others use the same.
  using MakeRegionLinks = std::function<std::shared_ptr<sessions::RegionLinks>(
      std::shared_ptr<resources::Accounts> accounts)>;
  virtual std::shared_ptr<sessions::RegionLinks> region_links(const MakeRegionLinks& make) = 0;
};

// A node without names, mounts and sessions: its targets are the cluster's, or it has the
// controller.
//
// Start and stop from one thread; the rest is thread safe.
class StorageAgent {
 public:
  // With an invitation, or a directory that joined before. Of `config` what is about sessions and
  // caches does not matter.
  static Outcome<std::unique_ptr<StorageAgent>> start(AgentConfig config);
  virtual ~StorageAgent() = default;
  // Hands over what can be handed over, commits everything, releases the directory. Idempotent.
  virtual void stop() = 0;

  virtual cluster::Participant& cluster() = 0;
  // Of its shards and targets; what is about files and sessions is empty.
  virtual AgentStatus status() = 0;
  // As of an Agent.
  virtual ScrubReport scrub(const ScrubProgress& progress) = 0;
  virtual Outcome<void> take_disk_off(const std::string& path) = 0;
  virtual Outcome<NamesMoved> move_names(const std::string& to, const NamesProgress& progress) = 0;
};

}  // namespace penstock::agent
