#include "processes.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace penstock::client {
namespace {

constexpr uint32_t kStorages = 2;
constexpr engine::Address kHolds{kNamesNode, 90};
constexpr engine::Address kMeta{kNamesNode, 91};
constexpr NodeId kRestricted{1};
constexpr uint8_t kSigned = 77;  // in place of a signature

struct ShowJob : ListNode {
  InodeId inode;
  std::function<void(Status)> done;
};

}  // namespace

// ---- the fence ----

bool Fence::is_good(AgentId of) const {
  const auto floor = floors_.find(of.node);
  return of.session != 0 && (floor == floors_.end() || of.session >= floor->second);
}

bool Fence::raise(AgentId above, const std::function<bool()>& gives_up) {
  uint64_t& floor = floors_[above.node];
  floor = std::max(floor, above.session + 1);
  world_.trace("fenced", above.node.value, above.session);
  const auto is_over = [&](AgentId of) { return of.node == above.node && is_fenced(of); };
  while (!has_session && std::any_of(under_way_.begin(), under_way_.end(), is_over)) {
    if (gives_up()) return false;
    world_.run_for(milliseconds(1));
  }
  return true;
}

void NamingNet::call(engine::CallOp& op) {
  const uint64_t session = session_();
  std::vector<std::byte> named(op.request.begin(), op.request.end());
  named.resize(named.size() + sizeof session);
  std::memcpy(named.data() + named.size() - sizeof session, &session, sizeof session);
  // The net below copies it.
  const Bytes request = std::exchange(op.request, named);
  net_.call(op);
  op.request = request;
}

class FencedService::Guarded final : public engine::IncomingCall {
 public:
  Guarded(Fence& fence, engine::IncomingCall& inner, AgentId of)
      : fence_(fence), inner_(inner), of_(of) {
    method = inner.method;
    request = inner.request.first(inner.request.size() - sizeof(uint64_t));
    exposure_count = inner.exposure_count;
    fence_.under_way_.insert(of_);
  }
  engine::Peer peer() const override { return inner_.peer(); }
  uint64_t exposure_length(uint32_t index) const override { return inner_.exposure_length(index); }
  engine::Access exposure_access(uint32_t index) const override {
    return inner_.exposure_access(index);
  }
  std::optional<engine::MemoryRef> direct(uint32_t index) override { return inner_.direct(index); }
  void place(engine::TransferOp& op) override { inner_.place(op); }
  void fetch(engine::TransferOp& op) override { inner_.fetch(op); }
  void reply(Status status, Bytes response) override {
    fence_.under_way_.erase(fence_.under_way_.find(of_));
    inner_.reply(status, response);
    delete this;
  }

 private:
  Fence& fence_;
  engine::IncomingCall& inner_;
  const AgentId of_;
};

void FencedService::on_call(engine::IncomingCall& call) {
  uint64_t session = 0;
  ASSERT(call.request.size() > sizeof session);
  std::memcpy(&session, call.request.data() + call.request.size() - sizeof session, sizeof session);
  const AgentId of{call.peer().node, session};
  if (!skips_ && of.node != kNamesNode && !fence_.may_call(of)) return call.reply(Code::stale, {});
  engine::Service& inner = of.node == kNamesNode ? own_ : others_;
  inner.on_call(*new Guarded(fence_, call, of));  // until its reply
}

// ---- a process ----

Process::Process(Processes& all, NodeId node, uint32_t number)
    : all_(all),
      node_(node),
      number_(number),
      keepings_(all.broken),
      clock_(all.world.clock(), all.broken.ignores_lease && node != kNamesNode) {}

Process::~Process() {
  ASSERT(loop_ == nullptr && users_ == 0);
}

void Process::Keepings::drop_names(InodeId inode, std::vector<std::string> names,
                                   std::function<void()> done) {
  if (broken_.keeps_told_names) return done();
  if (names_ != nullptr) names_->drop_names(inode, names);
  to_ == nullptr ? done() : to_->drop_names(inode, std::move(names), std::move(done));
}

void Process::Keepings::drop(InodeId inode, holds::Hold leave, std::function<void()> done) {
  if (names_ != nullptr && leave == holds::Hold::none) names_->drop(inode);
  if (to_ == nullptr) return done();
  if (broken_.keeps_inodes) return to_->settle(inode, std::move(done));
  if (!broken_.answers_before_drop) return to_->drop(inode, leave, std::move(done));
  done();
  to_->drop(inode, leave, [] {});
}

void Process::Keepings::settle(InodeId inode, std::function<void()> done) {
  to_ == nullptr ? done() : to_->settle(inode, std::move(done));
}

void Process::Keepings::drop_all(bool is_lost, std::function<void()> done) {
  if (names_ != nullptr) names_->drop_all();
  to_ == nullptr ? done() : to_->drop_all(is_lost, std::move(done));
}

void Process::make_loop() {
  ASSERT(loop_ == nullptr);
  parker_ = std::make_unique<sim::SimParker>(all_.world);
  loop_ = std::make_unique<engine::Loop>(clock_, all_.world.random(), *parker_);
  parker_->drive(*loop_, true);
  net_ = std::make_unique<sim::SimNet>(all_.network, *loop_, node_);
}

void Process::in_loop(const std::function<void(engine::Op& done)>& what) {
  (void)engine::thread_caller().call(*loop_, what);
}

void Process::start_agent() {
  holds_net::HoldsAgentConfig config;
  config.loop = loop_.get();
  config.net = net_.get();
  config.node = node_;
  config.service = kHolds;
  config.keeping = &keepings_;
  config.session_changes = [this](AgentId session) {
    all_.world.trace("session", session.node.value, session.session);
  };
  config.show = show_;
  agent_ = holds_net::HoldsAgent::make(config);
  in_loop([this](engine::Op& done) {
    agent_->start();
    loop_->complete(done, Code::ok);
  });
  naming_ = std::make_unique<NamingNet>(*net_, [this] { return agent_->session().session; });
}

Status Process::open_files(meta::Meta& meta, FileSystemConfig config) {
  kept_ = std::make_unique<kept_names::KeptNames>(
      meta, kept_names::KeptNamesConfig{
                .holding = agent_.get(), .clock = &clock_, .kept_max = 640, .is_off = is_limited_});
  keepings_.attach(kept_.get());
  if (!all_.broken.forgets_kernels) config.entries = kept_.get();
  config.shards.push_back({loop_.get(), naming_.get()});
  config.chains = all_.chains_;
  config.holding = agent_.get();
  // A look at many of them would take long.
  config.written_ids_step = 40;
  auto files = FileSystem::open(*kept_, std::move(config));
  if (!files) return files.error().status;
  files_ = std::move(*files);
  kernel_ = std::make_unique<KernelModel>(*files_, *kept_, all_.world);
  keepings_.attach(&files_->keeping());
  return Code::ok;
}

FileSystem* Process::enter() {
  if (!is_running()) return nullptr;
  ++users_;
  all_.world.enter_process(number_);
  return files_.get();
}

void Process::leave() {
  ASSERT(users_ > 0);
  --users_;
  all_.world.enter_process(0);
}

AgentId Process::session() {
  return agent_ == nullptr ? AgentId{node_, 0} : agent_->session();
}

void Process::stop_for(engine::Duration time) {
  all_.world.trace("stops", number_, static_cast<uint64_t>(time.count()));
  all_.world.stop_process(number_);
  all_.world.after(time, "goes on", [this, stop = ++stops_] {
    if (stop == stops_) all_.world.continue_process(number_);
  });
}

void Process::close_files() {
  if (files_ != nullptr) files_->close();
}

void Process::close_agent() {
  if (agent_ != nullptr) in_loop([this](engine::Op& done) { agent_->close(done); });
  keepings_.attach(static_cast<holds::Keeping*>(nullptr));
  // Those that waited for holds have heard that none comes.
  while (users_ > 0) all_.world.run_for(milliseconds(10));
}

// What was on its way to it has come, and finds nobody.
void Process::drop_rest() {
  all_.world.run_for(seconds(1));
  keepings_.attach(static_cast<kept_names::KeptNames*>(nullptr));
  kernel_ = nullptr;
  files_ = nullptr;
  kept_ = nullptr;
  agent_ = nullptr;
  naming_ = nullptr;
  net_ = nullptr;
  parker_->stop_driving();
  loop_ = nullptr;
  parker_ = nullptr;
}

std::string Process::describe() {
  std::string text = "node " + std::to_string(node_.value);
  if (agent_ == nullptr) return text + " is gone";
  const auto figures = agent_->figures();
  return text + "." + std::to_string(agent_->session().session) +
         (agent_->is_ready() ? " is ready" : " is not ready") + (is_ending_ ? ", ends" : "") +
         ", " + std::to_string(figures.running) + " run, " + std::to_string(figures.waiting) +
         " wait, " + std::to_string(users_) + " programs";
}

// ---- an agent ----

Status AgentProcess::start() {
  const auto before = all_.world.enter_process(number_);
  make_loop();
  meta_net::RemoteMetaConfig config;
  config.loop = loop_.get();
  config.net = net_.get();
  config.service = kMeta;
  config.session = [this] { return agent_ == nullptr ? 0 : agent_->session().session; };
  config.caller = ++all_.callers_;
  const bool is_restricted = all_.broken.restricts_first && node_ == kRestricted;
  if (is_restricted) restrict(config);
  meta_ = meta_net::RemoteMeta::make(config);
  start_agent();
  FileSystemConfig files;
  files.owns_recovery = false;
  if (is_restricted) {
    files.is_limited = is_limited_;
    files.access = [this](const Credentials& who, InodeId inode, uint32_t wanted) {
      return meta_->access(who, inode, wanted);
    };
  }
  const Status opened = open_files(*meta_, std::move(files));
  all_.world.enter_process(before);
  return opened;
}

// What a real one has for it is in src/agent.
void AgentProcess::restrict(meta_net::RemoteMetaConfig& config) {
  is_limited_ = [] { return true; };
  config.given = [this](const wire::Capability& one) {
    const std::lock_guard lock(mutex_);
    given_[InodeId(one.inode_first)] = one;
  };
  config.find_given = [this](InodeId inode) -> std::optional<wire::Capability> {
    const std::lock_guard lock(mutex_);
    const auto found = given_.find(inode);
    return found == given_.end() ? std::nullopt : std::optional(found->second);
  };
  const auto run = [this](ListNode& item) {
    const std::unique_ptr<ShowJob> job(static_cast<ShowJob*>(&item));
    job->done(all_.broken.shows_nothing ? Status(Code::stale) : meta_->show(job->inode));
  };
  shows_ = std::make_unique<engine::WorkerPool>(
      engine::WorkerOptions{.name = "shows", .count_max = 2}, run);
  show_ = [this](InodeId inode, std::function<void(Status)> done) {
    auto job = std::make_unique<ShowJob>();
    job->inode = inode;
    job->done = std::move(done);
    if (shows_->submit(*job).ok()) static_cast<void>(job.release());  // the pool's now
  };
}

void AgentProcess::stop() {
  is_ending_ = true;
  all_.world.continue_process(number_);
  close_files();
  close_agent();
  if (shows_ != nullptr) {
    shows_->stop([](ListNode& item) {
      const std::unique_ptr<ShowJob> job(static_cast<ShowJob*>(&item));
      job->done(Code::closed);
    });
    shows_ = nullptr;
  }
  drop_rest();
  meta_ = nullptr;
  is_ending_ = false;
}

void AgentProcess::kill() {
  all_.world.trace("killed", number_);
  net_->kill();
  meta_->hurry(milliseconds(1));
  stop();
}

// ---- the one with the names ----

class NamesProcess::Record final : public inodes::RecordsFile {
 public:
  Status read(std::span<std::byte> block) override {
    if (block_.size() != block.size()) return Code::no_data;
    std::copy(block_.begin(), block_.end(), block.begin());
    return Code::ok;
  }
  Status write(std::span<const std::byte> block) override {
    if (is_dead) return Code::closed;
    block_.assign(block.begin(), block.end());
    return Code::ok;
  }
  bool is_dead = false;

 private:
  std::vector<std::byte> block_;
};

NamesProcess::NamesProcess(Processes& all)
    : Process(all, kNamesNode, kNamesNode.value),
      image_(all.world),
      record_(std::make_shared<Record>()) {}

std::vector<ServedTarget> Processes::serve_targets(NodeId node) {
  std::vector<ServedTarget> all;
  for (uint32_t i = 0; i < storages_.size(); ++i) {
    Storage& storage = storages_[i];
    ServedTarget& served = all.emplace_back();
    served.net = std::make_unique<sim::SimNet>(network, *storage.loop, node);
    served.own = chunks::make_service(*storage.target, ChainId(i));
    served.others =
        chunks::make_service(*storage.target, ChainId(i), chunks::kCallsMax, chunks::Durable::all);
    served.fenced =
        std::make_unique<FencedService>(fence, *served.own, *served.others, broken.skips_fence);
    served.net->serve({node, i}, *served.fenced);
  }
  return all;
}

Status NamesProcess::start() {
  const auto before = all_.world.enter_process(number_);
  is_stopping_ = false;
  record_->is_dead = false;
  make_loop();
  kv_ = std::make_unique<sim::SimKv>(image_);
  if (!all_.broken.targets_apart) served_ = all_.serve_targets(node_);
  meta::MetaOptions options;
  options.default_layout.chunk_bytes_log2 = 16;
  options.default_layout.chain_count = kStorages;
  auto meta = meta::Meta::open(*kv_, all_.world.clock(), options);
  Status status = meta ? Status() : meta.error().status;
  if (status.ok()) meta_ = std::move(*meta);
  if (status.ok()) status = start_service();
  if (status.ok()) start_agent();
  if (status.ok()) {
    guard_ = std::make_unique<kept_names::NamesGuard>(*service_);
    if (!all_.broken.serves_late) status = serve_names();
  }
  if (status.ok()) status = await_past();
  if (status.ok()) {
    FileSystemConfig files;
    files.records = record_;
    files.is_in_use_elsewhere = [this](InodeId inode) {
      return !all_.broken.removes_used && service_->is_in_use(inode, agent_->session());
    };
    files.is_exclusive_elsewhere = [this](InodeId inode) {
      return service_->is_known_exclusive(inode);
    };
    guarded_ = std::make_unique<kept_names::GuardedNames>(*meta_, *guard_,
                                                          [this] { return agent_->session(); });
    status = open_files(*guarded_, std::move(files));
  }
  if (status.ok()) attach();
  if (status.ok() && all_.broken.serves_late) status = serve_names();
  all_.world.enter_process(before);
  return status;
}

Status NamesProcess::start_service() {
  holds_net::HoldsServiceConfig config;
  config.loop = loop_.get();
  config.net = net_.get();
  config.address = kHolds;
  config.kv = kv_.get();
  config.fence = [this](AgentId agent, const std::function<void()>& done) { fence(agent, done); };
  config.settle = [this](AgentId agent, const std::vector<InodeId>& exclusives,
                         const std::function<void()>& done) { settle(agent, exclusives, done); };
  config.unused = [this](InodeId) {
    if (settler_ != nullptr) settler_->unused_elsewhere();
  };
  if (all_.broken.restricts_first) {
    rights::Restriction what;
    what.subtree = "/";
    const auto limits = std::make_shared<const meta_net::Limits>(meta_net::Limits{what, 1});
    rights_ = std::make_unique<meta_net::NodeRights>(
        *meta_, all_.world.clock(),
        [limits](NodeId node) { return node == kRestricted ? limits : nullptr; });
    config.judge = [this](AgentId agent, InodeId inode, holds::Hold hold) {
      using Is = holds_net::Judgement::Is;
      const auto found =
          rights_->may_hold(agent.node, agent.session, inode, hold == holds::Hold::exclusive);
      const bool may = found.may == meta_net::NodeRights::May::yes;
      return holds_net::Judgement{may ? Is::allowed : Is::unknown, found.inode};
    };
    config.is_restricted = [](NodeId node) { return node == kRestricted; };
  }
  auto service = holds_net::HoldsService::open(config);
  if (!service) return service.error().status;
  service_ = std::move(*service);
  if (all_.broken.fences_nodes) {
    all_.fence.has_session = [this](NodeId node) {
      return service_ != nullptr && service_->has_session(node);
    };
  }
  in_loop([this](engine::Op& done) {
    service_->start();
    loop_->complete(done, Code::ok);
  });
  return Code::ok;
}

Status NamesProcess::await_past() {
  const engine::Time deadline = all_.world.now() + seconds(30);
  const auto is_past_fenced = [this] {
    if (all_.broken.settles_late) return !service_->is_claiming();
    const std::vector<AgentId> inherited = service_->inherited();
    return std::all_of(inherited.begin(), inherited.end(),
                       [this](AgentId agent) { return past_.contains(agent); });
  };
  while (!is_past_fenced() || !agent_->is_ready()) {
    if (all_.world.now() >= deadline) return Code::timed_out;
    all_.world.run_for(milliseconds(50));
  }
  return Code::ok;
}

Status NamesProcess::serve_names() {
  const Result<InodeId> first = meta_->unused_id();
  if (!first) return first.error();
  meta_net::MetaServiceConfig config;
  config.loop = loop_.get();
  config.net = net_.get();
  config.address = kMeta;
  config.meta = meta_.get();
  config.guard = all_.broken.changes_untold ? nullptr : guard_.get();
  config.threads = 6;
  config.threads_per_node = 3;
  config.durable_answers = true;
  config.least_new = *first;
  config.own_chains = all_.broken.targets_apart ? 0 : kStorages;
  config.has_session = [this](NodeId node, uint64_t session) {
    return all_.broken.skips_sessions || service_->is_good({node, session});
  };
  config.is_early = [this] { return settler_ == nullptr; };
  config.rights = rights_.get();
  config.judged = [] { return uint64_t{1}; };
  config.sign = [](wire::Capability& one) {
    one.key = 1;
    one.signature[0] = kSigned;
    return Status();
  };
  config.is_signed = [](const wire::Capability& one) { return one.signature[0] == kSigned; };
  config.orphaned = [this](InodeId inode) { settler_->orphaned_elsewhere(inode); };
  config.named = [this](InodeId inode) { settler_->named_elsewhere(inode); };
  in_loop([&](engine::Op& done) {
    names_ = meta_net::MetaService::make(config);
    names_->start();
    loop_->complete(done, Code::ok);
  });
  return Code::ok;
}

bool NamesProcess::pause() {
  all_.world.run_for(milliseconds(200));
  return !is_stopping_;
}

// As of a version of the map, which heads take one after another.
void NamesProcess::fence(AgentId agent, const std::function<void()>& done) {
  all_.world.run_for(all_.world.between(milliseconds(1), milliseconds(900)));
  if (is_stopping_) return;
  if (!all_.fence.raise(agent, [this] { return is_stopping_; })) return;
  if (names_ != nullptr) names_->let_end();
  if (is_stopping_) return;
  all_.lost(agent);
  done();
}

void NamesProcess::attach() {
  settler_ = files_.get();
  for (const auto& [agent, had] : std::exchange(past_, {})) {
    had.exclusives.empty() ? had.done() : settle(agent, had.exclusives, had.done);
  }
}

void NamesProcess::settle(AgentId agent, const std::vector<InodeId>& exclusives,
                          const std::function<void()>& done) {
  if (is_stopping_) return;
  if (settler_ == nullptr) {
    if (all_.broken.settles_late) {
      past_[agent] = {{}, [] {}};
      return done();
    }
    past_[agent] = {exclusives, done};
    return;
  }
  ++settling_;
  const auto settle_once = [&]() -> Status {
    if (exclusives.empty()) return settler_->settle_all_lost();
    for (const InodeId inode : exclusives) TRY(settler_->settle_lost(inode));
    return Code::ok;
  };
  bool goes_on = true;
  while (goes_on && !settle_once().ok()) goes_on = pause();
  --settling_;
  if (goes_on) done();
}

void NamesProcess::expel(NodeId node) {
  in_loop([&](engine::Op& done) {
    service_->expel(node);
    loop_->complete(done, Code::ok);
  });
}

void NamesProcess::stop() {
  is_ending_ = true;
  all_.world.continue_process(number_);
  end();
}

void NamesProcess::die(bool power_cut) {
  is_ending_ = true;
  all_.world.trace("killed", number_, power_cut);
  record_->is_dead = true;
  net_->kill();
  for (ServedTarget& served : served_) served.net->kill();
  power_cut ? image_.power_cut() : image_.kill();
  if (power_cut) {
    for (Processes::Storage& storage : all_.storages_) storage.target->power_cut();
  }
  all_.world.continue_process(number_);
  end();
}

void NamesProcess::end() {
  if (guard_ != nullptr) guard_->stop();
  if (names_ != nullptr) in_loop([this](engine::Op& done) { names_->stop(done); });
  close_files();
  close_agent();
  is_stopping_ = true;
  while (settling_ > 0) all_.world.run_for(milliseconds(10));
  settler_ = nullptr;
  past_.clear();
  if (service_ != nullptr) in_loop([this](engine::Op& done) { service_->stop(done); });
  if (meta_ != nullptr) (void)meta_->close();
  for (ServedTarget& served : served_) {
    if (served.net != nullptr) served.net->kill();
  }
  all_.world.run_for(seconds(1));
  service_ = nullptr;
  names_ = nullptr;
  drop_rest();
  guarded_ = nullptr;
  guard_ = nullptr;
  served_.clear();
  meta_ = nullptr;
  kv_ = nullptr;
  is_ending_ = false;
}

// ---- all ----

Processes::Processes(uint64_t seed, size_t agents, Broken its_broken)
    : world(seed), broken(its_broken) {
  world.set_time_limit(std::chrono::hours(2));
  network.faults.spares_self = true;
  network.faults.detection = milliseconds(300);
  std::vector<engine::Address> addresses;
  for (uint32_t i = 0; i < kStorages; ++i) {
    Storage& storage = storages_.emplace_back();
    storage.loop = std::make_unique<sim::SimLoop>(world);
    storage.target = std::make_unique<store::FakeTarget>(*storage.loop);
    addresses.push_back({broken.targets_apart ? kTargetsNode : kNamesNode, i});
  }
  if (broken.targets_apart) apart_ = serve_targets(kTargetsNode);
  chains_ = inodes::ChainAddresses::dense(addresses);
  names_ = std::make_unique<NamesProcess>(*this);
  for (uint32_t i = 1; i <= agents; ++i) {
    agents_.push_back(std::make_unique<AgentProcess>(*this, NodeId(i)));
  }
}

Processes::~Processes() = default;

void Processes::start() {
  const Status started = names_->start();
  ASSERT(started.ok());
  for (const auto& agent : agents_) ASSERT(agent->start().ok());
}

void Processes::stop() {
  for (const auto& agent : agents_) agent->stop();
  names_->stop();
  for (ServedTarget& served : apart_) served.net->kill();
  world.run_for(seconds(1));
  apart_.clear();
}

Process& Processes::process(size_t i) {
  if (i == agents_.size()) return *names_;
  return *agents_[i];
}

size_t Processes::chunk_count() const {
  size_t count = 0;
  for (const Storage& storage : storages_) count += storage.target->chunks.size();
  return count;
}

std::string Processes::chunks_left() const {
  std::string text;
  for (const Storage& storage : storages_) {
    for (const auto& [id, bytes] : storage.target->chunks) {
      text += " " + std::to_string(id.inode.value) + ":" + std::to_string(id.index) + "(" +
              std::to_string(bytes.size()) + ")";
    }
  }
  return text;
}

std::string Processes::describe() {
  std::string text;
  for (size_t i = 0; i < count(); ++i) text += process(i).describe() + "\n";
  return text;
}

}  // namespace penstock::client
