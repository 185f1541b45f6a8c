// What is done for memory of other nodes between two looks at what a call waits for, or by the
// thread.
#include "far_tcp.h"

#include <algorithm>
#include <cerrno>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace penstock::symm {
namespace {

constexpr int kEventsAtOnce = 64;
constexpr uint32_t kPiecesAtOnce = 16;
// So few are asked each for itself, which spares a call where something has come.
constexpr size_t kFew = 2;
constexpr uint32_t kTurnsPerEvents = 32;
constexpr uint32_t kTurnsPerTimes = 64;
// From one peer in one turn, so that others have theirs.
constexpr uint64_t kReceiveAtOnce = uint64_t{4} << 20;
constexpr uint64_t kSendAtOnce = uint64_t{4} << 20;
constexpr int kTimesMilliseconds = 50;

// The first `bytes` of them; returns how many pieces that are.
uint32_t up_to(uint64_t bytes, iovec* pieces, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    pieces[i].iov_len = std::min<uint64_t>(pieces[i].iov_len, bytes);
    bytes -= pieces[i].iov_len;
    if (bytes == 0) return i + 1;
  }
  return count;
}

}  // namespace

void FarTcp::watch(int operation, int socket, uint32_t events, uint64_t what) const {
  epoll_event event{};
  event.events = events;
  event.data.u64 = what;
  ASSERT(::epoll_ctl(epoll_.get(), operation, socket, &event) == 0 || errno == ENOMEM ||
         errno == ENOSPC);
}

// A child of fork() may have it still, so that it would stay in epoll.
void FarTcp::close_socket(UniqueFd* socket) const {
  if (!*socket) return;
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket->get(), nullptr);
  socket->reset();
}

bool FarTcp::turn(bool is_thread) {
  send_gathered();
  bool has_worked = false;
  if (++turns_since_times_ >= kTurnsPerTimes) {
    turns_since_times_ = 0;
    look_at_times();
  }
  if (options_.trouble->load(std::memory_order_acquire) != seen_trouble_) look_for_ends();
  if (card_ != nullptr) has_worked |= turn_card();
  if (!is_thread && open_.size() <= kFew && connecting_.empty() && strangers_.empty() &&
      turns_since_times_ % kTurnsPerEvents != 0) {
    // Backwards: one that is lost is taken out.
    for (size_t i = open_.size(); i-- > 0;) {
      const uint32_t pe = open_[i];
      // Its connection has nothing more to say but that it ends.
      if (peers_[pe].pair && peers_[pe].pair->has_moved_in()) continue;
      has_worked |= receive(pe);
      if (peers_[pe].state == State::open && peers_[pe].stream->has_unsent()) {
        const uint64_t before = peers_[pe].stream->sent();
        flush(pe);
        has_worked |= peers_[pe].stream->sent() != before;
      }
    }
    return has_worked;
  }
  epoll_event events[kEventsAtOnce];
  const int count = ::epoll_wait(epoll_.get(), events, kEventsAtOnce, 0);
  for (int i = 0; i < count; ++i) has_worked |= handle(events[i], is_thread);
  return has_worked;
}

bool FarTcp::handle(const epoll_event& event, bool is_thread) {
  const auto index = static_cast<uint32_t>(event.data.u64);
  switch (event.data.u64 - index) {
    case kListener:
      accept_strangers();
      return true;
    case kStranger:
      hear_stranger(index);
      return true;
    case kCard:
      // The thread's: who takes it away from the thread while that sleeps would have to wake it, as
      // it is said once only. What has completed is taken by all.
      if (is_thread) card_->disarm();
      return is_thread && turn_card();
    case kPeer:
      switch (peers_[index].state) {
        case State::connecting:
          greet(index);
          return true;
        case State::greeting:
          hear_reply(index);
          return true;
        case State::open: {
          const bool has_worked = receive(index);
          if (peers_[index].state == State::open && (event.events & EPOLLOUT) != 0) flush(index);
          return has_worked;
        }
        default:
          return false;  // of a socket that is closed by now
      }
    default:
      return false;
  }
}

bool FarTcp::receive(uint32_t pe) {
  Peer& peer = peers_[pe];
  FarStream& stream = *peer.stream;
  uint64_t all = 0;
  while (all < kReceiveAtOnce) {
    iovec pieces[2];
    const uint32_t count = stream.room(pieces);
    const size_t asked = pieces[0].iov_len + (count == 2 ? pieces[1].iov_len : 0);
    msghdr message{};
    message.msg_iov = pieces;
    message.msg_iovlen = count;
    const ssize_t got =
        count == 1 ? ::recv(peer.socket.get(), pieces[0].iov_base, pieces[0].iov_len, MSG_DONTWAIT)
                   : ::recvmsg(peer.socket.get(), &message, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (got <= 0) {
      drain(pe);
      lose(pe, Status(Code::peer_gone, got < 0 ? static_cast<uint32_t>(errno) : 0));
      return true;
    }
    all += static_cast<uint64_t>(got);
    // After the last frame of a connection that has moved nothing comes by it.
    const bool is_over = peer.pair && peer.pair->has_moved_in();
    const Status taken =
        is_over ? Status(Code::bad_message) : stream.received(static_cast<uint64_t>(got));
    if (!taken.ok()) {
      log::error("symmetric memory: PE {} says what no PE says: its connection is ended", pe);
      lose(pe, Code::peer_gone);
      return true;
    }
    if (!hear(pe)) return true;
    if (static_cast<size_t>(got) < asked) break;
  }
  if (all != 0 && stream.has_unsent() && !peer.is_watched_out) flush(pe);
  return all != 0;
}

void FarTcp::flush(uint32_t pe) {
  Peer& peer = peers_[pe];
  if (peer.state != State::open) return;
  FarStream& stream = *peer.stream;
  uint64_t all = 0;
  while (const uint64_t unsent = unsent_by_socket(peer)) {
    if (all >= kSendAtOnce) break;
    iovec pieces[kPiecesAtOnce];
    msghdr message{};
    message.msg_iov = pieces;
    message.msg_iovlen = up_to(unsent, pieces, stream.unsent(pieces, kPiecesAtOnce));
    const ssize_t sent = message.msg_iovlen == 1
                             ? ::send(peer.socket.get(), pieces[0].iov_base, pieces[0].iov_len,
                                      MSG_DONTWAIT | MSG_NOSIGNAL)
                             : ::sendmsg(peer.socket.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
      stream.sent(static_cast<uint64_t>(sent));
      all += static_cast<uint64_t>(sent);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) break;
    const Status why(Code::peer_gone, static_cast<uint32_t>(errno));
    // What it sent before it ended counts.
    while (peer.state == State::open && receive(pe)) {
    }
    return lose(pe, why);
  }
  if (peer.pair) peer.pair->pump();
  const bool has_unsent = unsent_by_socket(peer) != 0;
  if (has_unsent == peer.is_watched_out) return;
  peer.is_watched_out = has_unsent;
  watch(
      EPOLL_CTL_MOD, peer.socket.get(),
      static_cast<uint32_t>(EPOLLIN) | (peer.is_watched_out ? static_cast<uint32_t>(EPOLLOUT) : 0U),
      kPeer | pe);
}

void FarTcp::send_gathered() {
  for (const uint32_t pe : gathering_) {
    peers_[pe].is_gathering = false;
    flush(pe);
  }
  gathering_.clear();
}

// The connection has ended, whether anybody waits for it or not.
void FarTcp::lose(uint32_t pe, Status why) {
  Peer& peer = peers_[pe];
  if (peer.state == State::gone) return;
  if (!peer.stream) peer.stream = std::make_unique<FarStream>(options_.segments);
  const bool is_good = peer.stream->has_said_bye();
  peer.state = State::gone;
  peer.why = why;
  close_socket(&peer.socket);
  peer.stream->end(why);
  if (peer.pair) peer.pair->end(why);
  std::erase(open_, pe);
  // Of others it is the job that tells.
  if (!is_good && options_.takes_part(pe)) {
    uint32_t none = static_cast<uint32_t>(peers_.size());
    // Pairs with broken().
    broken_.compare_exchange_strong(none, pe, std::memory_order_release, std::memory_order_relaxed);
  }
}

void FarTcp::look_at_times() {
  if (card_ != nullptr) look_at_pairs();
  if (connecting_.empty() && strangers_.empty() && is_listening_) return;
  const engine::Time now = options_.clock->now();
  if (!is_listening_ && now >= listen_again_at_) {
    is_listening_ = true;
    watch(EPOLL_CTL_MOD, options_.listener.socket.get(), EPOLLIN, kListener);
  }
  for (size_t i = strangers_.size(); i-- > 0;) {
    if (strangers_[i].socket && now >= strangers_[i].until) forget_stranger(i);
  }
  for (size_t i = connecting_.size(); i-- > 0;) {
    const uint32_t pe = connecting_[i];
    Peer& peer = peers_[pe];
    if (peer.state == State::open || peer.state == State::gone) {
      connecting_.erase(connecting_.begin() + static_cast<ptrdiff_t>(i));
    } else if (now >= peer.attempt_until) {
      attempt(pe);
    }
  }
}

// PEs whose end the job has told: what they sent before is taken still.
void FarTcp::look_for_ends() {
  seen_trouble_ = options_.trouble->load(std::memory_order_acquire);
  for (const uint32_t pe : options_.ended()) {
    if (pe >= peers_.size() || !options_.pes[pe]) continue;
    while (peers_[pe].state == State::open && receive(pe)) {
    }
    drain(pe);
    lose(pe, Code::peer_gone);
  }
}

void FarTcp::wake() {
  const uint64_t one = 1;
  is_asleep_ = false;
  (void)!::write(wake_.get(), &one, sizeof one);
}

// The thread. Asleep until something comes as long as no call looks; else it naps. Whoever gathers
// something while it sleeps wakes it, so that nothing waits longer than a nap.
void FarTcp::run() {
  uint64_t seen = turns_of_calls_.load(std::memory_order_relaxed);
  while (!is_stopping_.load(std::memory_order_acquire)) {
    bool has_times = false;
    bool is_ready = false;
    {
      const Lock lock(mutex_);
      look_at_times();
      turn(true);
      is_asleep_ = true;
      has_times = !connecting_.empty() || !strangers_.empty() || !is_listening_ || has_pair_times();
      is_ready = card_ != nullptr && !may_sleep();
    }
    pollfd ready[] = {{epoll_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
    (void)::poll(ready, 2, is_ready ? 0 : has_times ? kTimesMilliseconds : -1);
    uint64_t count = 0;
    const bool was_woken = ::read(wake_.get(), &count, sizeof count) > 0;
    uint64_t now = turns_of_calls_.load(std::memory_order_relaxed);
    if (now == seen && !was_woken) continue;
    do {
      seen = now;
      {
        const Lock lock(mutex_);
        is_asleep_ = false;
      }
      pollfd woken{wake_.get(), POLLIN, 0};
      const timespec nap{0, std::chrono::nanoseconds(limits::kFarNap).count()};
      if (::ppoll(&woken, 1, &nap, nullptr) > 0) break;
      const Lock lock(mutex_, std::try_to_lock);
      if (lock.owns_lock()) turn(true);
      now = turns_of_calls_.load(std::memory_order_relaxed);
    } while (now != seen && !is_stopping_.load(std::memory_order_acquire));
  }
}

}  // namespace penstock::symm
