#include "status_document.h"

#include "cluster_admin.h"

#include <string>

#include "penstock/console.h"
#include "penstock/fuse.h"
#include "penstock/telemetry.h"

namespace penstock::apps {

Json allowance_json(const client::Allowance& allowance) {
  return {{"weight", allowance.weight},
          {"bytes_per_second", allowance.bytes_per_second},
          {"operations_per_second", allowance.operations_per_second},
          {"operations_in_flight", allowance.operations_in_flight}};
}

namespace {

constexpr uint64_t kSlotBytes = 64 * kKiB;

Json json_of(const std::vector<agent::SessionStatus>& all) {
  Json sessions = Json::array();
  for (const agent::SessionStatus& session : all) {
    sessions.push_back({{"session", session.id},
                        {"pid", session.pid},
                        {"uid", session.uid},
                        {"regions", session.regions},
                        {"region_bytes", session.region_bytes},
                        {"rings", session.rings},
                        {"open_files", session.open_files},
                        {"operations", session.operations},
                        {"limits", allowance_json(session.allowance)}});
  }
  return sessions;
}

Json json_of(const std::vector<agent::ResourceStatus>& all) {
  Json resources = Json::object();
  for (const agent::ResourceStatus& one : all) {
    resources[std::string(one.what)] = {{"held", one.held},
                                        {"all", one.all},
                                        {"users", one.users},
                                        {"user", one.user},
                                        {"refused", one.refused}};
  }
  return resources;
}

Json json_of(const std::vector<agent::ShardStatus>& all) {
  Json shards = Json::array();
  for (const agent::ShardStatus& shard : all) {
    shards.push_back({{"shard", shard.index},
                      {"disk", shard.disk.backend},
                      {"disk_reason", shard.disk.reason},
                      {"direct", shard.disk.direct},
                      {"direct_reason", shard.disk.direct_reason},
                      {"fixed_buffers", shard.disk.fixed_buffers},
                      {"capacity_bytes", shard.target_capacity_bytes},
                      {"used_bytes", shard.target_used_bytes},
                      {"corrupt_blocks_seen", shard.corrupt_blocks_seen},
                      {"scattered_bytes", shard.scattered_bytes},
                      {"moved_bytes", shard.moved_bytes},
                      {"operations_in_flight", shard.ring_operations_in_flight},
                      {"full", shard.full},
                      {"failed", shard.failed}});
  }
  return shards;
}

Json json_of(const std::vector<telemetry::OperationSample>& all) {
  Json operations = Json::array();
  for (const telemetry::OperationSample& one : all) {
    operations.push_back({{"operation", telemetry::kind_name(one.kind)},
                          {"route", engine::route_name(static_cast<engine::Route>(one.route))},
                          {"bytes", one.bytes},
                          {"counts", one.latency.counts}});
  }
  return operations;
}

Json mount_requests() {
  Json requests = Json::array();
  for (const auto& [name, latency] : fuse::requests_served().operations) {
    requests.push_back({{"operation", name}, {"counts", latency.counts}});
  }
  return requests;
}

Json json_of(const std::vector<agent::CacheStatus>& all) {
  Json cache = Json::array();
  for (const agent::CacheStatus& one : all) {
    cache.push_back({{"uid", one.uid},
                     {"gid", one.gid},
                     {"groups", one.groups},
                     {"sessions", one.sessions},
                     {"bytes", one.bytes},
                     {"used_bytes", one.used_bytes},
                     {"slots", one.used_bytes / kSlotBytes},
                     {"hits", one.hits},
                     {"fills", one.fills},
                     {"evictions", one.evictions},
                     {"dropped", one.dropped}});
  }
  return cache;
}

Json json_of(const agent::NamesStatus& names) {
  Json document = Json::object();
  if (!names.at.empty()) document["at"] = names.at;
  if (!names.standbys.empty()) document["standbys"] = names.standbys;
  if (!names.moves) return document;
  document["moving_to"] = names.to;
  document["records_copied"] = names.copied;
  return document;
}

}  // namespace

Json json_of(const agent::NamesMoved& moved) {
  return {{"from", moved.from},
          {"to", moved.to},
          {"records", moved.records},
          {"bytes", moved.bytes},
          {"rounds", moved.rounds},
          {"pause_seconds", std::chrono::duration<double>(moved.pause).count()}};
}

Json json_of(const agent::AgentStatus& status) {
  Json users = Json::array();
  for (const agent::UserStatus& user : status.users) {
    Json shares = {{"uid", user.uid}};
    for (const auto& share : user.shares) {
      shares[std::string(share.what)] = {{"held", share.held}, {"most", share.most}};
    }
    users.push_back(std::move(shares));
  }
  Json limits = Json::array();
  for (const auto& [uid, allowance] : status.allowances) {
    Json one = allowance_json(allowance);
    one["uid"] = uid;
    limits.push_back(std::move(one));
  }
  Json routes = Json::object();
  for (const auto& [route, count] : status.operations_by_route) routes[route] = count;
  Json document = {{"directory", status.directory},
                   {"uptime_seconds", status.uptime_seconds},
                   {"total_bytes", status.file_system.total_bytes},
                   {"free_bytes", status.file_system.free_bytes},
                   {"inodes", status.file_system.inodes},
                   {"open_files", status.file_system.open_files},
                   {"removed_waiting", status.file_system.removed_waiting},
                   {"shards", json_of(status.shards)},
                   {"names", json_of(status.names)},
                   {"sessions", json_of(status.sessions)},
                   {"resources", json_of(status.resources)},
                   {"users", users},
                   {"memory_bytes", status.memory_bytes},
                   {"memory_limit", status.memory_limit},
                   {"mappings", status.mappings},
                   {"mappings_limit", status.mappings_limit},
                   {"limits", limits},
                   {"operations_waited", status.operations_waited},
                   {"operations_slowed", status.operations_slowed},
                   {"ring_operations", json_of(status.ring_operations)},
                   {"mount_requests", mount_requests()},
                   {"memory_is_fenced", status.memory_is_fenced},
                   {"operations_by_route", routes},
                   {"databases_stopped", status.databases_stopped},
                   {"updates_without_space", status.updates_without_space},
                   {"cache_bytes", status.cache_bytes},
                   {"cache", json_of(status.cache)}};
  if (status.cluster) document["cluster"] = json_of(*status.cluster);
  for (const agent::DiskStatus& disk : status.disks) {
    document["disks"].push_back(
        {{"path", disk.path}, {"trouble", disk.trouble}, {"is_taken_off", disk.is_taken_off}});
  }
  return document;
}

namespace {

void add_shard(const Json& shard, AgentFacts& facts) {
  std::string line = "shard " + std::to_string(shard.value("shard", 0)) + "   " +
                     shard.value("disk", "") +
                     (shard.value("direct", false) ? ", O_DIRECT" : ", page cache") +
                     (shard.value("fixed_buffers", false) ? ", registered buffers" : "");
  for (const char* reason : {"disk_reason", "direct_reason"}) {
    const std::string text = shard.value(reason, "");
    if (!text.empty()) line += " (" + text + ")";
  }
  facts.lines.push_back(line);
  if (shard.value("scattered_bytes", 0.0) > 0) {
    facts.lines.push_back("          scattered over the disk: " +
                          console::human_bytes(shard.value("scattered_bytes", 0.0)) +
                          "; brought together since the start: " +
                          console::human_bytes(shard.value("moved_bytes", 0.0)));
  }
  if (shard.value("full", false)) {
    facts.lines.push_back(
        "          the disk is full: writes end with ENOSPC until there is room (remove other "
        "files)");
  }
  if (shard.value("failed", false)) {
    facts.lines.push_back("          read-only since an error (see agent.log, then restart)");
  }
}

void add_target(const Json& target, AgentFacts& facts) {
  const std::string trouble = target.value("trouble", "");
  if (!trouble.empty()) return facts.lines.push_back("          does not serve: " + trouble);
  facts.lines.push_back("target    " + std::to_string(target.value("target", 0)) + " in " +
                        target.value("directory", "") + ": " +
                        std::to_string(target.value("chains", 0)) + " chains, " +
                        console::human_bytes(target.value("used_bytes", 0.0)) + " of " +
                        console::human_bytes(target.value("capacity_bytes", 0.0)));
}

std::string peers_text(const Json& part) {
  size_t up = 0;
  const Json peers = part.value("peers", Json::array());
  for (const Json& peer : peers) up += peer.value("connected", false) ? 1 : 0;
  return std::to_string(up) + " of " + std::to_string(peers.size()) + " connections stand";
}

// The first reason stands for all: mostly they have the same one.
std::string rdma_text(const Json& part) {
  const std::string without = part.value("without_rdma", "");
  if (!without.empty()) return "not used: " + without;
  size_t by_rdma = 0;
  std::string reason;
  const Json rails = part.value("rails", Json::array());
  for (const Json& rail : rails) {
    if (!rail.value("device", "").empty()) {
      ++by_rdma;
    } else if (reason.empty()) {
      reason = "; node " + std::to_string(rail.value("node", 0)) + ": " + rail.value("reason", "");
    }
  }
  return std::to_string(by_rdma) + " of " + std::to_string(rails.size()) +
         " ways to targets go by it" + reason;
}

void add_cluster(const Json& status, AgentFacts& facts) {
  const Json& part = status["cluster"];
  facts.has_names = status.contains("mounts");
  facts.invitation = part.value("invitation", "");
  facts.insecure = part.value("insecure", false);
  facts.has_controller = part.value("controller", false);
  for (const Json& disk : status.value("disks", Json::array())) {
    const std::string trouble = disk.value("trouble", "");
    const bool is_taken_off = disk.value("is_taken_off", false);
    facts.lines.push_back("disk      " + (is_taken_off      ? disk.value("path", "") + ": taken off"
                                          : trouble.empty() ? disk.value("path", "")
                                                            : "MISSING: " + trouble));
  }
  for (const Json& target : part.value("targets", Json::array())) add_target(target, facts);
  std::string roles;
  for (const Json& role : part.value("roles", Json::array())) {
    roles += (roles.empty() ? "" : ", ") + role.get<std::string>();
  }
  facts.wants_copies = facts.has_names && status.value("wants_copies", false);
  facts.lines.push_back("roles     " + roles);
  facts.lines.push_back("cluster   node " + std::to_string(part.value("node", 0)) + " at " +
                        part.value("listen", "") +
                        (part.value("controller", false) ? ", with the controller" : "") +
                        (part.value("lease_seconds_left", 0.0) > 0
                             ? ""
                             : "; without a lease: its targets do not serve chains now"));
  facts.lines.push_back(
      facts.insecure
          ? "INSECURE  nobody proves who they are, and bytes travel in the clear (--insecure)"
          : "identity  certificate good until " +
                engine::text_of({part.value("certificate_ends", int64_t{0}) * 1'000'000'000}));
  facts.lines.push_back("peers     " + peers_text(part));
  facts.lines.push_back("rdma      " + rdma_text(part));
}

}  // namespace

AgentFacts facts_of(const Json& status) {
  AgentFacts facts;
  if (status.contains("standby")) {
    const Json& standby = status["standby"];
    const std::string trouble = standby.value("trouble", "");
    facts.stands_by = true;
    facts.has_names = false;
    facts.lines.push_back("stands by " + (trouble.empty()
                                              ? "the node at " + standby.value("holder", "") +
                                                    " has the names and the controller; this one "
                                                    "goes on when that one is lost"
                                              : "AND COULD NOT TAKE OVER: " + trouble));
    return facts;
  }
  const auto number = [&](const char* key) { return status.value(key, 0.0); };
  facts.lines.push_back("space     " + console::human_bytes(number("free_bytes")) + " free of " +
                        console::human_bytes(number("total_bytes")));
  if (const Json names = status.value("names", Json::object()); !names.empty()) {
    const std::string at = names.value("at", "");
    facts.lines.push_back(
        "names     " + (at == "rocksdb" ? "in the store's directory (RocksDB)" : "at " + at) +
        (names.contains("moving_to")
             ? "; being moved to " + names.value("moving_to", "") + ": " +
                   std::to_string(names.value("records_copied", uint64_t{0})) + " records so far"
             : ""));
    std::string standbys;
    for (const Json& one : names.value("standbys", Json::array())) {
      standbys += (standbys.empty() ? "" : ", ") + one.get<std::string>();
    }
    if (!standbys.empty()) facts.lines.push_back("standby   " + standbys);
  }
  for (const Json& shard : status.value("shards", Json::array())) add_shard(shard, facts);
  if (number("databases_stopped") > 0) {
    const bool is_here = status.value("names", Json::object()).value("at", "rocksdb") == "rocksdb";
    facts.lines.push_back(
        (is_here ? "metadata  databases that take no changes, mostly for want of "
                   "space: "
                 : "metadata  databases that cannot be reached, or take no changes: ") +
        std::to_string(status.value("databases_stopped", 0)) +
        " (see agent.log; the next change tries again)");
  }
  if (number("cache_bytes") > 0) {
    double used = 0;
    for (const Json& one : status.value("cache", Json::array()))
      used += one.value("used_bytes", 0.0);
    facts.lines.push_back("cache     " + console::human_bytes(used) + " of " +
                          console::human_bytes(number("cache_bytes")));
  }
  if (number("memory_bytes") > 0) {
    facts.lines.push_back("memory    " + console::human_bytes(number("memory_bytes")) + " by " +
                          status.value("memory_limit", "") + ", " +
                          std::to_string(status.value("mappings", uint64_t{0})) + " mappings by " +
                          status.value("mappings_limit", ""));
  }
  if (status.contains("metrics")) {
    const std::string address = status.value("metrics", "");
    facts.lines.push_back("metrics   " +
                          (address.starts_with('/') ? address : "http://" + address + "/metrics"));
  }
  if (status.contains("cluster")) add_cluster(status, facts);
  for (const Json& mount : status.value("mounts", Json::array())) {
    facts.lines.push_back("mount     " + mount.get<std::string>());
  }
  return facts;
}

Json move_names_by(const MoveNames& move, const Json& request, const AdminServer::Say& say) {
  // As often as people look, and as a line costs nothing.
  constexpr engine::Duration kBetween = std::chrono::milliseconds(200);
  engine::Time told{};
  const auto moved = move(text_at(request, "to"), [&](const agent::NamesMoving& at) {
    const engine::Time now = engine::system_clock().now();
    if (now - told < kBetween) return true;
    told = now;
    return say({{"records", at.records}, {"bytes", at.bytes}, {"rounds", at.rounds}});
  });
  if (!moved) return {{"error", moved.error().message}};
  return json_of(*moved);
}

Json scrub_by(const std::function<agent::ScrubReport(const agent::ScrubProgress&)>& scrub,
              const AdminServer::Say& say) {
  const agent::ScrubReport report = scrub([&](uint64_t verified_bytes) {
    return say({{"verified_bytes", verified_bytes}});
  });
  Json bad = Json::array();
  for (const auto& damage : report.bad) {
    bad.push_back({{"path", damage.path},
                   {"inode", damage.inode},
                   {"chunk", damage.chunk},
                   {"block", damage.block},
                   {"reason", damage.reason}});
  }
  return {{"verified_bytes", report.verified_bytes},
          {"healed_blocks", report.healed_blocks},
          {"complete", report.complete},
          {"bad", bad}};
}

}  // namespace penstock::apps
