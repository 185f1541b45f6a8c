#include "penstock/tcp/listener.h"

#include "loop_net.h"

#include <cerrno>
#include <cstring>
#include <netinet/in.h>

namespace penstock::tcp {
namespace internal {

// A connection that has not greeted yet.
class Greeting final : public SocketUser, public ListNode {
 public:
  Greeting(Door& door, UniqueFd socket, engine::Time deadline)
      : door_(door), socket_(std::move(socket)), deadline_(deadline) {}

  void receive_header();
  void on_completion(uint32_t what, int result, uint32_t flags) override;
  // Asks for its end; it comes as a completion.
  void stop();
  engine::Time deadline() const { return deadline_; }
  bool stopped() const { return stopped_; }

 private:
  enum What : uint32_t { kHeader, kMessage };
  bool on_header();
  void on_hello();

  Door& door_;
  UniqueFd socket_;
  const engine::Time deadline_;
  bool stopped_ = false;
  What waiting_ = kHeader;
  Header header_;
  std::array<std::byte, limits::kHeaderBytes + limits::kMessageBytesMax> bytes_;
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
  IntrusiveList<Greeting> greetings_;  // the oldest first
};

void Greeting::receive_header() {
  door_.net_.sockets.ring.receive(*this, kHeader, socket_.get(),
                                  MutableBytes(bytes_).first(limits::kHeaderBytes));
}

void Greeting::stop() {
  if (std::exchange(stopped_, true)) return;
  (void)::shutdown(socket_.get(), SHUT_RDWR);
  door_.net_.sockets.ring.cancel(*this, waiting_);
}

void Greeting::on_completion(uint32_t what, int result, uint32_t) {
  const size_t wanted = what == kHeader ? limits::kHeaderBytes : header_.message_bytes;
  if (!stopped_ && result > 0 && static_cast<size_t>(result) == wanted) {
    if (what == kHeader && on_header()) return;
    if (what == kMessage) on_hello();
  }
  door_.end(*this);
}

// False when it is not the header of a hello.
bool Greeting::on_header() {
  const Identity& self = door_.board_.config().identity;
  const auto header = decode_header(Bytes(bytes_).first(limits::kHeaderBytes));
  if (!header || header->kind != FrameKind::hello || header->message_bytes == 0) {
    refuse(std::move(socket_), self, Refusal::bad_greeting);
    return false;
  }
  header_ = *header;
  waiting_ = kMessage;
  door_.net_.sockets.ring.receive(
      *this, kMessage, socket_.get(),
      MutableBytes(bytes_).subspan(limits::kHeaderBytes, header_.message_bytes));
  return true;
}

void Greeting::on_hello() {
  const NetworkConfig& config = door_.board_.config();
  const auto hello =
      decode_hello(Bytes(bytes_).subspan(limits::kHeaderBytes, header_.message_bytes));
  if (!hello) return refuse(std::move(socket_), config.identity, Refusal::bad_greeting);
  std::optional<Refusal> reason = objection(config.identity, *hello);
  const bool is_open = hello->node != kGuest || config.open_to_guests == hello->service;
  if (!reason && !is_open) reason = Refusal::not_proven;
  Greeted greeted;
  if (!reason) {
    greeted = {.socket = std::move(socket_),
               .service = hello->service,
               .peer = {hello->node},
               .welcome = agree(config.identity, *hello, config.calls_max)};
    reason = door_.board_.hand_over(greeted);
    if (!reason) return;
    socket_ = std::move(greeted.socket);
  }
  if (*reason == Refusal::wrong_version) {
    log::warning("tcp: refused node {}: {}", hello->node.value,
                 no_common_version(config.identity, hello->node, hello->lowest_version,
                                   hello->highest_version));
  } else if (*reason != Refusal::no_service) {
    log::warning("tcp: refused node {}: {}", hello->node.value, refusal_name(*reason));
  }
  refuse(std::move(socket_), config.identity, *reason);
}

Door::~Door() {
  closing_ = true;
  net_.set_looker({});
  if (accepting_) net_.sockets.ring.cancel(*this, 0);
  for (Greeting* one = greetings_.first(); one != nullptr; one = greetings_.next(*one)) one->stop();
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
    greeting->receive_header();
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
