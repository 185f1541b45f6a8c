// How a process gets into its cluster.
#include "participant_impl.h"

#include <chrono>
#include <cstring>
#include <fmt/format.h>
#include <unistd.h>

namespace penstock::cluster {

using membership::Admitted;
using membership::Answer;

namespace {

// What whoever serves that has to prove.
uint8_t role_to_serve(uint32_t service) {
  if (service == probe::kService) return 0;  // every node's
  const bool is_of_names = service == wire::kMetaService || service == wire::kHoldsService ||
                           service == wire::kLocksService;
  if (is_of_names) return engine::kRoleMeta;
  const bool is_controllers = service == wire::kControllerService || service == wire::kGuestService;
  return is_controllers ? engine::kRoleController : engine::kRoleStorage;
}

// Calls to a controller are few, and those of guests prove nothing.
bool may_go_by_rdma(uint32_t service) {
  static_assert(wire::kLastReplicaService < wire::kLocksService &&
                wire::kLocksService < rails::kIntroductionService);
  const bool is_replica =
      service >= wire::kFirstReplicaService && service <= wire::kLastReplicaService;
  return is_replica || service == probe::kService;
}

}  // namespace

tcp::NetworkConfig ParticipantImpl::network_config(
    NodeId node, std::shared_ptr<const tls::Credentials> credentials) const {
  tcp::NetworkConfig config;
  static_assert(sizeof config.identity.cluster == sizeof kept_.cluster.bytes);
  std::memcpy(config.identity.cluster.data(), kept_.cluster.bytes.data(),
              sizeof config.identity.cluster);
  config.identity.node = node;
  // A later life of the process has a larger one.
  config.identity.incarnation = tcp::Incarnation(static_cast<uint64_t>(
      std::chrono::system_clock::now().time_since_epoch() / std::chrono::microseconds(1)));
  config.identity.lowest_version = wire::kNodeProtocol.lowest;
  config.identity.highest_version = wire::kNodeProtocol.highest;
  config.identity.features = tcp::kFeatures;
  config.resolver = &addresses_;
  config.open_to_guests = wire::kGuestService;
  config.open_to_removed = wire::kControllerService;
  config.credentials = std::move(credentials);
  config.role_to_serve = role_to_serve;
  return config;
}

controller::Join ParticipantImpl::join_request() const {
  controller::Join join;
  join.cluster = kept_.cluster;
  join.node = config_.node;
  join.process = process_;
  join.facts.name = config_.name;
  join.facts.rack = kept_.rack;
  for (const std::string& text : kept_.listen) {
    const auto at = parse_listen(text);
    ASSERT(at);
    join.facts.cards.push_back(card_of(*at));
  }
  join.facts.features = wire::features_of(wire::kNodeProtocol);
  join.facts.roles = kept_.roles;
  for (const std::string& text : standbys_) {
    if (join.facts.cards.size() == controller::limits::kCardsMax) break;
    const auto at = parse_listen(text);
    if (!at) continue;
    join.facts.cards.push_back(card_of(*at));
    join.facts.cards.back().rail = kStandbyRail;
  }
  // Its directory's lock is this process's, and its predecessor had it.
  join.predecessor_ended = is_first() && !config_.predecessor_may_run;
  return join;
}

Outcome<void> ParticipantImpl::enter(std::vector<ParticipantShard> shards, engine::Kv* kv) {
  ASSERT(parts_.empty() && !shards.empty() && (kv != nullptr) == is_first());
  ASSERT(shards.size() <= kShardsMax);
  kv_ = kv;
  for (ParticipantShard& shard : shards) {
    parts_.push_back(std::make_unique<Part>());
    parts_.back()->shard = std::move(shard);
  }
  TRY(keep(config_.directory, kept_));
  TRY(read_targets());
  std::set<uint16_t> rails;
  for (const std::string& text : kept_.listen) rails.insert(parse_listen(text)->rail);
  addresses_.set_rails(std::move(rails));
  std::vector<tcp::SocketAddress> firsts = {*tcp::SocketAddress::parse(kept_.controller)};
  for (const std::string& text : kept_.others) firsts.push_back(*tcp::SocketAddress::parse(text));
  for (const tcp::SocketAddress& one : firsts) kept_firsts_.push_back(one.text());
  addresses_.set(kFirstNode, std::move(firsts));
  TRY(prove());
  if (!is_first()) TRY(join());
  std::shared_ptr<const tls::Credentials> credentials;
  if (identity_) {
    TRY_ASSIGN(credentials, identity().credentials());
  }
  network_ = std::make_unique<tcp::TcpNetwork>(network_config(kept_.node, std::move(credentials)));
  local_network_ = std::make_unique<net::LocalNetwork>(kept_.node);
  TRY(make_nets());
  if (is_first()) TRY(begin_controller(kv));
  make_clients();
  return {};
}

// Of a first start that came to nothing: the directory is of no cluster again. What a cluster has
// given it a number for stays, so that it keeps that.
void ParticipantImpl::undo() {
  if (!is_new_ || parts_.empty() || (!is_first() && kept_.node != NodeId())) return;
  ::unlink((config_.directory + "/" + kKeptNodeName).c_str());
  // The key of a node that asked to join stays: perhaps it was let in, and did not hear of it.
  if (is_first()) forget_identity(config_.directory);
  for (const auto& part : parts_) {
    if (part->is_new) ::unlink((part->shard.target_directory + "/" + kKeptTargetName).c_str());
  }
  if (kv_ == nullptr) return;
  const std::string begin(1, controller::kKeyPrefix);
  const std::string end(1, controller::kKeyPrefix + 1);
  const Status erased = kv_->run(engine::KvMode::write_durable, [&](engine::KvTransaction& of) {
    std::vector<std::string> keys;
    TRY(of.scan(begin, end, [&](std::string_view key, std::string_view) {
      keys.emplace_back(key);
      return true;
    }));
    for (const std::string& key : keys) of.erase(key);
    return Status();
  });
  if (erased.ok()) return;
  log::warning("{}: what the controller that did not begin has written cannot be removed: {}",
               config_.directory, erased.name());
}

Outcome<std::optional<KeptTarget>> ParticipantImpl::read_own_target(
    const std::string& directory) const {
  TRY_ASSIGN(const auto kept, read_kept_target(directory));
  if (!kept) return std::optional<KeptTarget>();
  const auto refused = [&](const char* what, const controller::Uuid& whose) {
    return Failure{Code::invalid_argument,
                   fmt::format("{}: its chunks belong to another {}, {} (give its node another "
                               "directory)",
                               directory, what, text_of(whose))};
  };
  if (kept->cluster != kept_.cluster) return refused("cluster", kept->cluster);
  const bool is_of_other = kept->node != controller::Uuid() && kept->node != config_.node;
  if (is_of_other) return refused("node", kept->node);
  return std::optional(*kept);
}

Outcome<std::optional<controller::Uuid>> ParticipantImpl::target_at(
    const std::string& target_directory) const {
  TRY_ASSIGN(const auto kept, read_own_target(target_directory));
  return kept ? std::optional(kept->uuid) : std::nullopt;
}

Outcome<void> ParticipantImpl::read_targets() {
  for (const auto& part : parts_) {
    if (part->shard.target == nullptr) continue;
    TRY_ASSIGN(const auto kept, read_own_target(part->shard.target_directory));
    part->kept = kept.value_or(KeptTarget{random_uuid(), kept_.cluster, config_.node, {}});
    part->kept.node = config_.node;
    part->is_new = !kept;
    if (!kept) TRY(keep(part->shard.target_directory, part->kept));
  }
  return {};
}

Outcome<void> ParticipantImpl::make_nets() {
  find_devices();
  introductions_ = std::make_unique<rails::Introductions>(loop());
  for (size_t i = 0; i < parts_.size(); ++i) {
    Part& part = *parts_[i];
    const ParticipantShard& shard = part.shard;
    part.local = std::make_unique<net::LocalNet>(*local_network_, *shard.loop);
    TRY_ASSIGN(part.tcp,
               tcp::TcpNet::create(*network_, *shard.loop, *shard.parker, part.local.get()));
    part.rails = rails::RailNet::make({.self = kept_.node,
                                       .tcp = part.tcp.get(),
                                       .introductions = introductions_.get(),
                                       .devices = devices_.get(),
                                       .without = without_rdma_,
                                       .loop_index = i,
                                       .may_go = may_go_by_rdma},
                                      *shard.loop, shard.parker);
    announcements_.add(*shard.loop, *part.rails);
  }
  return {};
}

void ParticipantImpl::find_devices() {
  if (config_.rdma == Rdma::off) {
    without_rdma_ = "it was told to use no RDMA (--rdma off)";
  } else if (config_.devices == nullptr && !(without_rdma_ = rails::why_none()).empty()) {
    return;
  } else if (config_.rdma == Rdma::automatic && !config_.insecure) {
    without_rdma_ =
        "RDMA does not encrypt: where nobody else can send into its fabric, say --rdma trusted";
  } else {
    devices_ = config_.devices != nullptr ? config_.devices : rails::machine_devices();
  }
}

// The first node lets itself in.
Outcome<void> ParticipantImpl::begin_controller(engine::Kv* kv) {
  membership::ControllerServiceConfig config;
  config.loop = &loop();
  config.net = parts_.front()->tcp.get();
  config.node = kFirstNode;
  config.keeper.kv = kv;
  config.keeper.clock = &engine::system_clock();
  config.keeper.process = process_;
  config.keeper.cluster = kept_.cluster;
  // The directory's lock is this process's, and with it the database.
  config.keeper.alone = true;
  config.seed = engine::system_seed();
  config.signer = signer_.get();
  service_ = membership::ControllerService::make(config);
  service_->start();
  service_runs_ = true;
  const engine::Time deadline = engine::system_clock().now() + limits::kEnterTime;
  while (true) {
    Answer answer;
    (void)polling_.call(loop(), [&](engine::Op& done) {
      service_->admit(join_request(), [&](const Answer& said) {
        answer = said;
        loop().complete(done, Code::ok);
      });
    });
    if (const auto* admitted = std::get_if<Admitted>(&answer)) {
      admitted_ = *admitted;
      break;
    }
    const auto* refused = std::get_if<controller::Refused>(&answer);
    ASSERT(refused != nullptr);
    // That one's lease ends.
    const bool is_before = config_.predecessor_may_run && refused->code == Code::in_use;
    const bool may_wait =
        (membership::is_passing(*refused) || is_before) && engine::system_clock().now() < deadline;
    if (!may_wait) {
      return Failure{refused->code,
                     config_.directory + ": the controller does not begin: " + refused->reason};
    }
    wait(polling_, loop(), limits::kEnterPause);
  }
  if (admitted_.admission.node == kFirstNode) return {};
  return Failure{Code::corrupt,
                 fmt::format("{}: the controller's records say that this is node {}; it has to be "
                             "node 1 (is the directory a mixture of two?)",
                             config_.directory, admitted_.admission.node.value)};
}

std::string ParticipantImpl::where_it_may_be() const {
  return fmt::format(
      "if its node is up and has another address now, say so by 'penstock join TOKEN@HOST:PORT "
      "{}', "
      "which 'penstock cluster' prints there; this node keeps what it has",
      config_.directory);
}

std::string ParticipantImpl::what_if_followed() const {
  if (kept_.node == NodeId()) {
    return "; is the token of another cluster, or from before the cluster got another authority? "
           "make another ('penstock token create' on the first node)";
  }
  return fmt::format(
      "; if the cluster got another authority while this node was off, let it join by a token that "
      "names it ('penstock token create --node {}' on the first node)",
      kept_.node.value);
}

// With a net that ends with this, as the process has no number yet, or no loops that run.
Outcome<ParticipantImpl::Joined> ParticipantImpl::ask_to_join(
    NodeId as, std::shared_ptr<const tls::Credentials> credentials,
    std::optional<membership::AskToEnroll> enroll) {
  const Part& first = *parts_.front();
  tcp::NetworkConfig network_of = network_config(as, std::move(credentials));
  network_of.tells_refusals = true;
  tcp::TcpNetwork network(network_of);
  TRY_ASSIGN(const auto net, tcp::TcpNet::create(network, loop(), *first.shard.parker, nullptr));
  membership::JoinOp op;
  const uint32_t service = as == tcp::kGuest ? wire::kGuestService : wire::kControllerService;
  op.config = {&loop(), net.get(), {kFirstNode, service}};
  op.join = join_request();
  op.enroll = std::move(enroll);
  const bool is_first_time = kept_.node == NodeId();
  op.deadline =
      engine::system_clock().now() + (is_first_time ? limits::kFirstEnterTime : limits::kEnterTime);
  const Status status = run_and_wait(polling_, loop(), op, membership::join);
  std::string trouble;
  for (const tcp::PeerFacts& peer : net->peers()) trouble = peer.trouble;
  net->close();
  while (loop().poll()) {
  }
  if (status.ok()) return Joined{op.admitted, std::move(op.papers)};
  std::string why = op.refusal;
  if (why.empty()) why = status.name();
  const bool is_heard = status != Code::timed_out && status != Code::peer_gone;
  if (!trouble.empty()) why += " (" + trouble + ")";
  // One of both does not believe the other: nothing that the controller itself has said.
  const bool is_unproven = identity_ && !trouble.empty() && status == Code::access_denied;
  if (is_unproven) why += what_if_followed();
  if (!is_heard) why += "; " + where_it_may_be();
  return Failure{is_unproven ? Status(Code::stale) : status,
                 fmt::format("{}: the controller at {} did not let this node in: {}",
                             config_.directory, kept_.controller, why)};
}

Outcome<void> ParticipantImpl::join() {
  if (!identity_) {
    TRY_ASSIGN(const Joined joined, ask_to_join(tcp::kGuest, nullptr, std::nullopt));
    TRY(take(joined.admitted));
  } else if (!identity_->certificate || has_token_of_another()) {
    return enroll();
  } else {
    TRY_ASSIGN(const Joined joined, join_by_certificate());
    TRY(take(joined.admitted));
  }
  return keep(config_.directory, kept_);
}

// One that counts no more, as another authority has followed while this node was off, is changed
// for one that does.
Outcome<ParticipantImpl::Joined> ParticipantImpl::join_by_certificate() {
  const auto ask = [this]() -> Outcome<Joined> {
    TRY_ASSIGN(auto credentials, identity_->credentials());
    return ask_to_join(kept_.node, std::move(credentials), std::nullopt);
  };
  auto joined = ask();
  if (joined || joined.error().status != Code::stale) return joined;
  TRY(renew_as_guest());
  log::info("{}: has a certificate by the authority that followed the one that it knew",
            config_.directory);
  return ask();
}

// What the controller has let this process in as: always the same node.
Outcome<void> ParticipantImpl::take(const Admitted& admitted) {
  const NodeId number = admitted.admission.node;
  if (kept_.node != NodeId() && kept_.node != number) {
    return Failure{Code::corrupt, fmt::format("{}: was node {}, and the controller says {}",
                                              config_.directory, kept_.node.value, number.value)};
  }
  admitted_ = admitted;
  kept_.node = number;
  return {};
}

void ParticipantImpl::make_clients() {
  ASSERT(kept_.node != NodeId() && admitted_.admission.node == kept_.node);
  const auto shards = static_cast<uint32_t>(parts_.size());
  static_assert(kShardsMax <= limits::kSlots, "each loop has a request slot at least");
  for (uint32_t i = 0; i < shards; ++i) {
    Part& part = *parts_[i];
    part.chains = chain::ChainNet::make(
        {.loop = part.shard.loop,
         .net = part.rails.get(),
         .chains = &chains_,
         .node = kept_.node,
         .incarnation = admitted_.admission.incarnation.value,
         .rack = kept_.rack,
         .first_slot = i * (limits::kSlots / shards),
         .slots = limits::kSlots / shards,
         .session = [this] { return session_.load(std::memory_order_acquire); },
         .capabilities = &late_source_});
  }
}

namespace {

Failure contradiction(const ParticipantConfig& config, const std::string& why) {
  return {Code::invalid_argument, config.directory + ": " + why};
}

// What a directory that was of no cluster begins with.
Outcome<KeptNode> make_kept(const ParticipantConfig& config) {
  KeptNode kept;
  if (config.listen.empty()) {
    return contradiction(config, "say where this node listens (--listen HOST:PORT)");
  }
  kept.roles = config.roles;
  if (kept.roles == 0) kept.roles = config.invitation ? kJoiningRoles : kAllRoles;
  if (runs_controller(kept.roles) == config.invitation.has_value()) {
    return contradiction(config, config.invitation
                                     ? "the controller is on the first node of the cluster; a node "
                                       "that joins plays meta, agent and storage"
                                     : "the first node of a cluster has the controller (roles "
                                       "without it are for 'penstock join')");
  }
  kept.cluster = config.invitation ? config.invitation->cluster : random_uuid();
  if (config.invitation) kept.controller = config.invitation->controller.text();
  if (!config.invitation) kept.node = kFirstNode;
  return kept;
}

Outcome<void> check_listen(const ParticipantConfig& config, const KeptNode& kept) {
  if (kept.listen.empty() || kept.listen.size() > controller::limits::kCardsMax) {
    return contradiction(
        config, fmt::format("a node listens at 1 to {} places", controller::limits::kCardsMax));
  }
  for (const std::string& text : kept.listen) {
    const auto at = parse_listen(text);
    if (!at) return contradiction(config, at.error().message);
    TRY(check_free(at->address));
  }
  return {};
}

// What the config changes of what was kept.
Outcome<void> update_kept(const ParticipantConfig& config, KeptNode& kept) {
  if (config.invitation && config.invitation->cluster != kept.cluster) {
    return contradiction(config, fmt::format("is of another cluster, {}; a node stays in its own "
                                             "(give an empty or a new directory)",
                                             text_of(kept.cluster)));
  }
  if (config.invitation && runs_controller(kept.roles)) {
    return contradiction(config, "is the first node of its cluster (start it with 'penstock up')");
  }
  if (config.roles != 0 && config.roles != kept.roles) {
    return contradiction(config, fmt::format("was made to play {}, and stays with that (give a new "
                                             "directory for {})",
                                             roles_text(kept.roles), roles_text(config.roles)));
  }
  if (!config.listen.empty()) kept.listen = config.listen;
  if (!config.rack.empty()) kept.rack = config.rack;
  if (kept.rack.size() > controller::limits::kNameBytesMax ||
      kept.rack.find('\n') != std::string::npos) {
    return contradiction(config, "the name of its rack is too long, or not one line");
  }
  TRY(check_listen(config, kept));
  // The controller's node may have another address than it had.
  if (config.invitation) kept.controller = config.invitation->controller.text();
  if (runs_controller(kept.roles)) {
    kept.controller = parse_listen(kept.listen.front())->address.text();
    kept.others.clear();
  }
  return {};
}

}  // namespace

Outcome<uint8_t> Participant::roles_of(const std::string& directory) {
  TRY_ASSIGN(const auto kept, read_kept_node(directory));
  return kept ? kept->roles : uint8_t{0};
}

Outcome<std::vector<std::string>> Participant::listen_of(const std::string& directory) {
  TRY_ASSIGN(const auto kept, read_kept_node(directory));
  return kept ? kept->listen : std::vector<std::string>();
}

Outcome<bool> Participant::was_let_in(const std::string& directory) {
  TRY_ASSIGN(const auto kept, read_kept_node(directory));
  return kept && kept->node != NodeId();
}

Outcome<std::unique_ptr<Participant>> Participant::prepare(ParticipantConfig config) {
  ASSERT(config.node != controller::Uuid());
  TRY_ASSIGN(auto kept, read_kept_node(config.directory));
  const bool is_new = !kept;
  if (is_new) {
    TRY_ASSIGN(kept, make_kept(config));
  }
  TRY(update_kept(config, *kept));
  return std::unique_ptr<Participant>(
      std::make_unique<ParticipantImpl>(std::move(config), std::move(*kept), is_new));
}

}  // namespace penstock::cluster
