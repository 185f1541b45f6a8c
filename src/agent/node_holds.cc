#include "node_holds.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace penstock::agent {

using holds::AgentId;

namespace {

// What a node that is restricted has to show, until a thread has done that.
struct Show : ListNode {
  InodeId inode;
  std::function<void(Status)> done;
};

holds_net::Judgement judgement_of(meta_net::NodeRights& rights, AgentId agent, InodeId inode,
                                  holds::Hold hold) {
  using May = meta_net::NodeRights::May;
  using Is = holds_net::Judgement::Is;
  const auto found =
      rights.may_hold(agent.node, agent.session, inode, hold == holds::Hold::exclusive);
  const Is is = found.may == May::yes       ? Is::allowed
                : found.may == May::unknown ? Is::unknown
                                            : Is::only_reads;
  return {is, found.inode};
}

}  // namespace

void NodeHolds::Keepings::drop_names(InodeId inode, std::vector<std::string> names,
                                     std::function<void()> done) {
  kept_names::KeptNames* const kept = names_.load(std::memory_order_acquire);
  if (kept != nullptr) kept->drop_names(inode, names);
  holds::Keeping* const to = to_.load(std::memory_order_acquire);
  to == nullptr ? done() : to->drop_names(inode, std::move(names), std::move(done));
}

void NodeHolds::Keepings::drop(InodeId inode, holds::Hold leave, std::function<void()> done) {
  kept_names::KeptNames* const kept = names_.load(std::memory_order_acquire);
  if (kept != nullptr && leave == holds::Hold::none) kept->drop(inode);
  holds::Keeping* const to = to_.load(std::memory_order_acquire);
  to == nullptr ? done() : to->drop(inode, leave, std::move(done));
}

void NodeHolds::Keepings::settle(InodeId inode, std::function<void()> done) {
  holds::Keeping* const to = to_.load(std::memory_order_acquire);
  to == nullptr ? done() : to->settle(inode, std::move(done));
}

void NodeHolds::Keepings::drop_all(bool is_lost, std::function<void()> done) {
  kept_names::KeptNames* const kept = names_.load(std::memory_order_acquire);
  if (kept != nullptr) kept->drop_all();
  holds::Keeping* const to = to_.load(std::memory_order_acquire);
  to == nullptr ? done() : to->drop_all(is_lost, std::move(done));
}

Outcome<std::unique_ptr<NodeHolds>> NodeHolds::start(const Config& config) {
  ASSERT(config.participant != nullptr && config.loop != nullptr && config.names);
  std::unique_ptr<NodeHolds> all(new NodeHolds(config));
  if (config.kv != nullptr) TRY(all->start_service());
  if (config.show) {
    all->shows_ = std::make_unique<engine::WorkerPool>(
        engine::WorkerOptions{.name = "penstock-shows", .count_max = limits::kShowThreads},
        [show = config.show](ListNode& item) {
          const std::unique_ptr<Show> job(static_cast<Show*>(&item));
          job->done(show(job->inode));
        });
  }
  all->start_agent();
  return all;
}

void NodeHolds::in_loop(const std::function<void(engine::Op& done)>& start) const {
  (void)engine::thread_caller().call(*config_.loop, start);
}

Outcome<void> NodeHolds::start_service() {
  holds_net::HoldsServiceConfig service;
  service.loop = config_.loop;
  service.net = &config_.participant->nodes_net(0);
  service.address = {config_.participant->self(), wire::kHoldsService};
  service.kv = config_.kv;
  service.fence = [this](AgentId agent, const std::function<void()>& done) { fence(agent, done); };
  service.settle = [this](AgentId agent, const std::vector<InodeId>& exclusives,
                          const std::function<void()>& done) {
    settlements_.add(agent, exclusives, done);
  };
  service.unused = [this](InodeId) {
    const std::lock_guard lock(mutex_);
    if (files_ != nullptr) files_->unused_elsewhere();
  };
  service.answers_until = config_.answers_until;
  if (meta_net::NodeRights* const rights = config_.rights; rights != nullptr) {
    service.judge = [rights](AgentId agent, InodeId inode, holds::Hold hold) {
      return judgement_of(*rights, agent, inode, hold);
    };
    service.is_restricted = [rights](NodeId node) { return rights->limits(node); };
  }
  service.gone = [this](AgentId agent) { locks_service_->gone(agent); };
  TRY_ASSIGN(service_, holds_net::HoldsService::open(service));
  guard_ = std::make_unique<kept_names::NamesGuard>(*service_);
  make_locks_service();
  in_loop([this](engine::Op& done) {
    locks_service_->start();
    service_->start();
    config_.loop->complete(done, Code::ok);
  });
  return {};
}

void NodeHolds::make_locks_service() {
  locks_net::LocksServiceConfig service;
  service.loop = config_.loop;
  service.net = &config_.participant->nodes_net(0);
  service.address = {config_.participant->self(), locks_net::kLocksService};
  service.life = service_->life();
  service.before = service_->sessions_before();
  service.is_good = [this](AgentId agent) { return service_->is_good(agent); };
  service.may_answer = [this] { return may_answer(); };
  service.awaits_claims = [this] { return service_->is_claiming(); };
  service.expel = [this](NodeId node) { service_->expel(node); };
  if (meta_net::NodeRights* const rights = config_.rights; rights != nullptr) {
    service.judge = [rights](AgentId agent, const locks::Wanted& wanted) {
      const bool writes =
          wanted.owner.kind == locks::Kind::range && wanted.type == locks::Type::write;
      return rights->may_lock(agent.node, agent.session, wanted.inode, writes);
    };
    service.is_restricted = [rights](NodeId node) { return rights->limits(node); };
  }
  locks_service_ = locks_net::LocksService::make(std::move(service));
}

// In the loop. As the holds do, so that a process that was replaced gives no locks.
bool NodeHolds::may_answer() const {
  if (!config_.answers_until) return true;
  const engine::Time now = config_.loop->clock().lease_now();
  return config_.answers_until() >= now + holds::limits::kAgentLease;
}

void NodeHolds::start_agent() {
  holds_net::HoldsAgentConfig agent;
  agent.loop = config_.loop;
  agent.net = &config_.participant->nodes_net(0);
  agent.node = config_.participant->self();
  agent.find = [this] { return engine::Address{config_.names(), wire::kHoldsService}; };
  agent.keeping = &keepings_;
  agent.session_changes = [this](AgentId session) {
    locks_agent_->begins(session);
    config_.participant->set_session(session.session);
    session_.store(session.session, std::memory_order_release);
  };
  if (config_.show) {
    agent.show = [this](InodeId inode, std::function<void(Status)> done) {
      show_later(inode, std::move(done));
    };
  }
  agent_ = holds_net::HoldsAgent::make(agent);
  make_locks_agent();
  in_loop([this](engine::Op& done) {
    agent_->start();
    locks_agent_->start();
    config_.loop->complete(done, Code::ok);
  });
}

kept_names::KeptNames& NodeHolds::names(meta::Meta& meta, std::function<bool()> is_off) {
  ASSERT((guard_ != nullptr) == (service_ != nullptr) && files_ == nullptr);
  ASSERT(kept_ == nullptr && agent_ != nullptr);
  meta::Meta* changing = &meta;
  if (guard_ != nullptr) {
    guarded_ = std::make_unique<kept_names::GuardedNames>(meta, *guard_,
                                                          [this] { return agent_->session(); });
    changing = guarded_.get();
  }
  kept_ = std::make_unique<kept_names::KeptNames>(
      *changing,
      kept_names::KeptNamesConfig{
          .holding = agent_.get(), .clock = &engine::system_clock(), .is_off = std::move(is_off)});
  keepings_.attach(kept_.get());
  return *kept_;
}

void NodeHolds::hurry() {
  if (guard_ != nullptr) guard_->stop();
}

void NodeHolds::make_locks_agent() {
  ASSERT(agent_ != nullptr && locks_agent_ == nullptr);
  locks_net::LocksAgentConfig agent;
  agent.loop = config_.loop;
  agent.net = &config_.participant->nodes_net(0);
  agent.node = config_.participant->self();
  agent.find = [this] { return engine::Address{config_.names(), locks_net::kLocksService}; };
  agent.standing = [this]() -> locks_net::Standing {
    const holds_net::HoldsAgent::Standing standing = agent_->standing();
    return {standing.session, standing.life, standing.has_begun, standing.is_leased};
  };
  if (config_.show) {
    agent.show = [this](InodeId inode, std::function<void(Status)> done) {
      show_later(inode, std::move(done));
    };
  }
  locks_agent_ = locks_net::LocksAgent::make(std::move(agent));
}

void NodeHolds::show_later(InodeId inode, std::function<void(Status)> done) {
  auto job = std::make_unique<Show>();
  job->inode = inode;
  job->done = std::move(done);
  // After the end nobody waits for it any more.
  if (shows_->submit(*job).ok()) static_cast<void>(job.release());  // the pool's now
}

// With the lock.
bool NodeHolds::is_past_fenced() {
  const std::vector<AgentId> inherited = service_->inherited();
  return std::all_of(inherited.begin(), inherited.end(),
                     [this](AgentId agent) { return settlements_.has(agent); });
}

// Who was there before says what it has, or its lease ends; what is over is fenced. Only then it
// is known which files nobody has.
Outcome<void> NodeHolds::await_past() {
  if (service_ == nullptr) return {};
  const engine::Clock& clock = engine::system_clock();
  const engine::Time deadline = clock.now() + limits::kSessionsEnd;
  std::unique_lock lock(mutex_);
  while (!is_past_fenced() || !agent_->is_ready()) {
    if (clock.now() >= deadline) {
      return Failure{Code::timed_out,
                     fmt::format("the sessions of agents that are over could not be ended: a "
                                 "storage node that holds a lease does not take the cluster's map "
                                 "('penstock nodes' on it, or end its process, and start again)")};
    }
    wake_.wait_for(lock, limits::kSessionsLook, [] { return false; });
  }
  return {};
}

bool NodeHolds::is_good(NodeId node, uint64_t session) {
  const std::lock_guard lock(mutex_);
  return service_ != nullptr && service_->is_good({node, session});
}

bool NodeHolds::has_session(NodeId node) {
  const std::lock_guard lock(mutex_);
  return service_ != nullptr && service_->has_session(node);
}

void NodeHolds::attach(client::FileSystem& files) {
  keepings_.attach(&files.keeping());
  {
    const std::lock_guard lock(mutex_);
    ASSERT(files_ == nullptr && !is_stopping_);
    files_ = &files;
  }
  if (service_ == nullptr) return;
  settlements_.begin([&files](InodeId inode) {
    return inode == InodeId() ? files.settle_all_lost() : files.settle_lost(inode);
  });
}

// False: the node is to stop.
bool NodeHolds::pause() {
  std::unique_lock lock(mutex_);
  return !wake_.wait_for(lock, limits::kFenceAgain, [this] { return is_stopping_; });
}

// Without an answer: nothing is wanted any more.
void NodeHolds::fence(AgentId agent, const std::function<void()>& done) {
  while (true) {
    const Outcome<void> fenced =
        config_.participant->fence(agent.node, agent.session + 1, limits::kFenceTime);
    if (fenced) break;
    log::warning("session {} of node {} is over, and could not be fenced yet: {}", agent.session,
                 agent.node.value, fenced.error().message);
    if (!pause()) return;
  }
  if (config_.let_end) config_.let_end();
  done();
}

void NodeHolds::stop() {
  if (std::exchange(is_stopped_, true)) return;
  hurry();
  if (agent_ != nullptr) {
    in_loop([this](engine::Op& done) { locks_agent_->close(done); });
    in_loop([this](engine::Op& done) { agent_->close(done); });
  }
  if (shows_ != nullptr) {
    shows_->stop([](ListNode& item) {
      const std::unique_ptr<Show> job(static_cast<Show*>(&item));
      job->done(Code::closed);
    });
  }
  keepings_.attach(static_cast<holds::Keeping*>(nullptr));
  keepings_.attach(static_cast<kept_names::KeptNames*>(nullptr));
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    files_ = nullptr;
  }
  wake_.notify_all();
  settlements_.stop();
  if (service_ != nullptr) {
    in_loop([this](engine::Op& done) { locks_service_->stop(done); });
    in_loop([this](engine::Op& done) { service_->stop(done); });
  }
  locks_agent_.reset();
  agent_.reset();
  locks_service_.reset();
  // Loops may still ask for it, of calls by others to own chains.
  std::unique_ptr<holds_net::HoldsService> service;
  {
    const std::lock_guard lock(mutex_);
    service = std::move(service_);
  }
}

}  // namespace penstock::agent
