#include "penstock/tcp/listener.h"

#include "loop_net.h"

#include <cerrno>
#include <cstring>
#include <netinet/in.h>

namespace penstock::tcp {
namespace internal {

namespace {

// What was not read would take along what is said last.
void drain(int socket) {
  std::array<std::byte, 4096> scrap;
  while (::recv(socket, scrap.data(), scrap.size(), MSG_DONTWAIT) > 0) {
  }
}

}  // namespace

// A connection that has not greeted yet.
class Greeting final : public SocketUser, public ListNode, private FrameReader::Sink {
 public:
  Greeting(Door& door, UniqueFd socket, engine::Time deadline)
      : door_(door), socket_(std::move(socket)), deadline_(deadline) {}

  void begin();
  void on_completion(uint32_t what, int result, uint32_t flags) override;
  // Asks for its end; it comes as a completion.
  void stop();
  engine::Time deadline() const { return deadline_; }
  bool stopped() const { return stopped_; }

 private:
  // In the clear a frame's header, then its message; else those of a record, and a frame in it.
  enum What : uint32_t { kHeader, kMessage };
  void on_secured();
  void receive(What what, uint32_t bytes);
  bool on_header();
  bool on_record_header();
  void on_record();
  void on_hello(Bytes message);
  std::string unproven(const Hello& hello) const;
  std::optional<Refusal> why_not(const Hello& hello);
  void refuse(Refusal reason);
  void note(std::string_view cause, std::string_view text);

  Result<MutableBytes> on_frame(const Header& header, Bytes message) override;
  Status on_payload(const Header&) override { return Code::bad_message; }

  Door& door_;
  UniqueFd socket_;
  const engine::Time deadline_;
  bool stopped_ = false;
  bool shaking_hands_ = false;
  HandshakeOp handshake_;  // has the socket then
  std::unique_ptr<Seal> seal_;
  FrameReader reader_{*this};
  std::optional<Bytes> hello_;
  What waiting_ = kHeader;
  uint32_t wanted_ = 0;  // bytes that are waited for
  std::array<std::byte,
             limits::kHeaderBytes + limits::kMessageBytesMax + tls::limits::kRecordExtraBytes>
      bytes_;
};

class Door final : public SocketUser {
 public:
  Door(Switchboard& board, LoopNet& net) : board_(board), net_(net) {}
  ~Door();

  Status open(const SocketAddress& at);
  const SocketAddress& address() const { return address_; }
  void on_completion(uint32_t what, int result, uint32_t flags) override;

 private:
  friend class Greeting;
  void accept();
  void look();
  void end(Greeting& greeting);

  Switchboard& board_;
  LoopNet& net_;
  UniqueFd socket_;
  SocketAddress address_;
  bool accepting_ = false;
  bool closing_ = false;
  uint32_t count_ = 0;
  uint32_t handshakes_ = 0;            // of greetings, under way
  IntrusiveList<Greeting> greetings_;  // the oldest first
};

void Greeting::begin() {
  Handshaker* const handshaker = door_.board_.handshaker();
  if (handshaker == nullptr) return receive(kHeader, limits::kHeaderBytes);
  shaking_hands_ = true;
  ++door_.handshakes_;
  handshake_.owner = this;
  handshake_.completion = [](engine::Op& done) { done.owner_as<Greeting>().on_secured(); };
  handshaker->begin(handshake_, tls::Part::server, std::move(socket_), door_.net_.sockets.loop,
                    deadline_);
}

void Greeting::on_secured() {
  shaking_hands_ = false;
  --door_.handshakes_;
  socket_ = std::move(handshake_.socket);
  if (!stopped_ && handshake_.status.ok()) {
    seal_ = std::make_unique<Seal>(handshake_.secured);
    return receive(kHeader, tls::limits::kRecordHeaderBytes);
  }
  if (!stopped_ && handshake_.status != Code::peer_gone) {
    const std::string& trouble = handshake_.trouble;
    note(std::string_view(trouble).substr(0, trouble.find(": ")), trouble);
    if (handshake_.status == Code::wrong_version) {
      drain(socket_.get());
      refuse(Refusal::not_sealed);
    }
  }
  door_.end(*this);
}

void Greeting::note(std::string_view cause, std::string_view text) {
  door_.board_.refusals().note(cause, text, door_.net_.sockets.loop.now());
}

void Greeting::receive(What what, uint32_t bytes) {
  waiting_ = what;
  wanted_ = bytes;
  door_.net_.sockets.ring.receive(*this, what, socket_.get(), MutableBytes(bytes_).first(bytes));
}

void Greeting::stop() {
  if (std::exchange(stopped_, true)) return;
  if (shaking_hands_) return door_.board_.handshaker()->stop(handshake_);
  (void)::shutdown(socket_.get(), SHUT_RDWR);
  door_.net_.sockets.ring.cancel(*this, waiting_);
}

void Greeting::on_completion(uint32_t what, int result, uint32_t) {
  if (!stopped_ && result > 0 && static_cast<uint32_t>(result) == wanted_) {
    if (what == kHeader && (seal_ == nullptr ? on_header() : on_record_header())) return;
    if (what == kMessage && seal_ == nullptr) on_hello(Bytes(bytes_).first(wanted_));
    if (what == kMessage && seal_ != nullptr) on_record();
  }
  door_.end(*this);
}

// False when no hello can be in it.
bool Greeting::on_record_header() {
  const auto header = Bytes(bytes_).first<tls::limits::kRecordHeaderBytes>();
  const uint32_t behind = tls::bytes_behind(header);
  if (behind > bytes_.size() || !seal_->take(header, reader_).ok()) {
    refuse(Refusal::bad_greeting);
    return false;
  }
  receive(kMessage, behind);
  return true;
}

void Greeting::on_record() {
  const Status status = seal_->take(Bytes(bytes_).first(wanted_), reader_);
  if (!status.ok() || !hello_) return refuse(Refusal::bad_greeting);
  on_hello(*hello_);
}

// Of the frame in the record.
Result<MutableBytes> Greeting::on_frame(const Header& header, Bytes message) {
  if (header.kind != FrameKind::hello || header.payload_bytes != 0 || hello_) {
    return Code::bad_message;
  }
  hello_ = message;  // until something else is opened
  return MutableBytes();
}

void Greeting::refuse(Refusal reason) {
  internal::refuse(std::move(socket_), seal_.get(), door_.board_.config().identity, reason);
}

// False when it is not the header of a hello.
bool Greeting::on_header() {
  const auto header = decode_header(Bytes(bytes_).first(limits::kHeaderBytes));
  if (!header || header->kind != FrameKind::hello || header->message_bytes == 0) {
    if (begins_like_tls(Bytes(bytes_))) note("it speaks TLS", kOnlyOneInsecure);
    refuse(Refusal::bad_greeting);
    return false;
  }
  receive(kMessage, header->message_bytes);
  return true;
}

void Greeting::on_hello(Bytes message) {
  const NetworkConfig& config = door_.board_.config();
  const auto hello = decode_hello(message);
  if (!hello) return refuse(Refusal::bad_greeting);
  if (const auto reason = why_not(*hello)) return refuse(*reason);
  const std::optional<tls::NodeName>& name = handshake_.secured.peer;
  engine::Peer peer{hello->node};
  if (seal_ != nullptr) peer.roles = name ? engine::known_roles(name->roles) : uint8_t{0};
  Greeted greeted{.socket = std::move(socket_),
                  .service = hello->service,
                  .peer = peer,
                  .welcome = agree(config.identity, *hello, config.calls_max),
                  .seal = std::move(seal_),
                  .ends = end_of(handshake_.secured)};
  const auto reason = door_.board_.hand_over(greeted);
  if (!reason) return;
  socket_ = std::move(greeted.socket);
  seal_ = std::move(greeted.seal);
  if (*reason != Refusal::no_service) note(refusal_name(*reason), refusal_name(*reason));
  refuse(*reason);
}

// What speaks against the caller, which is logged then.
std::optional<Refusal> Greeting::why_not(const Hello& hello) {
  const NetworkConfig& config = door_.board_.config();
  if (const auto reason = objection(config.identity, hello)) {
    const bool is_version = *reason == Refusal::wrong_version;
    note(refusal_name(*reason), is_version
                                    ? no_common_version(config.identity, hello.node,
                                                        hello.lowest_version, hello.highest_version)
                                    : fmt::format("{} (it says that it is node {})",
                                                  refusal_name(*reason), hello.node.value));
    return reason;
  }
  if (is_removed(config, hello.node, hello.service)) {
    note(refusal_name(Refusal::removed),
         fmt::format("node {} was removed from the cluster", hello.node.value));
    return Refusal::removed;
  }
  const std::string unproven_of = unproven(hello);
  if (unproven_of.empty()) return std::nullopt;
  note(refusal_name(Refusal::not_proven), unproven_of);
  return Refusal::not_proven;
}

// Empty: a node is who its certificate names, in this cluster; a guest has no certificate, and
// wants what is open to guests.
std::string Greeting::unproven(const Hello& hello) const {
  const NetworkConfig& config = door_.board_.config();
  const std::optional<tls::NodeName>& name = handshake_.secured.peer;
  if (hello.node == kGuest) {
    if (name) return fmt::format("node {} calls as a guest", name->node.value);
    return config.open_to_guests == hello.service ? "" : "a guest wants what is for nodes";
  }
  if (seal_ == nullptr) return "";
  if (!name)
    return fmt::format("it says that it is node {}, without a certificate", hello.node.value);
  if (name->cluster != hello.cluster) return "its certificate is of another cluster";
  if (name->node == hello.node) return "";
  return fmt::format("it says that it is node {}, and its certificate is of node {}",
                     hello.node.value, name->node.value);
}

Door::~Door() {
  closing_ = true;
  net_.set_looker({});
  if (accepting_) net_.sockets.ring.cancel(*this, 0);
  for (Greeting* one = greetings_.first(); one != nullptr; one = greetings_.next(*one)) one->stop();
  net_.await(handshakes_);
  while (accepting_ || !greetings_.empty()) (void)net_.sockets.ring.wait();
}

Status Door::open(const SocketAddress& at) {
  socket_ = UniqueFd(::socket(at.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket_) return Status::from_errno(errno);
  const int on = 1;
  (void)::setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(socket_.get(), static_cast<const sockaddr*>(at.data()), at.length()) != 0 ||
      ::listen(socket_.get(), limits::kBacklog) != 0) {
    return Status::from_errno(errno);
  }
  TRY_ASSIGN(address_, SocketAddress::of_socket(socket_.get()));
  net_.set_looker([this] { look(); });
  accept();
  return Code::ok;
}

void Door::accept() {
  ASSERT(!accepting_);
  accepting_ = true;
  net_.sockets.ring.accept(*this, 0, socket_.get());
}

void Door::on_completion(uint32_t, int result, uint32_t) {
  accepting_ = false;
  UniqueFd socket(result >= 0 ? result : -1);
  if (closing_) return;
  if (socket) {
    if (count_ == limits::kGreetingsMax) {
      Greeting* oldest = greetings_.first();
      while (oldest != nullptr && oldest->stopped()) oldest = greetings_.next(*oldest);
      if (oldest != nullptr) oldest->stop();
    }
    const engine::Time deadline = net_.sockets.loop.now() + net_.sockets.patience.greeting;
    auto* const greeting = new Greeting(*this, std::move(socket), deadline);
    ++count_;
    greetings_.push_back(*greeting);
    greeting->begin();
  } else if (result == -EMFILE || result == -ENFILE || result == -ENOMEM || result == -ENOBUFS) {
    // look() tries again.
    log::warning("tcp: {}: accept: {}", address_.text(), std::strerror(-result));
    return;
  }
  accept();
}

void Door::look() {
  const engine::Time now = net_.sockets.loop.now();
  for (Greeting* one = greetings_.first(); one != nullptr; one = greetings_.next(*one)) {
    if (one->deadline() > now) break;
    one->stop();
  }
  if (!accepting_) accept();
}

void Door::end(Greeting& greeting) {
  ASSERT(count_ > 0);
  --count_;
  greeting.unlink();
  delete &greeting;
}

}  // namespace internal

TcpListener::TcpListener(std::unique_ptr<internal::Door> door) : door_(std::move(door)) {}
TcpListener::~TcpListener() = default;

Outcome<std::unique_ptr<TcpListener>> TcpListener::listen(TcpNetwork& network, TcpNet& net,
                                                          const SocketAddress& at) {
  auto door = std::make_unique<internal::Door>(network.switchboard(), net.internals());
  if (const Status status = door->open(at); !status.ok()) {
    return Failure{status, fmt::format("listen: {}: {}", at.text(), status.name())};
  }
  return std::unique_ptr<TcpListener>(new TcpListener(std::move(door)));
}

const SocketAddress& TcpListener::address() const {
  return door_->address();
}

}  // namespace penstock::tcp
