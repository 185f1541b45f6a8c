#include "node_service.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include "penstock/console.h"
#include "penstock/telemetry.h"

namespace penstock::apps {
namespace {

constexpr uint64_t kSlotBytes = 64 * kKiB;
constexpr double kTraceSecondsMax = 60;
constexpr auto kTraceStep = std::chrono::milliseconds(100);

Json json_of(const client::Allowance& allowance) {
  return {{"weight", allowance.weight},
          {"bytes_per_second", allowance.bytes_per_second},
          {"operations_per_second", allowance.operations_per_second},
          {"operations_in_flight", allowance.operations_in_flight}};
}

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
                        {"limits", json_of(session.allowance)}});
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

Json json_of(const telemetry::OperationTrace& one, size_t shard) {
  return {{"operation", telemetry::kind_name(one.kind)},
          {"route", engine::route_name(static_cast<engine::Route>(one.route))},
          {"shard", shard},
          {"uid", one.uid},
          {"pieces", one.pieces},
          {"inode", one.inode},
          {"offset", one.offset},
          {"length", one.length},
          {"result", one.result},
          {"taken", one.taken.count()},
          {"sent", one.sent.count()},
          {"landed", one.landed.count()},
          {"completed", one.completed.count()}};
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
    Json one = json_of(allowance);
    one["uid"] = uid;
    limits.push_back(std::move(one));
  }
  Json routes = Json::object();
  for (const auto& [route, count] : status.operations_by_route) routes[route] = count;
  return {{"directory", status.directory},
          {"uptime_seconds", status.uptime_seconds},
          {"total_bytes", status.file_system.total_bytes},
          {"free_bytes", status.file_system.free_bytes},
          {"inodes", status.file_system.inodes},
          {"open_files", status.file_system.open_files},
          {"removed_waiting", status.file_system.removed_waiting},
          {"shards", json_of(status.shards)},
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
}

agent::AgentConfig config_of(const UpOptions& options) {
  agent::AgentConfig config;
  config.directory = options.directory;
  config.shards = options.shards;
  if (options.chunk_bytes != 0) config.chunk_bytes = options.chunk_bytes;
  config.capacity_bytes = options.capacity_bytes;
  config.force_threads = options.force_threads;
  config.defragment = options.defragment;
  config.spin = std::chrono::microseconds(options.spin_microseconds);
  config.cache_bytes = options.cache_bytes.value_or(agent::default_cache_bytes());
  return config;
}

}  // namespace

AgentFacts facts_of(const Json& status) {
  AgentFacts facts;
  const auto number = [&](const char* key) { return status.value(key, 0.0); };
  facts.lines.push_back("space     " + console::human_bytes(number("free_bytes")) + " free of " +
                        console::human_bytes(number("total_bytes")));
  for (const Json& shard : status.value("shards", Json::array())) {
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
  if (number("databases_stopped") > 0) {
    facts.lines.push_back("metadata  databases that take no changes, mostly for want of space: " +
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
  facts.lines.push_back("memory    " + console::human_bytes(number("memory_bytes")) + " by " +
                        status.value("memory_limit", "") + ", " +
                        std::to_string(status.value("mappings", uint64_t{0})) + " mappings by " +
                        status.value("mappings_limit", ""));
  if (status.contains("metrics")) {
    const std::string address = status.value("metrics", "");
    facts.lines.push_back("metrics   " +
                          (address.starts_with('/') ? address : "http://" + address + "/metrics"));
  }
  for (const Json& mount : status.value("mounts", Json::array())) {
    facts.lines.push_back("mount     " + mount.get<std::string>());
  }
  return facts;
}

Outcome<std::unique_ptr<NodeService>> NodeService::start(const UpOptions& options,
                                                         Guardian& guardian) {
  // Before the agent: a port that is taken is told before anything is made, and a long start is
  // seen.
  std::unique_ptr<NodeMetrics> metrics;
  if (!options.metrics.empty()) {
    TRY_ASSIGN(metrics, NodeMetrics::start(options.metrics));
  }
  auto agent = agent::Agent::start(config_of(options));
  if (!agent) return agent.error();
  std::unique_ptr<NodeService> node(new NodeService(UniqueFd(::eventfd(0, EFD_CLOEXEC)), guardian));
  node->agent_ = std::move(*agent);
  node->metrics_ = std::move(metrics);
  // From here on the store exists, so the log has a home.
  const std::string log_path = options.directory + "/agent.log";
  if (options.background && !log::set_file(log_path)) {
    return Failure{Code::io_error, log_path + ": cannot be written"};
  }
  // A log of an earlier release can be read by all users, and names files.
  ::chmod(log_path.c_str(), 0600);
  if (!options.mount_point.empty()) {
    auto mounted = node->mount(options.mount_point, options.mount_options);
    if (!mounted) return mounted.error();
  }
  NodeService* self = node.get();
  auto admin = AdminServer::start(options.directory,
                                  [self](const Json& request, const AdminServer::Say& say) {
                                    return self->handle(request, say);
                                  });
  if (!admin) return admin.error();
  node->admin_ = std::move(*admin);
  if (node->metrics_ != nullptr) node->metrics_->tell_of(node->agent_.get());
  log::info("node up: {}", options.directory);
  return node;
}

NodeService::~NodeService() {
  stop();
}

void NodeService::wait(int signal_fd) {
  while (true) {
    pollfd wait[2] = {{signal_fd, POLLIN, 0}, {ended_.get(), POLLIN, 0}};
    if (::poll(wait, 2, -1) < 0 && errno != EINTR) return;
    if (wait[0].revents != 0) {
      signalfd_siginfo info;
      (void)!::read(signal_fd, &info, sizeof info);
      return;
    }
    if (wait[1].revents != 0) return;
  }
}

void NodeService::stop() {
  // Until the end it answers that the node is stopping.
  if (metrics_ != nullptr) metrics_->tell_of(nullptr);
  admin_.reset();
  {
    std::lock_guard lock(mounts_mutex_);
    for (auto& [path, mount] : mounts_) end(*mount);
    mounts_.clear();
  }
  if (agent_ != nullptr) agent_->stop();
  agent_.reset();
}

Json NodeService::handle(const Json& request, const AdminServer::Say& say) {
  const auto text = [&](const char* key) {
    const auto found = request.find(key);
    return found != request.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  const std::string command = text("command");
  if (command == "status") return status();
  if (command == "scrub") return scrub(say);
  if (command == "trace") return trace(request, say);
  if (command == "limit") return limit(request);
  if (command == "down") {
    const uint64_t one = 1;
    (void)!::write(ended_.get(), &one, sizeof one);
    return {{"pid", ::getpid()}};
  }
  if (command == "mount") {
    auto result = mount(text("path"), text("options"));
    if (!result) return {{"error", result.error().message}};
    return {{"path", text("path")}, {"options", *result}};
  }
  if (command == "unmount") {
    auto result = unmount(text("path"));
    if (!result) return {{"error", result.error().message}};
    return {{"path", *result}};
  }
  return {{"error", "this node does not know the request '" + command + "'"}};
}

Json NodeService::status() {
  Json document = json_of(agent_->status());
  document["pid"] = ::getpid();
  Json mounts = Json::array();
  std::lock_guard lock(mounts_mutex_);
  for (const auto& [path, mount] : mounts_) {
    if (mount->alive()) mounts.push_back(path);
  }
  document["mounts"] = mounts;
  if (metrics_ != nullptr) document["metrics"] = metrics_->address();
  return document;
}

Json NodeService::limit(const Json& request) {
  const auto number = [&](const char* key) -> std::optional<uint64_t> {
    const auto found = request.find(key);
    if (found == request.end() || !found->is_number_unsigned()) return std::nullopt;
    return found->get<uint64_t>();
  };
  const auto small = [&](const char* key, uint32_t* to) {
    if (const auto value = number(key)) {
      *to = static_cast<uint32_t>(std::min<uint64_t>(*value, UINT32_MAX));
    }
  };
  const auto change = [&](client::Allowance& allowance) {
    if (request.value("clear", false)) allowance = {};
    small("weight", &allowance.weight);
    small("operations_in_flight", &allowance.operations_in_flight);
    allowance.bytes_per_second = number("bytes_per_second").value_or(allowance.bytes_per_second);
    allowance.operations_per_second =
        number("operations_per_second").value_or(allowance.operations_per_second);
  };
  const auto user = number("user");
  const auto session = number("session");
  if (user.has_value() == session.has_value() || user.value_or(0) > UINT32_MAX) {
    return {{"error", "limit: name a user or a session"}};
  }
  const auto allowed = user ? agent_->allow_user(static_cast<uint32_t>(*user), change)
                            : agent_->allow_session(*session, change);
  if (!allowed) return {{"error", allowed.error().message}};
  log::info("limits of {} {}: {}", user ? "user" : "session", user ? *user : *session,
            json_of(*allowed).dump());
  return json_of(*allowed);
}

Json NodeService::scrub(const AdminServer::Say& say) {
  const agent::ScrubReport report = agent_->scrub([&](uint64_t verified_bytes) {
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
  return {{"verified_bytes", report.verified_bytes}, {"complete", report.complete}, {"bad", bad}};
}

Json NodeService::trace(const Json& request, const AdminServer::Say& say) {
  using Clock = std::chrono::steady_clock;
  const auto asked = request.find("seconds");
  const double seconds = asked != request.end() && asked->is_number() ? asked->get<double>() : 1;
  const Clock::time_point begun = Clock::now();
  const auto end =
      begun + std::chrono::duration_cast<Clock::duration>(
                  std::chrono::duration<double>(std::clamp(seconds, 0.0, kTraceSecondsMax)));
  double looked = 0;
  const auto traced = agent_->trace([&] {
    // In steps, since the asker may go and the node may end.
    while (Clock::now() < end && say(Json::object())) {
      std::this_thread::sleep_for(std::min<Clock::duration>(end - Clock::now(), kTraceStep));
    }
    looked = std::chrono::duration<double>(Clock::now() - begun).count();
  });
  if (!traced) return {{"error", "trace: " + traced.error().message}};
  uint64_t seen = 0;
  for (size_t shard = 0; shard < traced->size(); ++shard) {
    seen += (*traced)[shard].seen;
    Json operations = Json::array();
    for (const telemetry::OperationTrace& one : (*traced)[shard].operations) {
      operations.push_back(json_of(one, shard));
    }
    if (!say({{"operations", std::move(operations)}})) break;
  }
  return {{"seen", seen}, {"seconds", looked}};
}

// The mount that was asked for by this path, or is there by its canonical one.
fuse::Mount* NodeService::mount_at(const std::string& path) {
  for (auto& [asked, mount] : mounts_) {
    if ((asked == path || mount->path() == path) && mount->alive()) return mount.get();
  }
  return nullptr;
}

Outcome<std::string> NodeService::mount(const std::string& path, const std::string& options) {
  std::lock_guard lock(mounts_mutex_);
  fuse::Mount* const there = mount_at(path);
  const fuse::MountOptions before = there != nullptr ? there->options() : fuse::MountOptions{};
  TRY_ASSIGN(const fuse::ParsedMountOptions wanted, fuse::parse_mount_options(options, before));
  if (wanted.remount) {
    if (there == nullptr) {
      return Failure{Code::not_found, path + ": not a mount of this node (see 'penstock status')"};
    }
    TRY(there->change(wanted.options));
    return fuse::to_text(wanted.options);
  }
  // One that was unmounted behind our back makes room for a new one.
  const auto old = mounts_.find(path);
  if (old != mounts_.end() && !old->second->alive()) {
    end(*old->second);
    mounts_.erase(old);
  }
  fuse::MountConfig config;
  config.mount_point = path;
  config.source = agent_->status().directory;
  config.options = wanted.options;
  auto mount = fuse::Mount::start(agent_->files(), agent_.get(), config);
  if (!mount) return mount.error();
  guardian_.watch((*mount)->device());
  mounts_[path] = std::move(*mount);
  return fuse::to_text(wanted.options);
}

Outcome<std::string> NodeService::unmount(const std::string& path) {
  std::lock_guard lock(mounts_mutex_);
  const auto found = mounts_.find(path);
  if (found == mounts_.end()) {
    return Failure{Code::not_found, path + ": not a mount of this node (see 'penstock status')"};
  }
  end(*found->second);
  mounts_.erase(found);
  return path;
}

void NodeService::end(fuse::Mount& mount) {
  const dev_t device = mount.device();
  mount.stop();
  guardian_.forget(device);
}

}  // namespace penstock::apps
