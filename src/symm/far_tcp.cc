#include "far_tcp.h"

#include <algorithm>
#include <cerrno>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace penstock::symm {
namespace {

const std::byte* at(const void* base, uint64_t offset) {
  return static_cast<const std::byte*>(base) + offset;
}

}  // namespace

FarTcp::FarTcp(Options options)
    : options_(std::move(options)),
      peers_(options_.pes.size()),
      broken_(static_cast<uint32_t>(options_.pes.size())) {}

Outcome<std::unique_ptr<FarTcp>> FarTcp::start(Options options) {
  std::unique_ptr<verbs::Provider> provider = std::move(options.provider);
  std::unique_ptr<FarTcp> made(new FarTcp(std::move(options)));
  made->epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  made->wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!made->epoll_ || !made->wake_) {
    return Failure{Status::from_errno(errno),
                   "no descriptor is left for memory of other nodes (ulimit -n)"};
  }
  made->watch(EPOLL_CTL_ADD, made->options_.listener.socket.get(), EPOLLIN, kListener);
  made->open_card(std::move(provider));
  TRY_ASSIGN(made->thread_,
             start_thread("the thread of memory of other nodes", [at = made.get()] { at->run(); }));
  return made;
}

FarTcp::~FarTcp() {
  if (!is_closed_) close();
}

// ---- puts

// Ready to be sent something: there is a stream, and not too much of it waits.
Result<FarTcp::Peer*> FarTcp::reach(Lock& lock, uint32_t pe) {
  ASSERT(pe < peers_.size() && options_.pes[pe]);
  Peer& peer = peers_[pe];
  if (peer.state == State::unused) use(pe);
  const auto is_full = [&] {
    return peer.stream->queued() - peer.stream->sent() > limits::kFarUnsent;
  };
  if (peer.state != State::gone && is_full()) {
    flush(pe);
    wait_until(lock, [&] { return peer.state == State::gone || !is_full(); });
  }
  if (peer.state == State::gone) return peer.why;
  return &peer;
}

Result<FarTcp::Peer*> FarTcp::reach_to_ask(Lock& lock, uint32_t pe) {
  TRY_ASSIGN(Peer* const peer, reach(lock, pe));
  // Half of them at once: else each further question would go out alone.
  if (!peer->stream->may_ask()) {
    wait_until(lock, [&] {
      return peer->state == State::gone || peer->stream->asked() <= limits::kFarAsked / 2;
    });
  }
  if (peer->state == State::gone) return peer->why;
  return peer;
}

void FarTcp::note_put(uint32_t pe) {
  Peer& peer = peers_[pe];
  if (peer.is_unapplied) return;
  peer.is_unapplied = true;
  unapplied_.push_back(pe);
  unapplied_count_.store(static_cast<uint32_t>(unapplied_.size()), std::memory_order_relaxed);
}

// A program that puts one thing and waits until it is there does so again and again: the put goes
// out with the question that the quiet would ask, in one send. Where another thing comes first, the
// answer was for nothing, and the next put goes alone.
void FarTcp::ask_early(Peer& peer, bool goes_at_once) const {
  if (peer.has_asked_early) peer.expects_quiet = false;
  peer.has_asked_early = goes_at_once && peer.expects_quiet && peer.stream->may_ask();
  if (peer.has_asked_early) peer.stream->flush();
}

void FarTcp::note_quiet(Peer& peer) const {
  const FarStream& stream = *peer.stream;
  peer.expects_quiet =
      peer.has_asked_early || (stream.wants_flush() && stream.has_asked_for(stream.puts() - 1));
  peer.has_asked_early = false;
}

// What was queued goes out now, or with what follows.
void FarTcp::gather(uint32_t pe, bool may_go_at_once) {
  Peer& peer = peers_[pe];
  if (peer.state != State::open) return;  // goes out when it is
  const bool is_first = may_go_at_once && peer.sent_in != waits_;
  ask_early(peer, is_first);
  if (is_first || peer.stream->queued() - peer.stream->sent() >= limits::kFarGathered) {
    peer.sent_in = waits_;
    return flush(pe);
  }
  if (!peer.is_gathering) gathering_.push_back(pe);
  peer.is_gathering = true;
  // From now on it naps. Not for a question: who has asked waits, and sends it then.
  if (may_go_at_once && is_asleep_) wake();
}

Status FarTcp::put_locked(Lock& lock, uint32_t pe, FarPlace dest, Bytes source, bool is_last) {
  TRY_ASSIGN(Peer* const peer, reach(lock, pe));
  FarStream& stream = *peer->stream;
  note_put(pe);
  if (source.size() <= limits::kFarCopied) {
    stream.put(dest, source);
    if (is_last) gather(pe, true);
    return {};
  }
  if (has_card(*peer)) return put_by_card(lock, *peer, dest, source);
  stream.put_lent(dest, source);
  const uint64_t end = stream.queued();
  flush(pe);
  wait_until(lock, [&] { return stream.sent() >= end; });
  return peer->state == State::gone ? peer->why : Status();
}

Status FarTcp::put(uint32_t pe, FarPlace dest, Bytes source) {
  Lock lock(mutex_);
  return put_locked(lock, pe, dest, source, true);
}

Status FarTcp::put_signal(uint32_t pe, FarPlace dest, Bytes source, FarPlace signal,
                          const Change& change) {
  Lock lock(mutex_);
  if (!source.empty()) TRY(put_locked(lock, pe, dest, source, false));
  TRY_ASSIGN(Peer* const peer, reach(lock, pe));
  note_put(pe);
  peer->stream->change(signal, change);
  gather(pe, true);
  return {};
}

Status FarTcp::change(uint32_t pe, FarPlace word, const Change& change) {
  Lock lock(mutex_);
  TRY_ASSIGN(Peer* const peer, reach(lock, pe));
  note_put(pe);
  peer->stream->change(word, change);
  gather(pe, true);
  return {};
}

// Elements that are larger than what a frame takes go one by one.
Status FarTcp::put_row(uint32_t pe, FarPlace dest, const FarRow& row, const void* source,
                       uint64_t source_stride) {
  Lock lock(mutex_);
  const uint64_t at_once = limits::kFarRowBytes / row.element_bytes;
  std::vector<std::byte> packed(at_once > 1 ? limits::kFarRowBytes : 0);
  for (uint64_t first = 0; first < row.count;) {
    const FarPlace place = {dest.segment, dest.offset + first * row.stride};
    if (at_once <= 1) {
      const Bytes element(at(source, first * source_stride), row.element_bytes);
      TRY(put_locked(lock, pe, place, element, true));
      ++first;
      continue;
    }
    const uint64_t some = std::min(at_once, row.count - first);
    for (uint64_t i = 0; i < some; ++i) {
      std::memcpy(packed.data() + i * row.element_bytes, at(source, (first + i) * source_stride),
                  row.element_bytes);
    }
    TRY_ASSIGN(Peer* const peer, reach(lock, pe));
    note_put(pe);
    peer->stream->put_row(place, {some, row.element_bytes, row.stride},
                          Bytes(packed).first(some * row.element_bytes));
    gather(pe, true);
    first += some;
  }
  return {};
}

// ---- what is answered

Status FarTcp::start_get(uint32_t pe, MutableBytes dest, FarPlace source, FarAnswer* answer) {
  Lock lock(mutex_);
  TRY_ASSIGN(Peer* const peer, reach_to_ask(lock, pe));
  if (dest.size() > limits::kFarCopied && has_card(*peer))
    return get_by_card(pe, source, dest, answer);
  peer->stream->get(source, dest, answer);
  gather(pe, false);
  return {};
}

Status FarTcp::start_change(uint32_t pe, FarPlace word, const Change& change, FarAnswer* answer) {
  Lock lock(mutex_);
  TRY_ASSIGN(Peer* const peer, reach_to_ask(lock, pe));
  peer->stream->change(word, change, answer);
  gather(pe, false);
  return {};
}

Status FarTcp::get_later(uint32_t pe, MutableBytes dest, FarPlace source) {
  Lock lock(mutex_);
  TRY_ASSIGN(Peer* const peer, reach_to_ask(lock, pe));
  note_put(pe);
  if (dest.size() > limits::kFarCopied && has_card(*peer))
    return get_by_card(pe, source, dest, nullptr);
  peer->stream->get_later(source, dest);
  gather(pe, true);
  return {};
}

Status FarTcp::change_later(uint32_t pe, FarPlace word, const Change& change, void* dest) {
  Lock lock(mutex_);
  TRY_ASSIGN(Peer* const peer, reach_to_ask(lock, pe));
  note_put(pe);
  peer->stream->change_later(word, change, dest);
  gather(pe, true);
  return {};
}

Status FarTcp::finish(FarAnswer* answer) {
  Lock lock(mutex_);
  ++waits_;
  wait_until(lock, [&] { return answer->awaited == 0; });
  return answer->status;
}

Status FarTcp::get_row(uint32_t pe, void* dest, uint64_t dest_stride, FarPlace source,
                       const FarRow& row) {
  const uint64_t at_once = std::max<uint64_t>(limits::kFarRowBytes / row.element_bytes, 1);
  std::vector<std::byte> packed(std::min(at_once, row.count) * row.element_bytes);
  for (uint64_t first = 0; first < row.count;) {
    const uint64_t some = std::min(at_once, row.count - first);
    const MutableBytes part = MutableBytes(packed).first(some * row.element_bytes);
    const FarPlace place = {source.segment, source.offset + first * row.stride};
    FarAnswer answer;
    if (some == 1) {
      TRY(start_get(pe, part, place, &answer));
    } else {
      Lock lock(mutex_);
      TRY_ASSIGN(Peer* const peer, reach_to_ask(lock, pe));
      peer->stream->get_row(place, {some, row.element_bytes, row.stride}, part, &answer);
      gather(pe, false);
    }
    TRY(finish(&answer));
    for (uint64_t i = 0; i < some; ++i) {
      std::memcpy(static_cast<std::byte*>(dest) + (first + i) * dest_stride,
                  packed.data() + i * row.element_bytes, row.element_bytes);
    }
    first += some;
  }
  return {};
}

// ---- completion

FarTcp::Until FarTcp::until_now(const Peer& peer) {
  return {peer.stream->puts(), peer.pair ? peer.pair->started() : 0};
}

Status FarTcp::applied_at(Lock& lock, uint32_t pe, const Until& until) {
  Peer& peer = peers_[pe];
  const auto card_has_done = [&](uint64_t ops) { return !peer.pair || peer.pair->done() >= ops; };
  wait_until(lock, [&] {
    return peer.state == State::gone ||
           (peer.stream->applied() >= until.puts && card_has_done(until.ops));
  });
  const bool is_all =
      peer.state == State::gone || (peer.stream->applied() == peer.stream->puts() &&
                                    (!peer.pair || peer.pair->done() == peer.pair->started()));
  if (is_all && peer.is_unapplied) {
    peer.is_unapplied = false;
    std::erase(unapplied_, pe);
    unapplied_count_.store(static_cast<uint32_t>(unapplied_.size()), std::memory_order_relaxed);
  }
  return peer.state == State::gone ? peer.why : Status();
}

Status FarTcp::quiet() {
  if (unapplied_count_.load(std::memory_order_relaxed) == 0) return {};
  Lock lock(mutex_);
  ++waits_;
  struct Wanted {
    uint32_t pe;
    Until until;
  };
  std::vector<Wanted> wanted;
  for (const uint32_t pe : unapplied_) wanted.push_back({pe, until_now(peers_[pe])});
  Status first;
  // All are asked before one is waited for.
  for (const Wanted& each : wanted) {
    const auto peer = reach_to_ask(lock, each.pe);
    if (!peer) continue;
    note_quiet(**peer);
    (*peer)->stream->flush();
    flush(each.pe);
  }
  for (const Wanted& each : wanted) {
    const Status status = applied_at(lock, each.pe, each.until);
    if (first.ok()) first = status;
  }
  return first;
}

Status FarTcp::quiet(uint32_t pe) {
  Lock lock(mutex_);
  ++waits_;
  if (!peers_[pe].is_unapplied) return {};
  const Until until = until_now(peers_[pe]);
  if (const auto peer = reach_to_ask(lock, pe)) {
    note_quiet(**peer);
    (*peer)->stream->flush();
    flush(pe);
  }
  return applied_at(lock, pe, until);
}

Status FarTcp::tell(uint32_t pe, FarPlace word, const Change& change) {
  Lock lock(mutex_);
  TRY_ASSIGN(Peer* const peer, reach(lock, pe));
  peer->stream->tell(word, change);
  flush(pe);
  return {};
}

bool FarTcp::progress() {
  turns_of_calls_.fetch_add(1, std::memory_order_relaxed);
  const Lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  ++waits_;
  return turn();
}

void FarTcp::doze(uint32_t microseconds) {
  if (card_ != nullptr) {
    const Lock lock(mutex_, std::try_to_lock);
    if (lock.owns_lock() && !may_sleep()) return;
  }
  pollfd ready{epoll_.get(), POLLIN, 0};
  const timespec time{0, int64_t{microseconds} * 1000};
  (void)::ppoll(&ready, 1, &time, nullptr);
}

std::optional<uint32_t> FarTcp::broken() const {
  const uint32_t pe = broken_.load(std::memory_order_acquire);
  return pe < peers_.size() ? std::optional(pe) : std::nullopt;
}

void FarTcp::close() {
  Lock lock(mutex_);
  is_closed_ = true;
  const engine::Time until = options_.clock->now() + limits::kFarClose;
  const auto is_late = [&] { return options_.clock->now() >= until; };
  const auto all = [&](auto&& is_so) {
    return std::all_of(peers_.begin(), peers_.end(), [&](const Peer& peer) {
      return peer.state == State::unused || peer.state == State::gone || is_so(peer);
    });
  };
  wait_until(lock, [&] {
    return is_late() || all([](const Peer& peer) { return !peer.stream->has_unsent(); });
  });
  for (const uint32_t pe : std::vector(open_)) {
    peers_[pe].stream->say_bye();
    flush(pe);
  }
  wait_until(lock, [&] {
    return is_late() || all([](const Peer& peer) { return !peer.stream->has_unsent(); });
  });
  wait_until(lock, [&] {
    return is_late() || all([](const Peer& peer) { return !peer.pair || peer.pair->is_idle(); });
  });
  // What is not acknowledged when a socket is closed may be lost by what comes afterwards.
  for (const uint32_t pe : open_) ::shutdown(peers_[pe].socket.get(), SHUT_WR);
  wait_until(lock, [&] {
    return is_late() || all([](const Peer& peer) {
             int unacknowledged = 0;
             return !peer.socket || ::ioctl(peer.socket.get(), SIOCOUTQ, &unacknowledged) != 0 ||
                    unacknowledged == 0;
           });
  });
  is_stopping_.store(true, std::memory_order_release);
  wake();
  lock.unlock();
  if (thread_.joinable()) thread_.join();
  for (Peer& peer : peers_) {
    if (peer.pair) peer.stream->end(Code::closed);
    if (peer.pair) peer.pair->end(Code::closed);
    close_socket(&peer.socket);
  }
  // No pair is left; memory is forgotten by the card before it goes.
  card_.reset();
  strangers_.clear();
}

}  // namespace penstock::symm
