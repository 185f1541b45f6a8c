// The subcommands of `penstock`, each with its options as the command line gave them.
#pragma once

#include "node/restrictions.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "penstock/base.h"
#include "penstock/bench.h"
#include "penstock/cluster.h"

namespace penstock::apps {

// Exit codes, part of the command's interface.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;     // the attempt failed; the message says why
inline constexpr int kExitUsage = 2;      // the command line makes no sense
inline constexpr int kExitDifferent = 3;  // verify or scrub found damage or differences

// Prints "penstock COMMAND: message" on standard error.
int fail(const char* command, const Failure& failure);
// The same for a message that begins with the command's name.
int fail_plainly(const Failure& failure);

struct UpOptions {
  std::string directory;
  std::string kv;  // where its names are: a URL, or "rocksdb"; empty: as it was made
  std::string mount_point;
  std::string mount_options;  // as after -o
  bool background = false;
  bool json = false;
  bool quiet = false;  // prints nothing when it went well
  bool force_threads = false;
  bool defragment = true;
  std::string log_format;  // "json", or as the environment says
  std::string metrics;     // where they are served; empty: nowhere
  uint32_t shards = 1;
  uint64_t chunk_bytes = 0;  // 0: the default
  uint64_t capacity_bytes = 0;
  std::optional<uint32_t> spin_microseconds;
  std::optional<uint64_t> cache_bytes;  // not given: by the machine's memory
  // Its part in a cluster.
  std::vector<std::string> listen;  // each as cluster::parse_listen() takes it
  std::vector<std::string> disks;
  std::string roles;                 // as cluster::parse_roles() takes it; empty: as it was made
  bool insecure = false;             // without TLS: nobody proves who they are
  std::string rdma;                  // "auto", "trusted" or "off"; empty: auto
  uint64_t certificate_seconds = 0;  // of certificates that this node signs; 0: the default
  std::string rack;
  std::optional<cluster::Invitation> invitation;
};
int run_up(const UpOptions& options);

struct JoinOptions {
  std::string invitation;  // TOKEN@HOST:PORT
  UpOptions up;
};
int run_join(const JoinOptions& options);

struct StandbyOptions {
  std::string directory;  // of the first node
  std::string made;       // the directory that is made
  std::string listen;
};
int run_standby(const StandbyOptions& options);

struct ClusterOptions {
  std::string directory;  // of any node of the cluster
  uint32_t node = 0;      // drain, remove: of a whole node; 0: of a disk
  std::string disk;       // drain, remove: a disk of that directory's node
  bool undo = false;      // drain: it may stay after all
  bool force = false;     // remove: although it has copies, the last ones perhaps
  bool json = false;
};
int run_cluster(const ClusterOptions& options);
int run_nodes(const ClusterOptions& options);
int run_chains(const ClusterOptions& options);
int run_drain(const ClusterOptions& options);
int run_remove(const ClusterOptions& options);

struct TokenOptions {
  std::string directory;  // of the node with the controller
  std::string roles = "storage,agent";
  uint32_t uses = 1;
  uint64_t seconds = 3600;
  uint32_t node = 0;            // only for this one
  uint32_t token = 0;           // revoke
  RestrictionWords words = {};  // create
  bool json = false;
};
int run_token_create(const TokenOptions& options);
int run_token_list(const TokenOptions& options);
int run_token_revoke(const TokenOptions& options);

struct RestrictOptions {
  std::string directory;  // of the node with the controller
  uint32_t node = 0;
  RestrictionWords words = {};
  bool nothing = false;  // it may do everything again
  bool json = false;
};
int run_restrict(const RestrictOptions& options);

struct IdentityOptions {
  std::string directory;  // of the node with the controller
  bool again = false;     // begin: in the place of one whose key is lost
  bool force = false;     // renew: leaves nodes behind that are down
  bool json = false;
};
int run_identity_begin(const IdentityOptions& options);
int run_identity_renew(const IdentityOptions& options);
int run_identity_status(const IdentityOptions& options);

struct NodeOptions {
  std::string directory;
  std::string mount_point;
  std::string mount_options;  // as after -o
  bool json = false;
  bool quiet = false;  // prints nothing when it went well
};
int run_down(const NodeOptions& options);
int run_status(const NodeOptions& options);
int run_mount(const NodeOptions& options);
int run_unmount(const NodeOptions& options);
// What mount(8) runs for the type penstock, with its arguments: STORE MOUNTPOINT [-o LIST] and
// more. Ends as mount(8) does.
int run_mount_helper(const std::vector<std::string>& arguments);
int run_scrub(const NodeOptions& options);

struct TopOptions {
  std::string directory;
  double seconds = 2;  // between two looks
  bool once = false;
  bool json = false;
};
int run_top(const TopOptions& options);

struct TraceOptions {
  std::string directory;
  double seconds = 1;
  bool json = false;
  std::string file;  // empty: standard output
};
int run_trace(const TraceOptions& options);

struct LimitOptions {
  std::string directory;
  std::optional<uint32_t> user;
  std::optional<uint64_t> session;
  // What is not given stays as it is.
  std::optional<uint32_t> weight;
  std::optional<uint64_t> bytes_per_second;
  std::optional<uint64_t> operations_per_second;
  std::optional<uint32_t> in_flight;
  bool clear = false;  // everything that is not given goes back to what it is without limits
  bool json = false;
};
int run_limit(const LimitOptions& options);

struct QuotaOptions {
  std::string directory;
  std::string path;  // of a directory inside; empty: none is meant
  std::optional<uint32_t> user;
  std::optional<uint64_t> inode;  // of a directory whose path is not known any more
  // What is not given stays as it is; 0: no limit.
  std::optional<uint64_t> capacity;
  std::optional<uint64_t> inodes;
  bool repair = false;
  bool json = false;
};
int run_quota_set(const QuotaOptions& options);
int run_quota_get(const QuotaOptions& options);
int run_quota_list(const QuotaOptions& options);
int run_quota_delete(const QuotaOptions& options);
int run_quota_check(const QuotaOptions& options);

struct TrashOptions {
  std::string place;              // a store, or a directory inside where that is asked for
  std::string days;               // "7", "off" or "inherit"
  std::string hour;               // as the directories of .trash are named; empty: any
  std::vector<std::string> what;  // to be restored
  std::string to;                 // where to; empty: where it was
  uint64_t limit = 100;
  std::optional<uint32_t> older_than;  // days
  bool all = false;
  bool json = false;
};
int run_trash_set(const TrashOptions& options);
int run_trash_get(const TrashOptions& options);
int run_trash_list(const TrashOptions& options);
int run_trash_restore(const TrashOptions& options);
int run_trash_empty(const TrashOptions& options);

struct LayoutOptions {
  std::vector<std::string> paths;
  std::string store;
  bool json = false;
};
int run_layout(const LayoutOptions& options);

struct SetOptions {
  std::string path;
  std::string store;
  // What is not given stays as it is.
  std::optional<uint64_t> chunk_bytes;
  std::optional<uint32_t> stripe;  // 0: all chains
  std::optional<uint32_t> copies;
  std::string media;
  bool recursive = false;
  bool json = false;
};
int run_set(const SetOptions& options);

struct MetadataOptions {
  std::string directory;
  std::string to;    // move: a URL, or "rocksdb"
  std::string file;  // empty: standard output; "-": standard input
  bool json = false;
  bool quiet = false;
};
int run_metadata_dump(const MetadataOptions& options);
int run_metadata_load(const MetadataOptions& options);
int run_metadata_move(const MetadataOptions& options);
int run_metadata_check(const MetadataOptions& options);

struct TreeOptions {
  std::string source;
  std::string destination;
  std::string store;
  uint32_t threads = 4;
  bool json = false;
  bool quiet = false;
};
int run_import(const TreeOptions& options);
int run_verify(const TreeOptions& options);

struct WarmOptions {
  std::vector<std::string> paths;
  std::string store;
  uint32_t threads = 4;
  bool json = false;
  bool quiet = false;
};
int run_warmup(const WarmOptions& options);

struct LoadOptions {
  std::vector<std::string> paths;
  std::string store;
  std::vector<int32_t> gpus{0};
  std::vector<int32_t> lenders;
  bool lend_all = false;
  uint64_t alignment = 0;  // 0: the library's
  uint32_t threads = 0;    // the same
  bool json = false;
  bool quiet = false;
};
int run_load(const LoadOptions& options);

struct SaveOptions {
  std::string source;
  std::string destination;
  std::string store;
  int32_t gpu = 0;
  bool json = false;
  bool quiet = false;
};
int run_save(const SaveOptions& options);

struct CheckOptions {
  std::string directory;  // where scratch files go
  bool json = false;
};
int run_check(const CheckOptions& options);
int run_check_gpu(const CheckOptions& options);

struct NetCheckOptions {
  std::string store;   // of a node that runs; empty: only this machine is looked at
  std::string node;    // only to and from this one, by its number or name; empty: all pairs
  double seconds = 1;  // for each way
  bool json = false;
};
int run_check_net(const NetCheckOptions& options);

struct SymmCheckOptions {
  uint32_t pes = 0;      // that are started for it; 0: one for each GPU, or those of the job
  double seconds = 0.5;  // for each pair
  bool json = false;
};
int run_check_symm(const SymmCheckOptions& options);

struct RunOptions {
  std::optional<uint32_t> size;
  uint32_t per_node = 0;                 // 0: as many as there are
  std::vector<std::string> hosts;        // each a list; empty: this machine
  std::string host_file;                 // empty: none
  bool oversubscribe = false;            // more ranks than slots
  std::string shell;                     // words that reach another machine
  std::string remote_penstock;           // empty: where it is here
  std::string address;                   // of this machine; empty: all of them
  std::vector<std::string> environment;  // NAME=VALUE, or NAME
  std::string directory;                 // empty: this one
  bool label = false;
  bool keep_going = false;
  std::vector<std::string> command;  // the program and its arguments
};
int run_run(const RunOptions& options);
// What `run` starts on other machines. Its task comes over standard input.
int run_node_part();

struct BenchOptions {
  std::vector<std::string> suites;  // empty: the default ones
  std::string json_file;
  std::string to;     // net: to this node of a running cluster; empty: over loopback
  std::string store;  // net, with `to`: of the node that measures
  bench::BenchOptions how;
};
int run_bench(const BenchOptions& options);

}  // namespace penstock::apps
