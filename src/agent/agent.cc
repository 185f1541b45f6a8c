#include "penstock/agent.h"

#include "allowances.h"
#include "limits.h"
#include "node.h"
#include "scrub.h"

#include <algorithm>
#include <atomic>
#include <fmt/format.h>
#include <map>
#include <unistd.h>

#include "penstock/session_server.h"

namespace penstock::agent {
namespace {

class LocalAgent final : public Agent {
 public:
  ~LocalAgent() override { stop(); }

  template <class Config>
  Outcome<void> start(const Config& config);
  void stop() override;
  void hurry() override {
    if (node_ != nullptr) node_->hurry();
  }
  client::FileSystem& files() override { return node_->files(); }
  cluster::Participant* cluster() override { return node_->cluster(); }
  AgentStatus status() override;
  ScrubReport scrub(const ScrubProgress& progress) override { return scrub_node(*node_, progress); }
  Outcome<void> take_disk_off(const std::string& path) override {
    return node_->take_disk_off(path);
  }
  Outcome<void> checkpoint_meta() override { return node_->checkpoint_meta(); }
  Outcome<NamesMoved> move_names(const std::string& to, const NamesProgress& progress) override {
    return node_->move_names(to, progress);
  }
  void set_defragment(bool enabled) override { node_->set_defragment(enabled); }
  Outcome<void> offer_table(const inodes::ChainTable& table,
                            std::span<const engine::Address> addresses) override {
    return node_->offer_table(table, addresses);
  }
  Outcome<UniqueFd> connect_local() override { return server_->connect_local(); }
  Outcome<client::Allowance> allow_user(uint32_t uid, const AllowanceChange& change) override;
  Outcome<client::Allowance> allow_session(uint64_t session,
                                           const AllowanceChange& change) override;
  Outcome<std::vector<telemetry::Traced>> trace(const std::function<void()>& meanwhile) override;
  void add_mount(dev_t device, int connection) override {
    sessions_.mounts.add(device, connection);
  }
  void remove_mount(dev_t device) override { sessions_.mounts.remove(device); }
  std::shared_ptr<sessions::RegionLinks> region_links(const MakeRegionLinks& make) override {
    return sessions_.links.find_or_make([&] { return make(sessions_.accounts); });
  }

 private:
  // The steps of start(), in this order.
  void make_session_shards();
  Outcome<void> start_cache(uint64_t bytes);
  Outcome<void> start_server(const AgentOptions& options);

  // Runs `act` in the loop of a shard with its tracer.
  void on_tracer(uint32_t shard, const std::function<void(telemetry::Tracer&)>& act);
  ShardStatus status_of(uint32_t shard, const store::TargetStatus* target);
  void add_figures(AgentStatus* status);

  std::atomic<bool> is_traced_{false};
  // Those that the sessions' shares were made of: later changes count from the next start.
  const resources::ProcessLimit memory_ = resources::memory_of_process();
  const resources::ProcessLimit mappings_ = resources::mappings_of_process();
  Allowances allowances_;
  sessions::SessionNode sessions_;
  std::unique_ptr<Node> node_;
  engine::SeededRandom cache_random_{engine::system_seed()};
  engine::FutexParker cache_parker_{engine::system_clock()};
  engine::Loop cache_loop_{engine::system_clock(), cache_random_, cache_parker_};
  std::unique_ptr<node_cache::NodeCache> cache_;
  std::unique_ptr<session_server::SessionServer> server_;
  engine::Time started_;
  uint64_t cache_bytes_ = 0;
};

template <class Config>
Outcome<void> LocalAgent::start(const Config& config) {
  ASSERT(node_ == nullptr && server_ == nullptr);
  started_ = engine::system_clock().now();
  TRY_ASSIGN(node_, Node::start(config));
  if (!node_->directory().empty()) TRY(allowances_.load(node_->directory()));
  make_session_shards();
  TRY(start_cache(config.cache_bytes));
  return start_server(config);
}

void LocalAgent::make_session_shards() {
  ASSERT(sessions_.shards.empty() && !node_->shards().empty());
  sessions_.files = &node_->files();
  sessions_.accounts = resources::Accounts::make(
      resources::bounds_within(memory_.amount, mappings_.amount), ::geteuid());
  sessions_.user_terms = [this](uint32_t uid) -> client::Terms& { return allowances_.of(uid); };
  sessions_.tokens = sessions::TokenMaker(node_->secret());
  if (node_->cluster() != nullptr) sessions_.network = node_->cluster()->announcements();
  // A feature of this node only where it has cards.
  if (sessions_.network == nullptr) {
    sessions_.protocol.features &= ~wire::kFeatureDeviceRegions;
  }
  for (uint32_t i = 0; i < node_->shards().size(); ++i) {
    NodeShard& shard = *node_->shards()[i];
    auto session_shard = std::make_unique<sessions::SessionShard>();
    session_shard->loop = &shard.loop();
    session_shard->client = &node_->files().client(i);
    session_shard->parker = &shard.parker();
    session_shard->rings.listen_to(shard.parker());
    sessions_.buffers.add_disk(shard.loop(), shard.disk());
    node_->serve_rings(i, session_shard->rings);
    sessions_.shards.push_back(std::move(session_shard));
  }
}

Outcome<void> LocalAgent::start_cache(uint64_t bytes) {
  ASSERT(cache_ == nullptr && !sessions_.shards.empty());
  const std::string& directory = node_->directory();
  if (!directory.empty()) TRY(node_cache::CacheLease::begin(directory, bytes > 0));
  cache_bytes_ = bytes;
  if (bytes == 0) return {};
  node_cache::NodeCacheConfig config;
  config.bytes = bytes;
  config.files = &node_->files();
  config.buffers = &sessions_.buffers;
  config.network = sessions_.network;
  config.loop = &cache_loop_;
  for (const auto& shard : sessions_.shards) config.shards.push_back({shard->loop, shard->client});
  TRY_ASSIGN(cache_, node_cache::NodeCache::start(config));
  sessions_.cache = cache_.get();
  for (size_t i = 0; i < sessions_.shards.size(); ++i) {
    sessions_.shards[i]->fills = &cache_->fills(i);
  }
  return {};
}

Outcome<void> LocalAgent::start_server(const AgentOptions& options) {
  ASSERT(server_ == nullptr && sessions_.accounts != nullptr);
  session_server::SessionServerConfig config;
  config.reply_timeout = options.reply_timeout;
  if (options.listen) {
    if (node_->directory().empty()) {
      return Failure{Code::invalid_argument, "an agent that listens needs a directory"};
    }
    config.socket_path = node_->directory() + "/" + wire::kSessionSocketName;
    // In an application's own process its memory is its own business, and so are its signals.
    resources::BusGuard::install();
    resources::PageFence::install();
  }
  TRY_ASSIGN(server_, session_server::SessionServer::start(sessions_, std::move(config)));
  return {};
}

void LocalAgent::stop() {
  if (server_ != nullptr) server_->stop();
  if (node_ == nullptr) return;
  for (uint32_t i = 0; i < sessions_.shards.size(); ++i) {
    node_->withdraw_rings(i, sessions_.shards[i]->rings);
  }
  server_.reset();
  sessions_.cache = nullptr;
  cache_.reset();
  const std::string directory = node_->directory();
  if (!directory.empty()) node_cache::CacheLease::end(directory);
  sessions_.shards.clear();
  node_.reset();
  const std::string left = resources::descriptors_that_hang(limits::kClosePatience);
  if (left.empty()) return;
  log::error(
      "{}: stopped; left behind are descriptors whose file system does not answer their close: {} "
      "(the process stays until it does)",
      directory, left);
}

Outcome<client::Allowance> LocalAgent::allow_user(uint32_t uid, const AllowanceChange& change) {
  client::Allowance allowance = allowances_.of(uid).allowance();
  change(allowance);
  TRY(allowances_.set(uid, allowance));
  return allowance;
}

Outcome<client::Allowance> LocalAgent::allow_session(uint64_t session,
                                                     const AllowanceChange& change) {
  const std::shared_ptr<sessions::Session> found = server_->find(session);
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

void LocalAgent::on_tracer(uint32_t shard, const std::function<void(telemetry::Tracer&)>& act) {
  ASSERT(shard < node_->shards().size() && is_traced_.load());
  engine::Loop& loop = node_->shards()[shard]->loop();
  (void)engine::thread_caller().call(loop, [&](engine::Op& done) {
    act(sessions_.shards[shard]->rings.routes().tracer());
    loop.complete(done, Code::ok);
  });
}

Outcome<std::vector<telemetry::Traced>> LocalAgent::trace(const std::function<void()>& meanwhile) {
  if (is_traced_.exchange(true)) {
    return Failure{Code::busy,
                   "another trace of this node is under way; try again when that has ended"};
  }
  ASSERT(node_->shards().size() == sessions_.shards.size());
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

ShardStatus LocalAgent::status_of(uint32_t shard, const store::TargetStatus* target) {
  ASSERT(shard < sessions_.shards.size() && shard < node_->shards().size());
  ShardStatus status = shard_status(*node_->shards()[shard], target);
  const telemetry::OperationFigures& figures = sessions_.shards[shard]->rings.routes().figures();
  status.ring_operations_in_flight = figures.in_flight();
  return status;
}

void LocalAgent::add_figures(AgentStatus* status) {
  constexpr std::string_view kPrefix = "agent.route.";
  for (const metrics::Sample& sample : metrics::snapshot()) {
    if (sample.name == "client.waited") status->operations_waited = sample.value;
    if (sample.name == "client.slowed") status->operations_slowed = sample.value;
    if (sample.name == "kv.stopped") status->databases_stopped = sample.value;
    if (sample.name == "store.no_space") status->updates_without_space = sample.value;
    if (!sample.name.starts_with(kPrefix)) continue;
    status->operations_by_route.emplace_back(sample.name.substr(kPrefix.size()), sample.value);
  }
}

AgentStatus LocalAgent::status() {
  AgentStatus status;
  status.directory = node_->directory();
  status.names = node_->names_status();
  const auto uptime = engine::system_clock().now() - started_;
  status.uptime_seconds =
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(uptime).count());
  status.file_system = node_->files().status();
  const std::vector<store::TargetStatus> targets = node_->target_status();
  for (uint32_t i = 0; i < sessions_.shards.size(); ++i) {
    status.shards.push_back(status_of(i, i < targets.size() ? &targets[i] : nullptr));
    sessions_.shards[i]->rings.routes().figures().add_to(&status.ring_operations,
                                                         &status.ring_errors);
  }
  status.sessions = server_->sessions();
  status.memory_is_fenced = resources::PageFence::is_up();
  status.resources = sessions_.accounts->resources();
  status.users = sessions_.accounts->status();
  status.memory_bytes = memory_.amount;
  status.memory_limit = memory_.by;
  status.mappings = mappings_.amount;
  status.mappings_limit = mappings_.by;
  status.allowances = allowances_.all();
  add_figures(&status);
  if (node_->cluster() != nullptr) status.cluster = node_->cluster()->status();
  status.disks = node_->disks();
  status.cache_bytes = cache_bytes_;
  if (cache_ == nullptr) return status;
  status.cache = cache_->status();
  // Hits are operations, too, of which the rings heard nothing.
  for (auto& [route, count] : status.operations_by_route) {
    if (route != engine::route_name(engine::Route::cache)) continue;
    for (const CacheStatus& one : status.cache) count += one.hits;
  }
  return status;
}

template <class Config>
Outcome<std::unique_ptr<Agent>> start_agent(const Config& config) {
  auto agent = std::make_unique<LocalAgent>();
  Outcome<void> started = agent->start(config);
  if (!started) return started.error();
  return std::unique_ptr<Agent>(std::move(agent));
}

}  // namespace

uint64_t default_cache_bytes() {
  return align_down(std::min(resources::memory_of_process().amount / 8, 16 * kGiB), kMiB);
}

Outcome<std::unique_ptr<Agent>> Agent::start(AgentConfig config) {
  return start_agent(config);
}

Outcome<std::unique_ptr<Agent>> Agent::start(DisklessConfig config) {
  return start_agent(config);
}

}  // namespace penstock::agent
