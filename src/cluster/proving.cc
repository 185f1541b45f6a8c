// How a process proves who it is, and goes on to (decision 0057).
#include "participant_impl.h"

#include <cstring>
#include <fmt/format.h>

namespace penstock::cluster {

using membership::Answer;

Identity ParticipantImpl::identity() {
  const std::lock_guard lock(identity_mutex_);
  ASSERT(identity_);
  return *identity_;
}

// What this process proves itself by, as far as it has that before it asks anybody.
Outcome<void> ParticipantImpl::prove() {
  const auto refused = [this](const std::string& why) {
    return Failure{Code::not_permitted, config_.directory + ": " + why};
  };
  TRY_ASSIGN(identity_, read_identity(config_.directory));
  const bool had_certificate = identity_ && identity_->certificate;
  if (had_certificate) {
    const auto name = identity_->certificate->name();
    if (!name || name->cluster != bytes_of(kept_.cluster)) {
      return refused("identity/node.pem in it is of another cluster (remove it, and join anew)");
    }
  }
  if (!config_.insecure) verifier_.begin();
  if (config_.insecure) {
    identity_.reset();
    if (config_.invitation && config_.invitation->token) {
      return refused("the token is of a cluster with proofs of identity: leave out --insecure");
    }
    if (!had_certificate) return {};
    return refused(
        "its cluster proves who its nodes are, and --insecure would be believed by nobody (start "
        "it without)");
  }
  if (is_first() && !is_new_ && !had_certificate) {
    TRY_ASSIGN(const AuthorityFiles files, open_authorities(config_.directory));
    if (!files.root) {
      return refused(
          "its cluster was begun without proofs of identity: start all nodes with --insecure, or "
          "have it make them now ('penstock identity begin', while all its nodes are down)");
    }
  }
  if (!identity_) identity_ = Identity();
  if (is_first()) return begin_authority();
  if (had_certificate && has_token_of_another()) return {};
  if (had_certificate && identity_->certificate->ends() <= now_on_the_wall()) {
    return renew_as_guest();
  }
  if (had_certificate || (config_.invitation && config_.invitation->token)) return {};
  return refused(
      "has no certificate of its cluster: make a token there ('penstock token create DIR' on the "
      "first node), and 'penstock join' with it (or --insecure, if all nodes have that)");
}

Outcome<void> ParticipantImpl::sign_own() {
  ASSERT(signer_ != nullptr && kept_.node != NodeId());
  TRY_ASSIGN(const auto papers, signer_->sign(identity().key.request(), kept_.node, kept_.roles));
  return take_papers(papers);
}

Outcome<void> ParticipantImpl::take_papers(const membership::Papers& papers) {
  TRY_ASSIGN(Identity with, with_papers(identity(), papers, kept_.cluster, kept_.node));
  return take_identity(std::move(with));
}

// Durable when it returns.
Outcome<void> ParticipantImpl::take_identity(Identity with) {
  if (signer_ != nullptr) with.shown = signer_->shown();
  TRY(keep(config_.directory, with));
  const std::lock_guard lock(identity_mutex_);
  identity_ = std::move(with);
  return {};
}

Outcome<std::shared_ptr<const tls::Credentials>> ParticipantImpl::guest_credentials(
    const tls::Fingerprint& authority, const std::vector<tls::Certificate>& known) const {
  tls::Credentials::Config config;
  config.expected = authority;
  config.authorities = known;
  config.clock = &engine::system_clock();
  TRY_ASSIGN(auto made, tls::Credentials::make(std::move(config)));
  return std::shared_ptr<const tls::Credentials>(std::move(made));
}

// For the first time: with a token, which is said only to whom its fingerprint names.
Outcome<void> ParticipantImpl::enroll() {
  ASSERT(config_.invitation && config_.invitation->token);
  const TokenSecret& token = *config_.invitation->token;
  // Before anybody hears of it: who was let in, and did not hear that, comes again with this key.
  if (!identity_->certificate) TRY(keep(config_.directory, *identity_));
  TRY_ASSIGN(auto credentials, guest_credentials(token.authority, {}));
  membership::AskToEnroll ask;
  ask.join = join_request();
  ask.secret.assign(token.secret.begin(), token.secret.end());
  ask.request = identity_->key.request();
  ask.at = now_on_the_wall();
  TRY_ASSIGN(const Joined joined, ask_to_join(tcp::kGuest, std::move(credentials), std::move(ask)));
  TRY(take(joined.admitted));
  TRY(take_papers(joined.papers));
  return keep(config_.directory, kept_);
}

// Its certificate counts no more, as it has ended, or its authority has been followed by another,
// while it was off, or stood still: the controller knows its key. With a net that ends with this.
Outcome<void> ParticipantImpl::renew_as_guest() {
  const std::vector<tls::Certificate> known = identity().authorities;
  TRY_ASSIGN(auto credentials, guest_credentials(known.front().fingerprint(), known));
  tcp::NetworkConfig network_of = network_config(tcp::kGuest, std::move(credentials));
  network_of.tells_refusals = true;
  tcp::TcpNetwork network(network_of);
  Outcome<std::unique_ptr<tcp::TcpNet>> net = Failure{Code::closed, ""};
  (void)caller().call(loop(), [&](engine::Op& done) {
    net = tcp::TcpNet::create(network, loop(), *parts_.front()->shard.parker, nullptr);
    loop().complete(done, Code::ok);
  });
  if (!net) return net.error();
  membership::AskOp op;
  op.config = {&loop(), net->get(), {kFirstNode, wire::kGuestService}};
  op.request =
      membership::AskCertificate{config_.node, identity().key.request(), now_on_the_wall()};
  op.deadline = engine::system_clock().now() + (opened_ ? engine::Duration(limits::kRenewAskTime)
                                                        : engine::Duration(limits::kEnterTime));
  const Status status = run_and_wait(caller(), loop(), op, membership::ask);
  std::string trouble;
  for (const bool is_closing : {true, false}) {
    // And a turn for what ends with it.
    (void)caller().call(loop(), [&](engine::Op& done) {
      for (const tcp::PeerFacts& peer : (*net)->peers()) trouble = peer.trouble;
      if (is_closing) (*net)->close();
      loop().complete(done, Code::ok);
    });
  }
  const auto* papers = std::get_if<membership::Papers>(&op.answer);
  if (status.ok() && papers != nullptr) return take_papers(*papers);
  const auto* refused = std::get_if<controller::Refused>(&op.answer);
  if (!trouble.empty()) trouble = " (" + trouble + ")";
  if (!trouble.empty() && status == Code::access_denied) trouble += what_if_followed();
  return Failure{
      status.ok() && refused != nullptr ? Status(refused->code) : status,
      fmt::format("{}: its certificate counts no more, and the controller at {} gives "
                  "it no other: {}{}",
                  config_.directory, kept_.controller,
                  refused != nullptr ? refused->reason : std::string(status.name()), trouble)};
}

Outcome<Invitation> ParticipantImpl::make_token(uint8_t roles, uint32_t uses, NodeId node,
                                                engine::Duration lasts,
                                                const rights::Restriction& restriction) {
  if (!is_first()) {
    return Failure{
        Code::not_permitted,
        fmt::format("tokens are made on the node with the controller, at {}", kept_.controller)};
  }
  if (signer_ == nullptr) {
    return Failure{Code::not_supported,
                   "this cluster was started with --insecure, and needs no tokens: 'penstock "
                   "cluster' prints how to join"};
  }
  TRY_ASSIGN(const tls::Fingerprint authority, signer_->fingerprint());
  const auto secret = tls::random_secret();
  TokenSecret token;
  std::memcpy(token.secret.data(), secret.data(), sizeof token.secret);
  token.authority = authority;
  controller::MakeToken make{.hash = signer_->hash_of({token.secret.begin(), token.secret.end()}),
                             .roles = roles,
                             .node = node,
                             .uses = uses};
  make.ends = {lasts.count()};
  make.restriction = restriction;
  TRY_ASSIGN(const Answer answer, ask(make));
  if (!std::holds_alternative<controller::MadeToken>(answer)) {
    return Failure{Code::bad_message, "the controller answers otherwise"};
  }
  return Invitation{kept_.cluster, *tcp::SocketAddress::parse(kept_.controller), token};
}

void ParticipantImpl::start_renewing() {
  renewing_ = true;
  renewing_thread_ = engine::Thread("certificate", [this] { renew_until_stopped(); });
}

void ParticipantImpl::stop_renewing() {
  {
    const std::lock_guard lock(renewing_mutex_);
    if (!std::exchange(renewing_, false)) return;
  }
  renewing_wake_.notify_one();
  renewing_thread_.join();
}

bool ParticipantImpl::is_renewing() {
  const std::lock_guard lock(renewing_mutex_);
  return renewing_;
}

// False: it is to stop.
bool ParticipantImpl::wait_to_look(engine::Duration pause) {
  std::unique_lock lock(renewing_mutex_);
  renewing_wake_.wait_for(lock, pause, [this] { return !renewing_; });
  return renewing_;
}

namespace {

// A short time is looked at often, and so is what changes.
engine::Duration pause_of(const Identity& identity) {
  const int64_t left = identity.certificate->ends().nanoseconds - now_on_the_wall().nanoseconds;
  const engine::Duration most = identity.authorities.size() > 1
                                    ? engine::Duration(limits::kChangeLook)
                                    : engine::Duration(limits::kCertificateLook);
  return std::clamp<engine::Duration>(engine::Duration(left / 12), limits::kCertificateLookLeast,
                                      most);
}

}  // namespace

// The first look is at once: whoever was off may have missed something.
void ParticipantImpl::renew_until_stopped() {
  bool has_failed = false;
  engine::Duration pause{};
  while (wait_to_look(pause)) {
    const Outcome<void> looked = look_at_papers();
    if (looked && has_failed) log::info("{}: has a new certificate", config_.directory);
    if (!looked && !has_failed) {
      log::warning("{}: its certificate could not be renewed (it is tried again): {}",
                   config_.directory, looked.error().message);
    }
    has_failed = !looked;
    pause = has_failed ? engine::Duration(limits::kRenewAgain) : pause_of(identity());
  }
}

Outcome<void> ParticipantImpl::renew() {
  if (is_first()) {
    TRY(sign_own());
  } else if (identity().certificate->ends() <= now_on_the_wall()) {
    TRY(renew_as_guest());
  } else {
    TRY_ASSIGN(
        const Answer answer,
        ask(membership::AskCertificate{config_.node, identity().key.request(), now_on_the_wall()},
            limits::kRenewAskTime));
    const auto* papers = std::get_if<membership::Papers>(&answer);
    if (papers == nullptr) {
      return Failure{Code::bad_message, "the controller answers otherwise"};
    }
    TRY(take_papers(*papers));
  }
  use_identity();
  return {};
}

// For handshakes from now on. It was looked at when it was taken.
void ParticipantImpl::use_identity() {
  auto credentials = identity().credentials();
  ASSERT(credentials);
  network_->renew(std::move(*credentials));
}

namespace {

// On its way to a loop; frees itself.
struct Expulsion : engine::Op {
  const Part* part = nullptr;
  NodeId node;
};

}  // namespace

// In the first loop, as the map says it; all loops outlive what is on its way to them.
void ParticipantImpl::expel(NodeId node) {
  for (const auto& part : parts_) {
    auto expulsion = std::make_unique<Expulsion>();
    expulsion->part = part.get();
    expulsion->node = node;
    expulsion->completion = [](engine::Op& op) {
      const std::unique_ptr<Expulsion> self(&static_cast<Expulsion&>(op));
      self->part->tcp->expel(self->node);
      self->part->rails->lose(self->node);
    };
    part->shard.loop->complete_remote(*expulsion.release(), Code::ok);
  }
}

}  // namespace penstock::cluster
