#include "loop_net.h"

#include <cerrno>
#include <cstring>

namespace penstock::tcp::internal {
namespace {

Hello hello_of(const Identity& self, engine::Address to) {
  return {.lowest_version = self.lowest_version,
          .highest_version = self.highest_version,
          .features = self.features,
          .cluster = self.cluster,
          .node = self.node,
          .wanted = to.node,
          .service = to.service,
          .incarnation = self.incarnation,
          .proof = {}};
}

}  // namespace

Outgoing::Outgoing(LoopNet& net, engine::Address to, std::vector<SocketAddress> addresses)
    : net_(net),
      to_(to),
      addresses_(std::move(addresses)),
      deadline_(net.sockets.loop.now() + net.sockets.patience.connect),
      stream_(net.sockets),
      side_(net.sockets.loop, stream_, *this, hello_of(net.board.config().identity, to)) {}

void Outgoing::start() {
  stream_.start(side_, fmt::format("node {}, service {}", to_.node.value, to_.service),
                net_.sockets.patience.idle);
  try_next();
}

void Outgoing::try_next() {
  ASSERT(!connecting_ && !shaking_hands_ && !ready_);
  while (!stopped_ && next_ < std::min<size_t>(addresses_.size(), limits::kAddressesMax)) {
    const SocketAddress& address = addresses_[next_++];
    socket_ = UniqueFd(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket_) {
      trouble_ = fmt::format("{}: {}", address.text(), std::strerror(errno));
      continue;
    }
    connecting_ = true;
    // A card that does not answer leaves time for those behind it.
    const auto left = static_cast<int64_t>(
        std::min<size_t>(addresses_.size(), limits::kAddressesMax) - (next_ - 1));
    const engine::Time now = net_.sockets.loop.now();
    next_at_ = now + (deadline_ - now) / left;
    net_.sockets.ring.connect(*this, 0, socket_.get(),
                              *static_cast<const sockaddr*>(address.data()), address.length());
    return;
  }
  if (trouble_.empty()) trouble_ = "no address is known";
  stop(refused_ ? Code::access_denied : Code::peer_gone);
}

void Outgoing::on_completion(uint32_t, int result, uint32_t) {
  ASSERT(connecting_);
  connecting_ = false;
  if (stopped_) {
    socket_.reset();
    if (over_) net_.retire();
    return;
  }
  if (result == 0) return connected();
  ASSERT(next_ > 0);
  trouble_ = fmt::format("{}: {}", addresses_[next_ - 1].text(), std::strerror(-result));
  socket_.reset();
  try_next();
}

void Outgoing::connected() {
  Handshaker* const handshaker = net_.board.handshaker();
  if (handshaker == nullptr) return stream_.attach(std::move(socket_));
  shaking_hands_ = true;
  ++net_.handshakes;
  handshake_.owner = this;
  handshake_.completion = [](engine::Op& done) { done.owner_as<Outgoing>().on_secured(); };
  handshaker->begin(handshake_, tls::Part::caller, std::move(socket_), net_.sockets.loop,
                    deadline_);
}

void Outgoing::on_secured() {
  shaking_hands_ = false;
  --net_.handshakes;
  UniqueFd socket = std::move(handshake_.socket);
  if (stopped_) {
    if (over_) net_.retire();
    return;
  }
  if (handshake_.status.ok()) handshake_.trouble = unproven();
  if (handshake_.trouble.empty()) {
    ends_ = end_of(handshake_.secured);
    return stream_.attach(std::move(socket), std::make_unique<Seal>(handshake_.secured));
  }
  trouble_ = fmt::format("{}: {}", addresses_[next_ - 1].text(), handshake_.trouble);
  complain(handshake_.trouble);
  const Status status = handshake_.status;
  const bool is_refusal = status.ok() || status == Code::not_permitted ||
                          status == Code::access_denied || status == Code::wrong_version;
  refused_ = refused_ || is_refusal;
  try_next();
}

// Empty: whoever was reached has the certificate of the node that is called, with the role for it.
std::string Outgoing::unproven() const {
  const NetworkConfig& config = net_.board.config();
  const std::optional<tls::NodeName>& name = handshake_.secured.peer;
  if (!name) return "it shows no certificate";
  if (name->cluster != config.identity.cluster) return "its certificate is of another cluster";
  if (name->node != to_.node) {
    return fmt::format("its certificate is of node {}", name->node.value);
  }
  const uint8_t role = config.role_to_serve != nullptr ? config.role_to_serve(to_.service) : 0;
  if (role == 0 || (engine::known_roles(name->roles) & role) != 0) return "";
  return fmt::format("its certificate is of the roles '{}', without {}", name->roles,
                     engine::roles_text(role));
}

void Outgoing::look() {
  if (ready_ && !stopped_ && net_.sockets.loop.clock().wall() >= ends_) {
    trouble_ = "its certificate has ended";
    return stop(Code::peer_gone);
  }
  // Another takes new calls; this one goes with its last.
  if (stream_.is_worn()) side_.on_idle();
  if (ready_ || stopped_) return;
  const engine::Time now = net_.sockets.loop.now();
  if (connecting_ && now >= next_at_ && now < deadline_) {
    next_at_ = engine::kNever;
    return net_.sockets.ring.cancel(*this, 0);
  }
  if (now < deadline_) return;
  trouble_ = connecting_      ? "connecting takes too long"
             : shaking_hands_ ? "its handshake does not come to an end"
                              : "its greeting does not come";
  stop(Code::peer_gone);
}

void Outgoing::stop(Status status) {
  if (stopped_) return;
  stopped_ = true;
  if (connecting_) net_.sockets.ring.cancel(*this, 0);
  if (shaking_hands_) net_.board.handshaker()->stop(handshake_);
  stream_.fail(status, "");
}

void Outgoing::on_welcome(const Welcome& welcome) {
  ready_ = true;
  incarnation_ = welcome.incarnation;
  trouble_.clear();
}

void Outgoing::on_refusal(const Refused& refused) {
  trouble_ = fmt::format("refused: {}", refusal_name(refused.reason));
  if (refused.reason == Refusal::wrong_version) {
    trouble_ = "refused: " + no_common_version(net_.board.config().identity, to_.node,
                                               refused.lowest_version, refused.highest_version);
  }
  // Nothing of an operator's: the service is not there yet, or not any more.
  if (refused.reason != Refusal::no_service) complain(refusal_name(refused.reason));
}

// What is refused now may be let in later, by whoever waits for that. Of what a connection carried
// that ended because the other side, or somebody between, broke it, nothing is known: as with any
// loss.
Status Outgoing::status_of_calls(Status end) {
  if (end == Code::bad_message || end == Code::corrupt) return Code::peer_gone;
  const bool is_told = net_.board.config().tells_refusals;
  return end == Code::access_denied && !is_told ? Status(Code::peer_gone) : end;
}

void Outgoing::complain(std::string_view cause) const {
  net_.board.unreached().note(
      cause, fmt::format("node {}, service {}: {}", to_.node.value, to_.service, trouble_),
      net_.sockets.loop.now());
}

void Outgoing::on_caller_end(Status status) {
  over_ = stopped_ = true;
  end_ = status_of_calls(status);
  if (trouble_.empty()) trouble_ = stream_.why();
  if (trouble_.empty()) trouble_ = fmt::format("connection ended: {}", status.name());
  net_.retire();
}

Accepted::Accepted(LoopNet& net, uint32_t service_number, engine::Service& service,
                   engine::Peer peer, const Welcome& welcome, engine::WallTime ends)
    : net_(net),
      service_(service_number),
      peer_(peer),
      ends_(ends),
      stream_(net.sockets),
      side_(net.sockets.loop, stream_, *this, net.pool, service, peer, welcome) {}

void Accepted::start(UniqueFd socket, std::unique_ptr<Seal> seal) {
  stream_.start(side_, fmt::format("caller {} of service {}", peer_.node.value, service_),
                2 * net_.sockets.patience.idle);
  stream_.attach(std::move(socket), std::move(seal));
}

void Accepted::look(engine::WallTime now) {
  if (stream_.is_worn() && !std::exchange(leaving_, true)) side_.withdraw();
  if (now >= ends_ && !over_) stream_.fail(Code::peer_gone, "the caller's certificate has ended");
}

void Accepted::on_server_end() {
  over_ = true;
  net_.retire();
}

}  // namespace penstock::tcp::internal
