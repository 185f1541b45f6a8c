#include "penstock/cluster/participant.h"

#include "participant_impl.h"

#include <algorithm>
#include <fmt/format.h>

namespace penstock::cluster {

using membership::Answer;

Outcome<void> ParticipantImpl::open() {
  ASSERT(!opened_ && !parts_.empty());
  opened_ = true;
  begin_checks();
  TRY(open_doors());
  (void)caller().call(loop(), [&](engine::Op& done) {
    const std::lock_guard lock(member_mutex_);
    member_ = membership::Member::make({asks(), admitted_, this, &chains_});
    member_->start();
    loop().complete(done, Code::ok);
  });
  TRY(open_targets());
  TRY(await_map());
  (void)caller().call(loop(), [this](engine::Op& done) {
    looks_ = true;
    look_timer_.owner = this;
    look_timer_.completion = [](engine::Op& op) {
      op.owner_as<ParticipantImpl>().look_at_targets();
    };
    look_at_targets();
    loop().complete(done, Code::ok);
  });
  is_new_ = false;
  if (identity_) start_renewing();
  return {};
}

Outcome<void> ParticipantImpl::open_doors() {
  Outcome<void> listening;
  (void)caller().call(loop(), [&](engine::Op& done) {
    parts_.front()->tcp->serve(introduction_address(), introductions_->service());
    introduces_ = true;
    for (size_t i = 0; i < kept_.listen.size() && listening; ++i) {
      auto door = tcp::TcpListener::listen(*network_, *parts_.front()->tcp, listen_address(i));
      if (door) {
        doors_.push_back(std::move(*door));
      } else {
        listening = door.error();
      }
    }
    loop().complete(done, Code::ok);
  });
  return listening;
}

// One that the cluster does not take keeps no other from serving.
Outcome<void> ParticipantImpl::open_targets() {
  size_t opened = 0;
  std::optional<Failure> first;
  for (const auto& part : parts_) {
    if (part->shard.target == nullptr) continue;
    const Outcome<void> open = open_target(*part);
    if (open) {
      ++opened;
      continue;
    }
    part->trouble = open.error().message;
    if (!first) first = open.error();
  }
  if (first && opened == 0) return *first;
  return {};
}

// With the first map all tables are known.
Outcome<void> ParticipantImpl::await_map() {
  const engine::Time deadline = engine::system_clock().now() + limits::kEnterTime;
  while (map().version() == controller::MapVersion()) {
    if (engine::system_clock().now() >= deadline) {
      return Failure{Code::timed_out, fmt::format("{}: the controller at {} does not tell what the "
                                                  "cluster has",
                                                  config_.directory, kept_.controller)};
    }
    wait(caller(), loop(), limits::kEnterPause);
  }
  return {};
}

// The member asks for as long as it takes; a process that starts does not wait for ever.
Outcome<membership::TargetIdentity> ParticipantImpl::ask_for_identity(const Part& part) {
  using Said = std::optional<Outcome<membership::TargetIdentity>>;
  const auto answer = std::make_shared<Said>();  // of the first loop; it may come too late
  (void)caller().call(loop(), [&](engine::Op& done) {
    member_->open(
        {.uuid = part.kept.uuid,
         .held = part.kept.incarnation,
         .capacity_bytes = part.shard.capacity_bytes},
        [answer](Outcome<membership::TargetIdentity> said) { *answer = std::move(said); });
    loop().complete(done, Code::ok);
  });
  const engine::Time deadline = engine::system_clock().now() + limits::kEnterTime;
  while (engine::system_clock().now() < deadline) {
    Said said;
    (void)caller().call(loop(), [&](engine::Op& done) {
      said = *answer;
      loop().complete(done, Code::ok);
    });
    if (said) return std::move(*said);
    wait(caller(), loop(), limits::kOpenLook);
  }
  return Failure{Code::timed_out, "the controller at " + kept_.controller + " does not answer"};
}

Outcome<void> ParticipantImpl::open_target(Part& part) {
  const Outcome<membership::TargetIdentity> said = ask_for_identity(part);
  if (!said) {
    return Failure{said.error().status,
                   fmt::format("{}: the cluster does not take it: {}", part.shard.target_directory,
                               said.error().message)};
  }
  const membership::TargetIdentity identity = *said;
  if (identity.id == TargetId() || identity.incarnation <= part.kept.incarnation) {
    return Failure{Code::bad_message, part.shard.target_directory +
                                          ": the controller gives it an incarnation that it has "
                                          "had (were its records taken from an earlier time?)"};
  }
  part.kept.incarnation = identity.incarnation;
  TRY(keep(part.shard.target_directory, part.kept));
  engine::Loop& its = *part.shard.loop;
  (void)caller().call(its, [&](engine::Op& done) {
    part.buffers->tell([&part](MutableBytes memory) { part.rails->announce({memory}); },
                       [&part](MutableBytes memory) { part.rails->take_back(memory); });
    part.host = chain::Host::make({.target = identity.id,
                                   .incarnation = identity.incarnation.value,
                                   .loop = &its,
                                   .net = part.rails.get(),
                                   .store = &part.shard.target->chains(),
                                   .buffers = part.buffers,
                                   .judge = &verifier_,
                                   .report = [this, id = identity.id](const chain::Report& report) {
                                     const std::lock_guard lock(member_mutex_);
                                     if (member_ != nullptr) member_->report(id, report);
                                   }});
    part.rails->serve(membership::replica_address(kept_.node, identity.id), part.host->service());
    its.complete(done, Code::ok);
  });
  (void)caller().call(loop(), [&](engine::Op& done) {
    part.target = identity.id;
    member_->serve(identity);
    loop().complete(done, Code::ok);
  });
  return {};
}

ParticipantImpl::~ParticipantImpl() {
  leave();
  undo();
}

// In the first loop. Who has no lease asks the first node where else it may be: what is connected
// now may be stopped, or cut off from what it needs (decision 0069).
void ParticipantImpl::look_at_lease() {
  if (!firsts_to_keep_.empty()) keep_first();
  lease_known_until_.store(lease_until(), std::memory_order_release);
  if (is_first() || has_lease()) {
    looks_without_lease_ = 0;
    return;
  }
  if (++looks_without_lease_ < limits::kLooksWithoutLease) return;
  looks_without_lease_ = 0;
  if (addresses_.turn(kFirstNode)) expel(kFirstNode);
}

// In the first loop.
void ParticipantImpl::learn_first(const controller::Node& node) {
  const controller::NodeIncarnation before = std::exchange(first_incarnation_, node.incarnation);
  if (is_first()) return;
  // What is connected to the one before answers nothing any more.
  if (before != controller::NodeIncarnation() && before != node.incarnation) expel(kFirstNode);
  firsts_to_keep_.clear();
  for (const tcp::SocketAddress& one : addresses_.told_of(kFirstNode)) {
    firsts_to_keep_.push_back(one.text());
  }
  if (firsts_to_keep_ == kept_firsts_) firsts_to_keep_.clear();
  if (!firsts_to_keep_.empty()) keep_first();
}

// Not in the loop, as a disk may hang: what changes meanwhile is written later.
void ParticipantImpl::keep_first() {
  ASSERT(!firsts_to_keep_.empty() && !is_first());
  if (is_keeping_.exchange(true)) return;
  if (keeping_thread_.joinable()) keeping_thread_.join();
  kept_firsts_ = std::exchange(firsts_to_keep_, {});
  KeptNode kept = kept_;
  kept.controller = kept_firsts_.front();
  kept.others.assign(kept_firsts_.begin() + 1, kept_firsts_.end());
  keeping_thread_ = engine::Thread("keeping", [this, kept] {
    const auto written = keep(config_.directory, kept);
    if (!written) log::warning("{}", written.error().message);
    is_keeping_.store(false);
  });
}

// In the first loop. One that is still under way is not begun again.
void ParticipantImpl::look_at_targets() {
  if (!looks_) return;
  look_at_lease();
  if (looks_under_way_ == 0) {
    looks_free_.clear();
    for (const auto& part : parts_) {
      if (part->target == TargetId()) continue;
      auto& look = *looks_free_.emplace_back(std::make_unique<Look>());
      look.part = part.get();
      look.owner = this;
      look.completion = [](engine::Op& op) {
        op.owner_as<ParticipantImpl>().on_look(static_cast<Look&>(op));
      };
      ++looks_under_way_;
      part->shard.loop->complete_remote(look, Code::ok);
    }
  }
  loop().start(look_timer_, loop().now() + limits::kLookAtTargets);
}

// In the target's loop, and then in the first one.
void ParticipantImpl::on_look(Look& look) {
  if (!std::exchange(look.is_back, true)) {
    const store::TargetStatus status = look.part->shard.target->status();
    look.condition = {status.failed, status.full, status.used_bytes};
    return loop().complete_remote(look, Code::ok);
  }
  ASSERT(looks_under_way_ > 0);
  --looks_under_way_;
  if (member_ != nullptr) member_->set_condition(look.part->target, look.condition);
}

void ParticipantImpl::stop_looking() {
  size_t left = 1;
  for (bool first = true; left > 0; first = false) {
    if (!first) wait(caller(), loop(), limits::kOpenLook);
    (void)caller().call(loop(), [&](engine::Op& done) {
      if (std::exchange(looks_, false)) (void)loop().cancel(look_timer_);
      left = looks_under_way_;
      loop().complete(done, Code::ok);
    });
  }
}

void ParticipantImpl::leave() {
  if (parts_.empty() || std::exchange(left_, true)) return;
  stop_renewing();
  stop_looking();
  stop_checks();
  if (member_ != nullptr) {
    (void)caller().call(loop(), [this](engine::Op& done) { member_->leave(done); });
  }
  (void)caller().call(loop(), [this](engine::Op& done) {
    doors_.clear();
    const std::lock_guard lock(member_mutex_);
    member_.reset();
    loop().complete(done, Code::ok);
  });
  if (std::exchange(service_runs_, false)) {
    (void)caller().call(loop(), [this](engine::Op& done) { service_->stop(done); });
  }
  if (std::exchange(introduces_, false)) {
    (void)caller().call(loop(), [this](engine::Op& done) {
      parts_.front()->tcp->withdraw(introduction_address());
      introductions_->stop(done);
    });
  }
  // The first one last: others may have something on the way to it.
  for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) close_part(**part);
  end_checks();
  if (keeping_thread_.joinable()) keeping_thread_.join();
  // Their loops may still be on the way out of what has just ended; who owns them ends them now.
}

void ParticipantImpl::close_part(Part& part) {
  engine::Loop& its = *part.shard.loop;
  (void)caller().call(its, [&](engine::Op& done) {
    if (part.tcp == nullptr) return its.complete(done, Code::ok);
    if (part.host == nullptr) {
      part.tcp->close();
      part.rails->close();
      return its.complete(done, Code::ok);
    }
    part.rails->withdraw(membership::replica_address(kept_.node, part.target));
    part.host->close(done);
    part.tcp->close();
    part.rails->close();
  });
  (void)caller().call(its, [&](engine::Op& done) {
    part.host.reset();
    part.buffers->tell_nobody();
    its.complete(done, Code::ok);
  });
}

void ParticipantImpl::refresh() {
  const std::lock_guard lock(member_mutex_);
  if (member_ != nullptr) member_->refresh();
}

void ParticipantImpl::map_changed(const membership::ClusterMap& map,
                                  const membership::MapChanges& changes) {
  for (const NodeId id : changes.nodes) {
    const controller::Node* const node = map.find(id);
    if (node == nullptr) continue;
    addresses_.learn(*node);
    if (id == kFirstNode) learn_first(*node);
    if (node->standing == controller::Standing::removed) expel(id);
  }
  if (!changes.signing_keys.empty()) verifier_.take(map);
  for (const NodeId id : changes.restrictions) {
    const controller::Restricted& restricted = map.restrictions().at(id);
    const std::lock_guard lock(restrictions_mutex_);
    if (restricted.what.is_nothing()) {
      restrictions_.erase(id);
    } else {
      restrictions_[id] = std::make_shared<const controller::Restricted>(restricted);
    }
  }
  for (const NodeId id : changes.restrictions) {
    const uint64_t changed = map.restrictions().at(id).changed.value;
    // Pairs with the acquire in judged(): what it says is there to be looked up.
    if (changed > restricted_at_.load(std::memory_order_relaxed)) {
      restricted_at_.store(changed, std::memory_order_release);
    }
  }
  for (const controller::TableId id : changes.tables) {
    const controller::Table* const table = map.find(id);
    if (table != nullptr && config_.table_known) config_.table_known(*table);
  }
}

std::shared_ptr<const controller::Restricted> ParticipantImpl::restriction_of(NodeId node) {
  const std::lock_guard lock(restrictions_mutex_);
  const auto found = restrictions_.find(node);
  return found == restrictions_.end() ? nullptr : found->second;
}

bool ParticipantImpl::has_lease() {
  return loop().clock().lease_now() < lease_until();
}

engine::Time ParticipantImpl::lease_until() {
  return member_ == nullptr ? engine::Time{} : member_->lease_until();
}

bool ParticipantImpl::may_act() {
  const engine::Clock& clock = engine::system_clock();
  if (clock.lease_now() < lease_known_until_.load(std::memory_order_acquire)) return true;
  bool may = false;
  (void)caller().call(loop(), [&](engine::Op& done) {
    may = has_lease();
    lease_known_until_.store(lease_until(), std::memory_order_release);
    loop().complete(done, Code::ok);
  });
  return may;
}

void ParticipantImpl::set_standbys(const std::vector<std::string>& addresses) {
  ASSERT(is_first() && opened_);
  (void)caller().call(loop(), [&](engine::Op& done) {
    if (standbys_ == addresses || !service_runs_) return loop().complete(done, Code::ok);
    standbys_ = addresses;
    // The same process, with other facts; a controller that does not lead just now is told again.
    service_->admit(join_request(), [this, &done](const Answer& said) {
      if (!std::holds_alternative<membership::Admitted>(said)) standbys_.clear();
      loop().complete(done, Code::ok);
    });
  });
}

void ParticipantImpl::give(TargetId target, membership::Orders orders, engine::Op& done) {
  const auto part = std::find_if(parts_.begin(), parts_.end(),
                                 [&](const auto& one) { return one->target == target; });
  ASSERT(part != parts_.end() && target != TargetId());
  auto delivery = std::make_unique<Delivery>();
  delivery->part = part->get();
  delivery->orders = std::move(orders);
  delivery->home = &loop();
  delivery->done = &done;
  delivery->completion = [](engine::Op& op) {
    const std::unique_ptr<Delivery> self(&static_cast<Delivery&>(op));
    if (chain::Host* const host = self->part->host.get()) {
      for (const wire::AgentSession& lowest : self->orders.lowest) host->fence(lowest);
      for (const chain::Restricted& one : self->orders.restricted) host->restrict(one);
      for (const chain::View& view : self->orders.views) host->adopt(view);
      for (const ChainId chain : self->orders.others) host->leave(chain);
      if (self->orders.lease_until) host->lease(*self->orders.lease_until);
    }
    self->home->complete_remote(*self->done, Code::ok);
  };
  engine::Loop& its = *(*part)->shard.loop;
  its.complete_remote(*delivery.release(), Code::ok);
}

void ParticipantImpl::refused(Code, const std::string& reason) {
  log::error("{}: the cluster does not have this node any more: {}", config_.directory, reason);
  if (config_.refused) config_.refused(reason);
}

Outcome<Answer> ParticipantImpl::ask(membership::Request request) {
  return ask(std::move(request), limits::kAskTime);
}

Outcome<Answer> ParticipantImpl::ask(membership::Request request, engine::Duration time) {
  ASSERT(opened_);
  membership::AskOp op;
  op.config = asks();
  op.request = std::move(request);
  op.deadline = engine::system_clock().now() + time;
  const Status status = run_and_wait(caller(), loop(), op, membership::ask);
  if (!status.ok()) {
    const std::string next = is_first() ? "" : "; " + where_it_may_be();
    return Failure{status,
                   fmt::format("the controller at {} does not answer: {} (is its node up?){}",
                               kept_.controller, status.name(), next)};
  }
  if (const auto* refused = std::get_if<controller::Refused>(&op.answer)) {
    return Failure{refused->code, refused->reason};
  }
  return std::move(op.answer);
}

void ParticipantImpl::set_session(uint64_t number) {
  const wire::AgentSession session{number == 0 ? NodeId() : kept_.node, number};
  // Pairs with the acquire of the clients' calls.
  session_.store(session.word(), std::memory_order_release);
}

Outcome<void> ParticipantImpl::fence(NodeId node, uint64_t lowest, engine::Duration time) {
  const Outcome<Answer> answer = ask(controller::Fence{node, lowest}, time);
  if (!answer && answer.error().status == Code::busy) {
    return Failure{Code::timed_out,
                   fmt::format("fence node {}: some targets may not know of it yet; it is in force "
                               "when they do, or have no lease any more",
                               node.value)};
  }
  if (!answer) return answer.error();
  if (std::holds_alternative<membership::Done>(*answer)) return {};
  return Failure{Code::bad_message, "fence: the controller answers otherwise"};
}

engine::DiskSpace ParticipantImpl::space() {
  {
    const std::lock_guard lock(space_mutex_);
    const engine::Time now = engine::system_clock().now();
    if (space_asked_ && now - *space_asked_ < limits::kSpaceAge) return space_;
    space_asked_ = now;
  }
  const auto space = ask_for_space();
  const std::lock_guard lock(space_mutex_);
  if (space) space_ = *space;
  return space_;
}

Outcome<engine::DiskSpace> ParticipantImpl::ask_for_space() {
  const membership::ClusterMap known = map();
  engine::DiskSpace space;
  for (NodeId from(1);;) {
    TRY_ASSIGN(const Answer answer, ask(membership::AskNodes{from}, limits::kSpaceAskTime));
    const auto* const piece = std::get_if<membership::NodesPiece>(&answer);
    if (piece == nullptr) return Failure{Code::bad_message, "the controller answers otherwise"};
    for (const membership::NodeSeen& node : piece->nodes) {
      for (const membership::NodeSeen::OfTarget& of : node.targets) {
        const controller::Target* const target = known.find(of.id);
        if (target == nullptr || !of.up) continue;
        const uint64_t all = target->capacity_bytes;
        space.total_bytes += all;
        if (!of.failing && !of.full) space.free_bytes += all - std::min(all, of.used_bytes);
      }
    }
    if (piece->last || piece->nodes.empty()) return space;
    from = NodeId(piece->nodes.back().id.value + 1);
  }
}

membership::ClusterMap ParticipantImpl::map() {
  membership::ClusterMap map;
  (void)caller().call(loop(), [&](engine::Op& done) {
    map = member_->map();
    loop().complete(done, Code::ok);
  });
  return map;
}

// In the loop of the target, which the part has.
ParticipantStatus::Target ParticipantImpl::status_of(const Part& part) {
  ParticipantStatus::Target target;
  target.directory = part.shard.target_directory;
  const store::TargetStatus store = part.shard.target->status();
  target.capacity_bytes = store.capacity_bytes;
  target.used_bytes = store.used_bytes;
  if (part.host == nullptr) {
    target.trouble = part.trouble;
    return target;
  }
  target.id = part.target;
  const chain::Host::Status host = part.host->status();
  target.pending = host.pending;
  target.waiting = host.waiting;
  return target;
}

ParticipantStatus ParticipantImpl::status() {
  ParticipantStatus status;
  status.node = kept_.node;
  status.roles = kept_.roles;
  status.listen = fmt::format("{}", fmt::join(kept_.listen, " "));
  status.insecure = config_.insecure;
  status.without_rdma = without_rdma_;
  if (!status.insecure) status.certificate_ends = identity().certificate->ends();
  const std::vector<tcp::SocketAddress> firsts = addresses_.told_of(kFirstNode);
  status.invitation = {kept_.cluster, firsts.empty() ? *tcp::SocketAddress::parse(kept_.controller)
                                                     : firsts.front()};
  (void)caller().call(loop(), [&](engine::Op& done) {
    status.applied = member_->applied();
    const engine::Duration left = member_->lease_until() - loop().clock().lease_now();
    if (left > engine::Duration::zero()) status.lease_left = left;
    if (service_ != nullptr) status.leads = service_->status().leads;
    loop().complete(done, Code::ok);
  });
  for (const auto& part : parts_) {
    engine::Loop& its = *part->shard.loop;
    (void)caller().call(its, [&](engine::Op& done) {
      if (part->shard.target != nullptr) status.targets.push_back(status_of(*part));
      for (tcp::PeerFacts& peer : part->tcp->peers()) status.peers.push_back(std::move(peer));
      for (rails::RailFacts& rail : part->rails->facts()) status.rails.push_back(std::move(rail));
      its.complete(done, Code::ok);
    });
  }
  const membership::ClusterMap known = map();
  for (ParticipantStatus::Target& target : status.targets) {
    if (target.id != TargetId()) target.chains = known.chains_of(target.id).size();
  }
  return status;
}

}  // namespace penstock::cluster
