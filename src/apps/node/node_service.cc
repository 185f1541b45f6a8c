#include "node_service.h"

#include "cluster_admin.h"
#include "disk_orders.h"
#include "identity_admin.h"
#include "layout_requests.h"
#include "network_admin.h"
#include "quota_requests.h"
#include "standing_by.h"
#include "status_document.h"
#include "trash_requests.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include "penstock/console.h"
#include "penstock/telemetry.h"

namespace penstock::apps {
namespace {

// Without chains of its own a node makes no files before its root directory was told which to take.
bool wants_copies(client::FileSystem& files) {
  const std::vector<client::ChainTable> tables = files.tables();
  const bool has_own = std::any_of(tables.begin(), tables.end(),
                                   [](const client::ChainTable& table) { return table.id == 0; });
  if (has_own) return false;
  const auto root = files.attributes(meta::kRootInode);
  return root && root->layout.table == 0;
}

// Of a word that the command line has checked.
cluster::Rdma rdma_of(const std::string& word) {
  if (word == "trusted") return cluster::Rdma::trusted;
  return word == "off" ? cluster::Rdma::off : cluster::Rdma::automatic;
}

constexpr auto kLookForNames = std::chrono::seconds(1);

bool is_away(Status status) {
  return status == Code::peer_gone || status == Code::timed_out;
}

constexpr double kTraceSecondsMax = 60;
constexpr auto kTraceStep = std::chrono::milliseconds(100);

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

}  // namespace

agent::AgentConfig config_of(const UpOptions& options) {
  agent::AgentConfig config;
  config.directory = options.directory;
  config.names = options.kv;
  config.shards = options.shards;
  if (options.chunk_bytes != 0) config.chunk_bytes = options.chunk_bytes;
  config.capacity_bytes = options.capacity_bytes;
  config.force_threads = options.force_threads;
  config.defragment = options.defragment;
  if (const auto spin = options.spin_microseconds) config.spin = std::chrono::microseconds(*spin);
  config.cache_bytes = options.cache_bytes.value_or(agent::default_cache_bytes());
  config.disks = options.disks;
  const auto kept = cluster::Participant::roles_of(options.directory);
  const bool is_of_cluster = kept && *kept != 0;
  const bool is_told = !options.listen.empty() || !options.rack.empty() || options.invitation ||
                       !options.roles.empty() || (is_of_cluster && options.insecure) ||
                       (is_of_cluster && !options.rdma.empty()) || options.certificate_seconds != 0;
  if (!is_told) return config;
  config.cluster =
      agent::ClusterOptions{.listen = options.listen,
                            .rack = options.rack,
                            .invitation = options.invitation,
                            .insecure = options.insecure,
                            .rdma = rdma_of(options.rdma),
                            .certificate_time = std::chrono::seconds(options.certificate_seconds)};
  if (const auto roles = cluster::parse_roles(options.roles)) config.cluster->roles = *roles;
  return config;
}

Outcome<void> begin_log(const UpOptions& options) {
  const std::string path = options.directory + "/agent.log";
  if (options.background && !log::set_file(path)) {
    return Failure{Code::io_error, path + ": cannot be written"};
  }
  // A log of an earlier release can be read by all users, and names files.
  ::chmod(path.c_str(), 0600);
  return {};
}

void log_what_is_missing(const agent::AgentStatus& status) {
  for (const agent::DiskStatus& disk : status.disks) {
    if (!disk.trouble.empty()) log::error("{} (the node runs without it)", disk.trouble);
  }
  if (!status.cluster) return;
  for (const auto& target : status.cluster->targets) {
    if (!target.trouble.empty()) log::error("{} (the node runs without it)", target.trouble);
  }
}

Outcome<std::unique_ptr<NodeService>> NodeService::start(const UpOptions& options,
                                                         Guardian& guardian,
                                                         const std::function<void()>& stands_by) {
  // Before the agent: a port that is taken is told before anything is made, and a long start is
  // seen.
  std::unique_ptr<NodeMetrics> metrics;
  if (!options.metrics.empty()) {
    TRY_ASSIGN(metrics, NodeMetrics::start(options.metrics));
  }
  std::unique_ptr<NodeService> node(new NodeService(guardian));
  agent::AgentConfig config = config_of(options);
  if (config.cluster) {
    config.cluster->refused = [end = &node->end_](const std::string&) { end->raise(); };
  }
  config.taken_over = [self = node.get()](const std::string& reason) {
    log::error("{}", reason);
    self->was_taken_over_ = true;
    self->end_.raise();
  };
  {
    StandingBy standing_by(options, stands_by);
    config.stands_by = [&](const agent::StandbyStatus& status) { return standing_by.tell(status); };
    TRY_ASSIGN(node->agent_, agent::Agent::start(std::move(config)));
  }
  node->metrics_ = std::move(metrics);
  TRY(begin_log(options));
  log_what_is_missing(node->agent_->status());
  if (!options.mount_point.empty()) TRY(node->begin_mount(options));
  NodeService* self = node.get();
  auto admin = AdminServer::start(options.directory,
                                  [self](const Json& request, const AdminServer::Say& say) {
                                    return self->handle(request, say);
                                  });
  if (!admin) return admin.error();
  node->admin_ = std::move(*admin);
  if (node->metrics_ != nullptr) {
    node->metrics_->tell_of([agent = node->agent_.get()] { return agent->status(); });
  }
  log::info("node up: {}", options.directory);
  return node;
}

Outcome<void> NodeService::begin_mount(const UpOptions& options) {
  const auto root = agent_->files().attributes(meta::kRootInode);
  if (!root && is_away(root.error())) {
    log::warning("{}: mounted when the node with the names answers", options.mount_point);
    later_ = std::thread([this, path = options.mount_point, with = options.mount_options] {
      mount_later(path, with);
    });
    return {};
  }
  auto mounted = mount(options.mount_point, options.mount_options);
  if (!mounted) return mounted.error();
  return {};
}

void NodeService::mount_later(const std::string& path, const std::string& options) {
  std::unique_lock lock(later_mutex_);
  while (!later_wake_.wait_for(lock, kLookForNames, [this] { return is_ending_; })) {
    lock.unlock();
    const auto root = agent_->files().attributes(meta::kRootInode);
    lock.lock();
    if (is_ending_) return;
    if (!root && is_away(root.error())) continue;
    const auto mounted = mount(path, options);
    if (!mounted) return log::error("{}", mounted.error().message);
    return log::info("{}: mounted", path);
  }
}

NodeService::~NodeService() {
  stop();
}

void NodeService::stop() {
  // Until the end it answers that the node is stopping.
  if (metrics_ != nullptr) metrics_->tell_of({});
  admin_.reset();
  if (agent_ != nullptr) agent_->hurry();
  {
    const std::lock_guard lock(later_mutex_);
    is_ending_ = true;
  }
  later_wake_.notify_all();
  if (later_.joinable()) later_.join();
  {
    std::lock_guard lock(mounts_mutex_);
    for (auto& [path, mount] : mounts_) end(*mount);
    mounts_.clear();
  }
  if (agent_ != nullptr) agent_->stop();
  agent_.reset();
}

Json NodeService::handle(const Json& request, const AdminServer::Say& say) {
  const auto text = [&](const char* key) { return text_at(request, key); };
  const std::string command = text("command");
  if (command == "status") return status();
  if (command == "scrub") {
    return scrub_by([this](const auto& progress) { return agent_->scrub(progress); }, say);
  }
  if (command == "trace") return trace(request, say);
  if (command == "limit") return limit(request);
  if (command == "layout") return layout_of(agent_->files(), request);
  if (command == "set layout") return set_layout(request);
  if (command == "checkpoint") {
    const auto made = agent_->checkpoint_meta();
    return made ? Json::object() : Json{{"error", made.error().message}};
  }
  if (command == "move names") {
    return move_names_by(
        [this](const auto& to, const auto& progress) { return agent_->move_names(to, progress); },
        request, say);
  }
  if (command == "down") {
    end_.raise();
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
  if (auto answer = answer_about_quota(agent_->files(), request)) return std::move(*answer);
  if (auto answer = answer_about_trash(agent_->files(), request)) return std::move(*answer);
  const NodeWithDisks disks{
      agent_->cluster(), agent_->status().disks,
      [this](const std::string& path) { return agent_->take_disk_off(path); }};
  if (const auto answer = answer_about_disk(disks, request)) return *answer;
  if (const auto answer = answer_about_identity(agent_->cluster(), request)) return *answer;
  if (const auto answer = answer_about_cluster(agent_->cluster(), request)) return *answer;
  if (const auto answer = answer_about_network(agent_->cluster(), request, say)) return *answer;
  return {{"error", "this node does not know the request '" + command + "'"}};
}

Json NodeService::status() {
  const agent::AgentStatus status = agent_->status();
  Json document = json_of(status);
  document["pid"] = ::getpid();
  Json mounts = Json::array();
  std::lock_guard lock(mounts_mutex_);
  for (const auto& [path, mount] : mounts_) {
    if (mount->alive()) mounts.push_back(path);
  }
  document["mounts"] = mounts;
  if (metrics_ != nullptr) document["metrics"] = metrics_->address();
  const cluster::Participant* const cluster = agent_->cluster();
  // A status does not wait for a server that is away.
  if (cluster != nullptr && cluster::has_names(cluster->roles()) && status.databases_stopped == 0) {
    document["wants_copies"] = wants_copies(agent_->files());
  }
  return document;
}

// A cluster has tables of as many copies as were ever asked for, and gets a larger one when it has
// grown so that some targets would have nothing of them.
Json NodeService::set_layout(const Json& request) {
  const auto wanted = request.find("copies");
  cluster::Participant* const cluster = agent_->cluster();
  if (cluster != nullptr && wanted != request.end() && wanted->is_number_unsigned()) {
    const auto copies = wanted->get<uint64_t>();
    const size_t targets = targets_that_stay(cluster->map());
    const auto is_offered = [&] {
      const std::vector<client::ChainTable> tables = agent_->files().tables();
      return std::any_of(tables.begin(), tables.end(), [&](const client::ChainTable& table) {
        const bool is_large_enough = table.id == 0 || table.chain_count >= targets;
        return table.copies == copies && is_large_enough;
      });
    };
    if (!is_offered() && copies <= controller::limits::kCopiesMax) {
      const auto made = make_table(*cluster, static_cast<uint32_t>(copies), is_offered);
      if (!made) return {{"error", made.error().message}};
    }
  }
  return apps::set_layout(agent_->files(), request);
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
            allowance_json(*allowed).dump());
  return allowance_json(*allowed);
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
