#include "node/node_metrics.h"

#include "penstock.h"

#include <cstring>
#include <fmt/format.h>
#include <map>
#include <tuple>
#include <utility>

#include "penstock/fuse.h"
#include "penstock/telemetry.h"

namespace penstock::apps {
namespace {

using telemetry::Exposition;
using telemetry::Labels;

std::string text(uint64_t number) {
  return std::to_string(number);
}

// "ENOSPC", the cause as people search for it.
std::string error_name(int error) {
  const char* const name = ::strerrorname_np(error);
  return name != nullptr ? name : text(static_cast<uint64_t>(error));
}

struct CounterName {
  const char* counter;  // as base/metrics.h knows it
  const char* name;
  const char* help;
  bool is_gauge = false;
};
constexpr CounterName kCounters[] = {
    {"disk.ops", "penstock_disk_operations_total", "Reads, writes and syncs given to disks."},
    {"disk.enter", "penstock_disk_submissions_total", "System calls that gave them to the kernel."},
    {"disk.joined", "penstock_disk_joined_total", "Operations that went together with others."},
    {"disk.retry", "penstock_disk_retries_total", "Operations that the kernel wanted again."},
    {"store.read.ops", "penstock_store_reads_total", "Reads of chunks."},
    {"store.read.bytes", "penstock_store_read_bytes_total", "Bytes read from chunks."},
    {"store.write.ops", "penstock_store_writes_total", "Writes to chunks."},
    {"store.write.bytes", "penstock_store_written_bytes_total", "Bytes written to chunks."},
    {"store.commits", "penstock_store_commits_total", "Groups of changes made durable together."},
    {"store.log.writes", "penstock_store_log_writes_total",
     "Small durable writes that went to the log."},
    {"store.log.records", "penstock_store_log_records_total", "Records written to the log."},
    {"store.log.replayed", "penstock_store_log_replayed_total",
     "Records brought to their place at the start."},
    {"store.corrupt_blocks", "penstock_store_corrupt_blocks_total",
     "Blocks whose checksum did not match."},
    {"store.repeated_reads", "penstock_store_repeated_reads_total",
     "Reads repeated as their block changed meanwhile."},
    {"store.no_space", "penstock_store_refused_for_space_total",
     "Updates refused for lack of space."},
    {"store.moved_blocks", "penstock_store_defragmented_blocks_total",
     "Scattered blocks brought together."},
    {"client.behind.writes", "penstock_gathered_writes_total",
     "Small writes of mounts gathered in memory."},
    {"client.behind.bytes", "penstock_gathered_bytes", "Bytes gathered in memory now.", true},
    {"client.behind.lost.bytes", "penstock_gathered_lost_bytes_total",
     "Gathered bytes that a failed write lost."},
    {"client.waited", "penstock_operations_waited_total", "Operations that waited for their turn."},
    {"client.slowed", "penstock_operations_slowed_total",
     "Times that a limit held an operation back."},
    {"kv.stopped", "penstock_databases_stopped", "Databases that take no changes now.", true},
    {"kv.commits", "penstock_kv_commits_total", "Transactions of names and block maps committed."},
    {"kv.conflicts", "penstock_kv_conflicts_total", "Transactions that were begun again."},
    {"kv.unknown_commits", "penstock_postgresql_unknown_commits_total",
     "Commits whose answer was lost with the connection."},
    {"kv.resolved_commits", "penstock_postgresql_resolved_commits_total",
     "Of these, those of which it was found whether they happened."},
    {"kv.connections", "penstock_postgresql_connections_total", "Connections that were made."},
    {"kv.connections.in_use", "penstock_postgresql_connections_in_use",
     "Connections that an operation has now.", true},
    {"kv.connections.waited", "penstock_postgresql_waits_total",
     "Operations that had to wait for a connection."},
    {"quota.refused", "penstock_quota_refused_total",
     "Times that something did not fit a quota: changes, or bytes before they are written."},
    {"meta.refused", "penstock_meta_calls_refused_total",
     "Calls for names that were not let in: too many, not understood, or no agent's."},
    {"meta.denied", "penstock_meta_calls_denied_total",
     "Calls for names that a restricted node has no right to."},
    {"chain.capabilities_refused", "penstock_chain_capabilities_refused_total",
     "Capabilities that were shown and do not count."},
    {"chain.capabilities_missing", "penstock_chain_capabilities_missing_total",
     "Calls of chains that had to show a capability first."},
    {"chain.callers_refused", "penstock_chain_callers_refused_total",
     "Calls of chains by nodes that may not make them."},
    {"locks.held", "penstock_locks_held", "Locks of files that somebody has.", true},
    {"locks.waiting", "penstock_locks_waiting", "Locks that somebody waits for.", true},
    {"locks.given", "penstock_locks_given_total", "Locks given, changed or given back."},
    {"locks.waited", "penstock_locks_waited_total", "Locks that could not be given at once."},
    {"locks.deadlocks", "penstock_locks_deadlocks_total",
     "Locks refused as their owners would wait for one another."},
    {"locks.full", "penstock_locks_refused_for_room_total", "Locks refused as there are too many."},
    {"locks.refused", "penstock_locks_calls_refused_total",
     "Calls for locks that were not let in."},
    {"locks.denied", "penstock_locks_denied_total",
     "Locks that a restricted node has no right to."},
    {"holds.denied", "penstock_holds_denied_total",
     "Holds that a restricted node has no right to."},
    {"holds.held", "penstock_holds_held", "Holds of files that agents have.", true},
    {"holds.given", "penstock_holds_given_total", "Holds given to agents."},
    {"holds.recalled", "penstock_holds_recalled_total", "Holds that were asked back."},
    {"holds.sessions.begun", "penstock_node_sessions_begun_total", "Sessions of agents begun."},
    {"holds.sessions.ended", "penstock_node_sessions_ended_total",
     "Sessions ended for an agent: its lease was over, it did not give back, or was removed."},
    {"holds.sessions.ending", "penstock_node_sessions_ending",
     "Ended sessions that are being fenced and settled.", true},
    {"holds.waiting", "penstock_holds_waiting", "Operations here that wait for a hold.", true},
    {"holds.waited", "penstock_holds_waited_total", "Operations here that had to wait for one."},
    {"chain.tries", "penstock_chain_tries_total", "Calls of chains' clients that were tried."},
    {"chain.retries", "penstock_chain_retries_total",
     "Of these, those that were no first tries: something had failed, or changed."},
    {"chain.updates", "penstock_chain_updates_total", "Updates of chains prepared here."},
    {"chain.repaired", "penstock_chain_repaired_chunks_total",
     "Chunks that were sent to copies that are brought up to date."},
    {"chain.repaired.bytes", "penstock_chain_repaired_bytes_total", "The same in bytes."},
    {"chain.dropped", "penstock_chain_dropped_names_total",
     "Names of removed chunks that copies here need not keep any more."},
    {"chain.cleared", "penstock_chain_cleared_chunks_total",
     "Chunks that went because their chain has its copies elsewhere now."},
    {"chain.healed", "penstock_chain_healed_blocks_total",
     "Damaged blocks that were made good from other copies."},
    {"chain.unhealed", "penstock_chain_unhealed_blocks_total",
     "Damaged blocks of which no good copy was found when it was tried."},
    {"cache.fill.bytes", "penstock_cache_filled_bytes_total", "Bytes read into the node cache."},
    {"fuse.read.bytes", "penstock_mount_read_bytes_total", "Bytes read through mounts."},
    {"fuse.write.bytes", "penstock_mount_written_bytes_total", "Bytes written through mounts."},
    {"fuse.invalidations", "penstock_mount_invalidations_total",
     "Times that the kernel was told to drop what it knew."},
#if PENSTOCK_NEXT_PROTOCOL
    {"chain.next.older", "penstock_next_chain_older_total", "Calls in the version before."},
    {"chain.next.with_field", "penstock_next_chain_with_field_total", "Calls with the new field."},
    {"chain.next.without_field", "penstock_next_chain_without_field_total",
     "Calls in the new version without its field."},
    {"chain.next.loads", "penstock_next_chain_loads_total", "Calls of the new kind."},
    {"membership.next.with_field", "penstock_next_heartbeats_with_field_total",
     "Heartbeats with the new field."},
    {"membership.next.without_field", "penstock_next_heartbeats_without_field_total",
     "Heartbeats without it."},
#endif
};

using CounterValues = std::map<std::string, uint64_t>;

constexpr double kNanosecondsOfSecond = 1e9;  // in nanoseconds, as counters have them

// Counters whose names begin so: one family, with the rest of the name as its label.
struct LabelledCounters {
  const char* begins;
  const char* label;
  const char* name;
  const char* help;
  bool is_time = false;
};
constexpr LabelledCounters kLabelled[] = {
    {"meta.calls.", "call", "penstock_meta_calls_total",
     "Calls of agents for names that were answered here."},
    {"meta.failed.", "call", "penstock_meta_call_errors_total",
     "Of these, those that failed; that a name is not there is a failure, too."},
    {"meta.nanoseconds.", "call", "penstock_meta_call_seconds_total",
     "From when they came until they were answered.", true},
    {"kv.retries.", "sqlstate", "penstock_postgresql_retries_total",
     "Attempts that are tried again, by what the server said."},
};

void add_labelled(Exposition& out, const CounterValues& values) {
  for (const LabelledCounters& family : kLabelled) {
    const std::string begins = family.begins;
    bool is_begun = false;
    for (auto at = values.lower_bound(begins); at != values.end() && at->first.starts_with(begins);
         ++at) {
      if (!std::exchange(is_begun, true)) out.counter(family.name, family.help);
      const Labels labels = {{family.label, at->first.substr(begins.size())}};
      if (family.is_time) {
        out.sample(labels, static_cast<double>(at->second) / kNanosecondsOfSecond);
      } else {
        out.sample(labels, at->second);
      }
    }
  }
}

void add_waits(Exposition& out, const CounterValues& values) {
  const auto add = [&](const char* counter, const char* name, const char* help) {
    const auto found = values.find(counter);
    if (found == values.end()) return;
    out.counter(name, help);
    out.sample(static_cast<double>(found->second) / kNanosecondsOfSecond);
  };
  add("holds.waited.nanoseconds", "penstock_holds_waited_seconds_total",
      "How long operations here waited for holds, together.");
  add("kv.connections.waited.nanoseconds", "penstock_postgresql_waited_seconds_total",
      "How long operations waited for a connection, together.");
}

void add_counters(Exposition& out) {
  CounterValues values;
  for (const metrics::Sample& sample : metrics::snapshot()) values[sample.name] = sample.value;
  add_labelled(out, values);
  add_waits(out, values);
  for (const CounterName& one : kCounters) {
    const auto found = values.find(one.counter);
    if (found == values.end()) continue;
    if (one.is_gauge) {
      out.gauge(one.name, one.help);
    } else {
      out.counter(one.name, one.help);
    }
    out.sample(found->second);
  }
}

void add_errors(Exposition& out, const char* name, const char* help,
                const std::map<int, uint64_t>& errors) {
  out.counter(name, help);
  for (const auto& [error, count] : errors) out.sample({{"error", error_name(error)}}, count);
}

void add_process(Exposition& out) {
  out.gauge("penstock_build_info", "The release that runs; always 1.");
  out.sample({{"version", penstock_version()}}, uint64_t{1});
  add_counters(out);
  const fuse::RequestsServed mounts = fuse::requests_served();
  out.histogram("penstock_mount_request_duration_seconds",
                "Requests of mounts, from the worker that has read one to its reply.");
  for (const auto& [name, latency] : mounts.operations) out.sample({{"operation", name}}, latency);
  add_errors(out, "penstock_mount_request_errors_total",
             "Requests of mounts answered with an error; ENOENT is a name that is not there.",
             mounts.errors);
}

void add_rings(Exposition& out, const agent::AgentStatus& status) {
  const auto labels = [](const telemetry::OperationSample& one) {
    const auto route = static_cast<engine::Route>(one.route);
    return Labels{{"operation", telemetry::kind_name(one.kind)},
                  {"route", std::string(engine::route_name(route))}};
  };
  out.histogram("penstock_ring_operation_duration_seconds",
                "Operations of rings, from the turn of the shard's loop that took one to the turn "
                "that answered it.");
  for (const auto& one : status.ring_operations) out.sample(labels(one), one.latency);
  out.counter("penstock_ring_operation_bytes_total", "Bytes moved by operations of rings.");
  for (const auto& one : status.ring_operations) out.sample(labels(one), one.bytes);
  add_errors(out, "penstock_ring_operation_errors_total", "Operations of rings that failed.",
             status.ring_errors);
  out.counter("penstock_operations_total",
              "Operations by the way that their bytes took, hits in the node cache included.");
  for (const auto& [route, count] : status.operations_by_route) {
    out.sample({{"route", route}}, count);
  }
}

// One family with a sample for each shard.
template <class Value>
void add_shards(Exposition& out, const agent::AgentStatus& status, const char* name,
                const char* help, bool is_counter, const Value& value) {
  if (is_counter) {
    out.counter(name, help);
  } else {
    out.gauge(name, help);
  }
  for (const agent::ShardStatus& shard : status.shards) {
    out.sample({{"shard", text(shard.index)}}, uint64_t{value(shard)});
  }
}

void add_store(Exposition& out, const agent::AgentStatus& status) {
  using Shard = agent::ShardStatus;
  out.gauge("penstock_shard_info", "How a shard reaches its disk; always 1.");
  for (const Shard& shard : status.shards) {
    out.sample({{"shard", text(shard.index)},
                {"disk", std::string(shard.disk.backend)},
                {"direct", shard.disk.direct ? "true" : "false"}},
               uint64_t{1});
  }
  add_shards(out, status, "penstock_shard_capacity_bytes", "Space of a shard's target.", false,
             [](const Shard& s) { return s.target_capacity_bytes; });
  add_shards(out, status, "penstock_shard_used_bytes", "Of that, in use.", false,
             [](const Shard& s) { return s.target_used_bytes; });
  add_shards(out, status, "penstock_shard_scattered_bytes", "Whose blocks lie apart on the disk.",
             false, [](const Shard& s) { return s.scattered_bytes; });
  add_shards(out, status, "penstock_shard_moved_bytes_total", "Brought together since the start.",
             true, [](const Shard& s) { return s.moved_bytes; });
  add_shards(out, status, "penstock_shard_full", "1: no room for the metadata of writes.", false,
             [](const Shard& s) -> uint64_t { return s.full ? 1 : 0; });
  add_shards(out, status, "penstock_shard_failed", "1: read-only since an error.", false,
             [](const Shard& s) -> uint64_t { return s.failed ? 1 : 0; });
  add_shards(out, status, "penstock_ring_operations_in_flight",
             "Operations taken from rings and not answered yet.", false,
             [](const Shard& s) { return s.ring_operations_in_flight; });
  out.gauge("penstock_capacity_bytes", "Space of the file system.");
  out.sample(status.file_system.total_bytes);
  out.gauge("penstock_free_bytes", "Of that, free.");
  out.sample(status.file_system.free_bytes);
  out.gauge("penstock_inodes", "Files, directories and others.");
  out.sample(status.file_system.inodes);
  out.gauge("penstock_open_files", "Files that somebody has open.");
  out.sample(status.file_system.open_files);
  out.gauge("penstock_removed_files_waiting", "Removed files whose space is not free yet.");
  out.sample(status.file_system.removed_waiting);
}

void add_cache(Exposition& out, const agent::AgentStatus& status) {
  // Classes that differ in which groups they have only are told together.
  using Key = std::tuple<uint32_t, uint32_t, uint32_t>;
  std::map<Key, agent::CacheStatus> classes;
  for (const agent::CacheStatus& one : status.cache) {
    agent::CacheStatus& sum = classes[{one.uid, one.gid, one.groups}];
    sum.sessions += one.sessions;
    sum.bytes += one.bytes;
    sum.used_bytes += one.used_bytes;
    sum.hits += one.hits;
    sum.fills += one.fills;
    sum.evictions += one.evictions;
    sum.dropped += one.dropped;
  }
  const auto family = [&](const char* name, const char* help, uint64_t agent::CacheStatus::*of,
                          bool is_counter) {
    if (is_counter) {
      out.counter(name, help);
    } else {
      out.gauge(name, help);
    }
    for (const auto& [key, one] : classes) {
      const auto& [uid, gid, groups] = key;
      out.sample({{"uid", text(uid)}, {"gid", text(gid)}, {"groups", text(groups)}}, one.*of);
    }
  };
  using Cache = agent::CacheStatus;
  out.gauge("penstock_cache_limit_bytes", "Memory that the node cache may take, all classes.");
  out.sample(status.cache_bytes);
  family("penstock_cache_bytes", "Memory of a class of users.", &Cache::bytes, false);
  family("penstock_cache_used_bytes", "Of that, in use.", &Cache::used_bytes, false);
  family("penstock_cache_hits_total", "Reads that applications found there.", &Cache::hits, true);
  family("penstock_cache_fills_total", "Blocks brought in.", &Cache::fills, true);
  family("penstock_cache_evictions_total", "Blocks given up for others.", &Cache::evictions, true);
  family("penstock_cache_dropped_total", "Blocks dropped as files changed.", &Cache::dropped, true);
}

void add_sessions(Exposition& out, const agent::AgentStatus& status) {
  const auto labels = [](const agent::SessionStatus& one) {
    return Labels{
        {"session", text(one.id)}, {"uid", text(one.uid)}, {"pid", std::to_string(one.pid)}};
  };
  out.gauge("penstock_sessions", "Applications that are connected.");
  out.sample(uint64_t{status.sessions.size()});
  out.counter("penstock_session_operations_total", "Operations of a session's rings.");
  for (const auto& one : status.sessions) out.sample(labels(one), one.operations);
  out.gauge("penstock_session_region_bytes", "Memory that a session has registered.");
  for (const auto& one : status.sessions) out.sample(labels(one), one.region_bytes);
}

void add_accounts(Exposition& out, const agent::AgentStatus& status) {
  using Resource = agent::ResourceStatus;
  const auto family = [&](const char* name, const char* help, uint64_t Resource::*of,
                          bool is_counter) {
    if (is_counter) {
      out.counter(name, help);
    } else {
      out.gauge(name, help);
    }
    for (const Resource& one : status.resources) {
      out.sample({{"resource", std::string(one.what)}}, one.*of);
    }
  };
  family("penstock_resource_held", "What all sessions hold.", &Resource::held, false);
  family("penstock_resource_limit", "What there is for all sessions.", &Resource::all, false);
  family("penstock_resource_refused_total", "Requests refused as there was no more.",
         &Resource::refused, true);
  out.gauge("penstock_user_resource_held", "What a user's sessions hold.");
  for (const agent::UserStatus& user : status.users) {
    for (const auto& share : user.shares) {
      out.sample({{"uid", text(user.uid)}, {"resource", std::string(share.what)}}, share.held);
    }
  }
  out.gauge("penstock_user_resource_limit", "The most that they may hold.");
  for (const agent::UserStatus& user : status.users) {
    for (const auto& share : user.shares) {
      out.sample({{"uid", text(user.uid)}, {"resource", std::string(share.what)}}, share.most);
    }
  }
}

void add_cluster(Exposition& out, const cluster::ParticipantStatus& status) {
  out.gauge("penstock_cluster_node", "This node's number.");
  out.sample(uint64_t{status.node.value});
  out.gauge("penstock_cluster_map_version", "Of the map that all of its targets act by.");
  out.sample(status.applied.value);
  out.gauge("penstock_cluster_has_lease", "1: its targets may serve chains.");
  out.sample(uint64_t{status.lease_left ? 1u : 0u});
  out.gauge("penstock_controller_leads", "1: the controller is here, and leads.");
  out.sample(uint64_t{status.leads ? 1u : 0u});
  out.gauge("penstock_chain_updates_pending", "Updates of chains that are not committed yet.");
  for (const auto& one : status.targets) {
    out.sample({{"target", text(one.id.value)}}, uint64_t{one.pending});
  }
  out.gauge("penstock_chain_calls_waiting", "Calls that wait for their turn at a chunk.");
  for (const auto& one : status.targets) {
    out.sample({{"target", text(one.id.value)}}, uint64_t{one.waiting});
  }
  // Shards have connections of their own.
  std::map<std::pair<uint32_t, uint32_t>, bool> connected;
  for (const tcp::PeerFacts& peer : status.peers) {
    bool& all =
        connected.try_emplace({peer.address.node.value, peer.address.service}, true).first->second;
    all = all && peer.connected;
  }
  out.gauge("penstock_peer_connected",
            "Services of other nodes that were called: 1 while all shards' connections stand.");
  for (const auto& [to, is_up] : connected) {
    out.sample({{"node", text(to.first)}, {"service", text(to.second)}}, uint64_t{is_up ? 1u : 0u});
  }
}

}  // namespace

std::string metrics_without_node() {
  Exposition out;
  out.gauge("penstock_healthy", "1 when /healthz says ok, else 0.");
  out.sample(uint64_t{0});
  add_process(out);
  return out.text();
}

std::string metrics_of(const agent::AgentStatus& status) {
  Exposition out;
  out.gauge("penstock_healthy", "1 when /healthz says ok, else 0.");
  out.sample(uint64_t{ailments_of(status).empty() ? 1u : 0u});
  out.gauge("penstock_uptime_seconds", "Since the node's start.");
  out.sample(status.uptime_seconds);
  add_process(out);
  add_rings(out, status);
  add_store(out, status);
  add_cache(out, status);
  add_sessions(out, status);
  add_accounts(out, status);
  if (status.cluster) add_cluster(out, *status.cluster);
  return out.text();
}

std::string ailments_of(const agent::AgentStatus& status) {
  std::string out;
  for (const agent::ShardStatus& shard : status.shards) {
    if (shard.failed) {
      out += fmt::format(
          "shard {}: read-only since an error (see {}/agent.log, then restart the node)\n",
          shard.index, status.directory);
    }
    if (shard.full) {
      out += fmt::format(
          "shard {}: the disk is full: writes end with ENOSPC until there is room (remove other "
          "files)\n",
          shard.index);
    }
  }
  if (status.databases_stopped > 0) {
    out += fmt::format(
        "databases that take no changes, mostly for want of space: {} (see {}/agent.log)\n",
        status.databases_stopped, status.directory);
  }
  if (status.cluster && !status.cluster->lease_left) {
    out +=
        "no lease of the cluster's controller: the targets do not serve chains (is its node up, "
        "and reached?)\n";
  }
  return out;
}

Outcome<std::unique_ptr<NodeMetrics>> NodeMetrics::start(const std::string& address) {
  TRY_ASSIGN(const http::Address where, http::parse_address(address));
  std::unique_ptr<NodeMetrics> self(new NodeMetrics);
  NodeMetrics* const metrics = self.get();
  TRY_ASSIGN(self->server_, http::Server::start(where, [metrics](const std::string& path) {
               return metrics->answer(path);
             }));
  return self;
}

void NodeMetrics::tell_of(Status status) {
  const std::lock_guard lock(mutex_);
  was_up_ = was_up_ || status;
  status_ = std::move(status);
}

http::Response NodeMetrics::answer(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (path == "/healthz") return health();
  if (path == "/metrics") {
    return {.content_type = Exposition::kContentType,
            .body = status_ ? metrics_of(status_()) : metrics_without_node()};
  }
  return {.status = 404, .body = "there are /metrics and /healthz\n"};
}

http::Response NodeMetrics::health() {
  if (!status_) return {.status = 503, .body = was_up_ ? "stopping\n" : "starting\n"};
  const std::string ailments = ailments_of(status_());
  if (ailments.empty()) return {.body = "ok\n"};
  return {.status = 503, .body = ailments};
}

}  // namespace penstock::apps
