#include "penstock/agent.h"

#include "bus_guard.h"
#include "cache_lease.h"
#include "foreign_fd.h"
#include "limits.h"
#include "node.h"
#include "page_fence.h"
#include "process_memory.h"
#include "scrub.h"
#include "session_server.h"

#include <algorithm>
#include <atomic>
#include <fmt/format.h>
#include <map>
#include <mutex>

namespace penstock::agent {
namespace {

class LocalAgent final : public Agent {
 public:
  ~LocalAgent() override { stop(); }

  Outcome<void> start(const AgentConfig& config);
  void stop() override;
  client::FileSystem& files() override { return node_->files(); }
  AgentStatus status() override;
  ScrubReport scrub(const ScrubProgress& progress) override { return scrub_node(*node_, progress); }
  void set_defragment(bool enabled) override { node_->set_defragment(enabled); }
  Outcome<UniqueFd> connect_local() override { return server_->connect_local(); }
  Outcome<client::Allowance> allow_user(uint32_t uid, const AllowanceChange& change) override;
  Outcome<client::Allowance> allow_session(uint64_t session,
                                           const AllowanceChange& change) override;
  Outcome<std::vector<telemetry::Traced>> trace(const std::function<void()>& meanwhile) override;
  void add_mount(dev_t device, int connection) override {
    sessions_.mounts.add(device, connection);
  }
  void remove_mount(dev_t device) override { sessions_.mounts.remove(device); }
  Status link_region(const client::Credentials& credentials, const std::string& name,
                     const std::string& target) override;
  Status unlink_region(const client::Credentials& credentials, const std::string& name) override {
    return sessions_.links.remove(credentials, name);
  }
  std::vector<LinkedRegion> linked_regions(const client::Credentials& credentials) override {
    return sessions_.links.list(credentials);
  }
  std::optional<LinkedRegion> linked_region(const client::Credentials& credentials,
                                            const std::string& name) override {
    return sessions_.links.find(credentials, name);
  }

 private:
  // Runs `act` in the loop of a shard with its tracer.
  void on_tracer(uint32_t shard, const std::function<void(telemetry::Tracer&)>& act);

  std::atomic<bool> is_traced_{false};
  // Those that the sessions' shares were made of: later changes count from the next start.
  const ProcessLimit memory_ = memory_of_process();
  const ProcessLimit mappings_ = mappings_of_process();
  SessionNode sessions_;
  std::unique_ptr<Node> node_;
  std::unique_ptr<SessionServer> server_;
  engine::Time started_;
  uint64_t cache_bytes_ = 0;
};

Outcome<void> LocalAgent::start(const AgentConfig& config) {
  started_ = engine::system_clock().now();
  TRY_ASSIGN(node_, Node::start(config));
  TRY(sessions_.allowances.load(node_->store().path()));
  sessions_.files = &node_->files();
  sessions_.tokens = TokenMaker(node_->store().secret());
  for (uint32_t i = 0; i < node_->shards().size(); ++i) {
    NodeShard& shard = *node_->shards()[i];
    auto session_shard = std::make_unique<SessionShard>();
    session_shard->loop = &shard.loop();
    session_shard->client = &node_->files().client(i);
    session_shard->parker = &shard.parker();
    session_shard->rings.listen_to(shard.parker());
    session_shard->disk = &shard.disk();
    node_->serve_rings(i, session_shard->rings);
    sessions_.shards.push_back(std::move(session_shard));
  }
  sessions_.reply_timeout = config.reply_timeout;
  TRY(CacheLease::begin(node_->store().path(), config.cache_bytes > 0));
  cache_bytes_ = config.cache_bytes;
  if (cache_bytes_ > 0) {
    TRY_ASSIGN(sessions_.cache, NodeCache::start(sessions_, cache_bytes_));
  }
  // In an application's own process its memory is its own business, and so are its signals.
  if (config.listen) {
    BusGuard::install();
    PageFence::install();
  }
  TRY_ASSIGN(server_, SessionServer::start(
                          sessions_, config.listen ? node_->store().socket_path() : std::string()));
  return {};
}

void LocalAgent::stop() {
  if (server_ != nullptr) server_->stop();
  if (node_ == nullptr) return;
  for (uint32_t i = 0; i < sessions_.shards.size(); ++i) {
    node_->withdraw_rings(i, sessions_.shards[i]->rings);
  }
  server_.reset();
  sessions_.cache.reset();
  CacheLease::end(node_->store().path());
  sessions_.shards.clear();
  const std::string directory = node_->store().path();
  node_.reset();
  const std::string left = descriptors_that_hang(limits::kClosePatience);
  if (left.empty()) return;
  log::error(
      "{}: stopped; left behind are descriptors whose file system does not answer their close: {} "
      "(the process stays until it does)",
      directory, left);
}

Outcome<client::Allowance> LocalAgent::allow_user(uint32_t uid, const AllowanceChange& change) {
  client::Allowance allowance = sessions_.allowances.of(uid).allowance();
  change(allowance);
  TRY(sessions_.allowances.set(uid, allowance));
  return allowance;
}

Outcome<client::Allowance> LocalAgent::allow_session(uint64_t session,
                                                     const AllowanceChange& change) {
  const std::shared_ptr<Session> found = server_->find(session);
  if (found == nullptr) {
    return Failure{Code::not_found,
                   fmt::format("session {}: there is none (see 'penstock status')", session)};
  }
  client::Allowance allowance = found->terms().allowance();
  change(allowance);
  if (found->terms().set(allowance).ok()) return allowance;
  return Failure{Code::invalid_argument,
                 fmt::format("a weight is 1 to {}, not {}", client::kWeightMax, allowance.weight)};
}

// Whoever makes a link in a mount is told an error number only.
Status LocalAgent::link_region(const client::Credentials& credentials, const std::string& name,
                               const std::string& target) {
  const Status linked = sessions_.links.add(credentials, name, target);
  if (linked == Code::not_found || linked == Code::access_denied) {
    sessions_.log.warning(fmt::format("link {}", credentials.uid),
                          fmt::format("a link of user {} to {}", credentials.uid,
                                      LinkTable::trouble(linked, target)));
  }
  return linked;
}

void LocalAgent::on_tracer(uint32_t shard, const std::function<void(telemetry::Tracer&)>& act) {
  engine::Loop& loop = node_->shards()[shard]->loop();
  (void)engine::thread_caller().call(loop, [&](engine::Op& done) {
    act(sessions_.shards[shard]->rings.routes().tracer());
    loop.complete(done, Code::ok);
  });
}

Outcome<std::vector<telemetry::Traced>> LocalAgent::trace(const std::function<void()>& meanwhile) {
  if (is_traced_.exchange(true)) {
    return Failure{Code::busy, "somebody traces this node already; try again when that has ended"};
  }
  std::vector<telemetry::Traced> traced(node_->shards().size());
  for (uint32_t i = 0; i < traced.size(); ++i) {
    on_tracer(i, [](telemetry::Tracer& tracer) { tracer.start(); });
  }
  meanwhile();
  for (uint32_t i = 0; i < traced.size(); ++i) {
    on_tracer(i, [&](telemetry::Tracer& tracer) { traced[i] = tracer.stop(); });
  }
  is_traced_ = false;
  return traced;
}

AgentStatus LocalAgent::status() {
  AgentStatus status;
  status.directory = node_->store().path();
  const auto uptime = engine::system_clock().now() - started_;
  status.uptime_seconds =
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(uptime).count());
  status.file_system = node_->files().status();
  const std::vector<store::TargetStatus> targets = node_->target_status();
  for (uint32_t i = 0; i < targets.size(); ++i) {
    ShardStatus shard;
    shard.index = i;
    shard.disk = node_->shards()[i]->disk().facts();
    shard.target_capacity_bytes = targets[i].capacity_bytes;
    shard.target_used_bytes = targets[i].used_bytes;
    shard.corrupt_blocks_seen = targets[i].corrupt_blocks_seen;
    shard.scattered_bytes = targets[i].scattered_bytes;
    shard.moved_bytes = targets[i].moved_bytes;
    shard.full = targets[i].full;
    shard.failed = targets[i].failed;
    const telemetry::OperationFigures& figures = sessions_.shards[i]->rings.routes().figures();
    shard.ring_operations_in_flight = figures.in_flight();
    figures.add_to(&status.ring_operations, &status.ring_errors);
    status.shards.push_back(std::move(shard));
  }
  status.sessions = server_->sessions();
  status.memory_is_fenced = PageFence::is_up();
  status.resources = sessions_.accounts->resources();
  status.users = sessions_.accounts->status();
  status.memory_bytes = memory_.amount;
  status.memory_limit = memory_.by;
  status.mappings = mappings_.amount;
  status.mappings_limit = mappings_.by;
  status.allowances = sessions_.allowances.all();
  constexpr std::string_view kPrefix = "agent.route.";
  for (const metrics::Sample& sample : metrics::snapshot()) {
    if (sample.name == "client.waited") status.operations_waited = sample.value;
    if (sample.name == "client.slowed") status.operations_slowed = sample.value;
    if (sample.name == "kv.stopped") status.databases_stopped = sample.value;
    if (sample.name == "store.no_space") status.updates_without_space = sample.value;
    if (!sample.name.starts_with(kPrefix)) continue;
    status.operations_by_route.emplace_back(sample.name.substr(kPrefix.size()), sample.value);
  }
  status.cache_bytes = cache_bytes_;
  if (sessions_.cache == nullptr) return status;
  status.cache = sessions_.cache->status();
  // Hits are operations, too, of which the rings heard nothing.
  for (auto& [route, count] : status.operations_by_route) {
    if (route != engine::route_name(engine::Route::cache)) continue;
    for (const CacheStatus& one : status.cache) count += one.hits;
  }
  return status;
}

}  // namespace

uint64_t default_cache_bytes() {
  return align_down(std::min(memory_of_process().amount / 8, 16 * kGiB), kMiB);
}

Outcome<std::unique_ptr<Agent>> Agent::start(AgentConfig config) {
  auto agent = std::make_unique<LocalAgent>();
  Outcome<void> started = agent->start(config);
  if (!started) return started.error();
  return std::unique_ptr<Agent>(std::move(agent));
}

}  // namespace penstock::agent
