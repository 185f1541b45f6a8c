// How connections to PEs of other nodes are made: by whoever needs one first. Of two that are made
// at once the lower PE's stands.
#include "far_tcp.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace penstock::symm {
namespace {

// Between two attempts at all addresses, and for a connection that the other side makes.
constexpr std::chrono::milliseconds kAgain{50};
constexpr std::chrono::milliseconds kAfterNoDescriptor{100};

}  // namespace

void FarTcp::use(uint32_t pe) {
  Peer& peer = peers_[pe];
  ASSERT(peer.state == State::unused);
  peer.stream = std::make_unique<FarStream>(options_.segments);
  peer.give_up_at = options_.clock->now() + limits::kFarConnect;
  connecting_.push_back(pe);
  peer.state = State::expecting;
  attempt(pe);
  if (is_asleep_) wake();
}

void FarTcp::drop_attempt(uint32_t pe) {
  Peer& peer = peers_[pe];
  close_socket(&peer.socket);
  peer.replied = 0;
  peer.state = State::expecting;
}

// At the next address; after the last one a pause, and the first again.
void FarTcp::attempt(uint32_t pe) {
  Peer& peer = peers_[pe];
  const FarAddress& address = *options_.pes[pe];
  drop_attempt(pe);
  const engine::Time now = options_.clock->now();
  if (!options_.takes_part(pe)) return lose(pe, Code::peer_gone);
  if (now >= peer.give_up_at) {
    log::error("symmetric memory: PE {} is not reached at {}", pe, text_of(address));
    return lose(pe, Code::peer_gone);
  }
  const size_t turn = peer.attempts++ % (address.hosts.size() + 1);
  if (turn == address.hosts.size()) {
    peer.attempt_until = now + kAgain;
    return;
  }
  peer.attempt_until = now + limits::kFarConnectOnce;
  const SocketName name = name_of(address.hosts[turn], address.port);
  peer.socket.reset(
      ::socket(name.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!peer.socket) {
    const int error = errno;
    if (error == EMFILE || error == ENFILE) {
      log::error("symmetric memory: no descriptor is left to reach PE {} (ulimit -n)", pe);
      return lose(pe, Status(Code::no_memory, static_cast<uint32_t>(error)));
    }
    peer.attempt_until = now;
    return;
  }
  const int done =
      ::connect(peer.socket.get(), reinterpret_cast<const sockaddr*>(&name.address), name.length);
  if (done != 0 && errno != EINPROGRESS) {
    close_socket(&peer.socket);
    peer.attempt_until = now;
    return;
  }
  peer.state = State::connecting;
  watch(EPOLL_CTL_ADD, peer.socket.get(), EPOLLOUT, kPeer | pe);
}

void FarTcp::greet(uint32_t pe) {
  Peer& peer = peers_[pe];
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(peer.socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  FarHello hello;
  hello.secret = options_.secret;
  hello.from = options_.me;
  hello.to = pe;
  // A new connection takes so much at once.
  if (error != 0 || ::send(peer.socket.get(), &hello, sizeof hello, MSG_NOSIGNAL) !=
                        static_cast<ssize_t>(sizeof hello)) {
    return attempt(pe);
  }
  peer.state = State::greeting;
  peer.attempt_until = options_.clock->now() + limits::kFarHelloTime;
  watch(EPOLL_CTL_MOD, peer.socket.get(), EPOLLIN, kPeer | pe);
}

void FarTcp::hear_reply(uint32_t pe) {
  Peer& peer = peers_[pe];
  const ssize_t got =
      ::recv(peer.socket.get(), reinterpret_cast<std::byte*>(&peer.reply) + peer.replied,
             sizeof peer.reply - peer.replied, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return attempt(pe);
  peer.replied += static_cast<uint32_t>(got);
  if (peer.replied < sizeof peer.reply) return;
  if (peer.reply.magic == FarReply::kMagic) {
    if (peer.reply.verdict == FarVerdict::welcome) {
      FarReply begin;
      begin.verdict = FarVerdict::begin;
      if (::send(peer.socket.get(), &begin, sizeof begin, MSG_NOSIGNAL) !=
          static_cast<ssize_t>(sizeof begin)) {
        return attempt(pe);
      }
      UniqueFd socket = std::move(peer.socket);
      return open(pe, std::move(socket));
    }
    if (peer.reply.verdict == FarVerdict::other_way) {
      drop_attempt(pe);
      peer.attempt_until = options_.clock->now() + kAgain;
      return;
    }
  }
  attempt(pe);
}

// `socket` is watched already.
void FarTcp::open(uint32_t pe, UniqueFd socket) {
  Peer& peer = peers_[pe];
  ASSERT(peer.state != State::open && peer.state != State::gone && !peer.socket);
  if (!peer.stream) peer.stream = std::make_unique<FarStream>(options_.segments);
  peer.socket = std::move(socket);
  job::set_up_stream(peer.socket.get());
  peer.state = State::open;
  peer.is_watched_out = false;
  open_.push_back(pe);
  watch(EPOLL_CTL_MOD, peer.socket.get(), EPOLLIN, kPeer | pe);
  begin_pair(pe);
  flush(pe);
}

void FarTcp::accept_strangers() {
  while (true) {
    UniqueFd socket(
        ::accept4(options_.listener.socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      // No descriptor is left: the one that waits would be told of again and again.
      is_listening_ = false;
      listen_again_at_ = options_.clock->now() + kAfterNoDescriptor;
      return watch(EPOLL_CTL_MOD, options_.listener.socket.get(), 0, kListener);
    }
    // The longest silent one makes room.
    if (strangers_.size() >= limits::kFarStrangers) {
      const auto silent = std::find_if(strangers_.begin(), strangers_.end(),
                                       [](const Stranger& each) { return !each.is_welcome; });
      if (silent != strangers_.end())
        forget_stranger(static_cast<size_t>(silent - strangers_.begin()));
    }
    strangers_.emplace_back();
    strangers_.back().until = options_.clock->now() + limits::kFarHelloTime;
    strangers_.back().socket = std::move(socket);
    watch(EPOLL_CTL_ADD, strangers_.back().socket.get(), EPOLLIN,
          kStranger | static_cast<uint32_t>(strangers_.back().socket.get()));
    hear_stranger(static_cast<size_t>(strangers_.back().socket.get()));
  }
}

void FarTcp::forget_stranger(size_t index) {
  close_socket(&strangers_[index].socket);
  strangers_.erase(strangers_.begin() + static_cast<ptrdiff_t>(index));
}

FarVerdict FarTcp::judge(const FarHello& hello) const {
  if (hello.to != options_.me) return FarVerdict::not_here;
  const Peer& peer = peers_[hello.from];
  if (peer.state == State::open) return FarVerdict::other_way;
  if (peer.state == State::greeting && options_.me < hello.from) return FarVerdict::other_way;
  return FarVerdict::welcome;
}

// Strangers are known by their sockets.
void FarTcp::hear_stranger(size_t socket) {
  const auto found = std::find_if(strangers_.begin(), strangers_.end(), [&](const Stranger& each) {
    return each.socket.get() == static_cast<int>(socket);
  });
  if (found == strangers_.end()) return;
  const auto index = static_cast<size_t>(found - strangers_.begin());
  Stranger& stranger = *found;
  auto* const to = stranger.is_welcome ? reinterpret_cast<std::byte*>(&stranger.begin)
                                       : reinterpret_cast<std::byte*>(&stranger.hello);
  const size_t bytes = stranger.is_welcome ? sizeof stranger.begin : sizeof stranger.hello;
  const ssize_t got =
      ::recv(stranger.socket.get(), to + stranger.got, bytes - stranger.got, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return forget_stranger(index);
  stranger.got += static_cast<uint32_t>(got);
  if (stranger.got < bytes) return;
  stranger.got = 0;
  return stranger.is_welcome ? begin_with_stranger(index) : answer_stranger(index);
}

void FarTcp::answer_stranger(size_t index) {
  Stranger& stranger = strangers_[index];
  const FarHello& hello = stranger.hello;
  if (hello.magic != FarHello::kMagic || !same_secret(hello.secret, options_.secret) ||
      hello.from >= peers_.size() || !options_.pes[hello.from] ||
      peers_[hello.from].state == State::gone) {
    return forget_stranger(index);
  }
  FarReply reply;
  reply.verdict = judge(hello);
  const bool is_told = ::send(stranger.socket.get(), &reply, sizeof reply, MSG_NOSIGNAL) ==
                       static_cast<ssize_t>(sizeof reply);
  if (!is_told || reply.verdict != FarVerdict::welcome) return forget_stranger(index);
  stranger.is_welcome = true;
  stranger.until = options_.clock->now() + limits::kFarConnect;
  Peer& peer = peers_[hello.from];
  if (peer.state == State::unused) return;
  drop_attempt(hello.from);
  peer.attempt_until = options_.clock->now() + limits::kFarHelloTime;
}

// It has heard that it is welcome, and waits for frames: what is sent now is not lost.
void FarTcp::begin_with_stranger(size_t index) {
  Stranger& stranger = strangers_[index];
  const uint32_t pe = stranger.hello.from;
  const State state = peers_[pe].state;
  if (stranger.begin.magic != FarReply::kMagic || stranger.begin.verdict != FarVerdict::begin ||
      state == State::open || state == State::gone) {
    return forget_stranger(index);
  }
  UniqueFd kept = std::move(stranger.socket);
  strangers_.erase(strangers_.begin() + static_cast<ptrdiff_t>(index));
  drop_attempt(pe);
  open(pe, std::move(kept));
}

}  // namespace penstock::symm
