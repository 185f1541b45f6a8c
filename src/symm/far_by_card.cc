// What goes by queue pairs beside the connections to PEs of other nodes.
#include "far_tcp.h"

#include <algorithm>
#include <sys/epoll.h>

namespace penstock::symm {

void FarTcp::open_card(std::unique_ptr<verbs::Provider> provider) {
  lack_ = options_.lack;
  if (provider == nullptr) return;
  auto card = FarCard::open({.provider = std::move(provider),
                             .segments = options_.segments,
                             .pinned_bytes_max = options_.pinned_bytes_max,
                             .clock = options_.clock});
  if (!card) {
    lack_ = FarLack::too_many;
    return;
  }
  lack_ = FarLack::none;
  card_ = std::move(*card);
  if (const int descriptor = card_->wake_descriptor(); descriptor >= 0)
    watch(EPOLL_CTL_ADD, descriptor, EPOLLIN, kCard);
}

// Of a connection that has just opened. The other one may have no queue pair, though it has a card.
void FarTcp::begin_pair(uint32_t pe) {
  Peer& peer = peers_[pe];
  if (card_ == nullptr || options_.lacks[pe] != FarLack::none) return;
  peer.pair = std::make_unique<FarPair>(*card_, *peer.stream, pe);
  peer.pair->begin();
  (void)note_lack(pe);
}

// What of the stream goes by the socket still.
uint64_t FarTcp::unsent_by_socket(const Peer& peer) const {
  const FarStream& stream = *peer.stream;
  const uint64_t end =
      peer.pair ? std::min(stream.queued(), peer.pair->moved_at()) : stream.queued();
  return end > stream.sent() ? end - stream.sent() : 0;
}

Status FarTcp::put_by_card(Lock& lock, Peer& peer, FarPlace dest, Bytes source) {
  FarAnswer answer;
  peer.pair->put(dest, source, &answer);
  peer.pair->pump();
  wait_until(lock, [&] { return answer.awaited == 0; });
  return peer.state == State::gone ? peer.why : answer.status;
}

Status FarTcp::get_by_card(uint32_t pe, FarPlace source, MutableBytes dest, FarAnswer* answer) {
  peers_[pe].pair->get(source, dest, answer);
  // With the frames before it.
  flush(pe);
  return {};
}

// Says so once where its queue pair is refused. False: it is lost by that.
bool FarTcp::note_lack(uint32_t pe) {
  Peer& peer = peers_[pe];
  if (peer.is_lack_noted || !peer.pair || peer.pair->lack() == FarLack::none) return true;
  peer.is_lack_noted = true;
  log::info("symmetric memory: PE {} is reached over TCP: {}: {}", pe,
            peer.pair->is_lack_of_peer() ? "the PE" : "this one", text_of(peer.pair->lack()));
  if (!options_.needs_card) return true;
  lose(pe, Code::peer_gone);
  return false;
}

// Of one for which there is no queue pair here: only an offer and a refusal make sense.
Status FarTcp::hear_without_pair(FarStream& stream) const {
  while (const auto word = stream.hear()) {
    if (word->frame.kind != FarKind::card) return Code::bad_message;
    const auto what = static_cast<FarCardWord>(word->frame.op);
    if (what == FarCardWord::offer) {
      stream.say({.kind = FarKind::card,
                  .op = static_cast<uint8_t>(FarCardWord::refused),
                  .width = static_cast<uint8_t>(lack_ != FarLack::none ? lack_ : FarLack::off)});
    } else if (what != FarCardWord::refused) {
      return Code::bad_message;
    }
  }
  return {};
}

// Words of the peer's card that its stream has brought. False: it is lost by them.
bool FarTcp::hear(uint32_t pe) {
  Peer& peer = peers_[pe];
  const Status heard = peer.pair ? peer.pair->hear_all() : hear_without_pair(*peer.stream);
  if (heard.ok()) return note_lack(pe);
  log::error("symmetric memory: PE {} says what no PE says: its connection is ended", pe);
  lose(pe, Code::peer_gone);
  return false;
}

// What the card has done since.
bool FarTcp::turn_card() {
  const bool has_worked = card_->poll();
  for (const uint32_t pe : card_->take_touched()) {
    if (peers_[pe].state == State::open) take_from_pair(pe);
  }
  // Backwards: one that is lost is taken out.
  for (size_t i = open_.size(); i-- > 0;) {
    const Peer& peer = peers_[open_[i]];
    if (peer.pair && (peer.pair->wants_pump() || unsent_by_socket(peer) != 0)) flush(open_[i]);
  }
  return has_worked;
}

void FarTcp::take_from_pair(uint32_t pe) {
  Peer& peer = peers_[pe];
  if (!peer.pair) return;
  if (const Status taken = peer.pair->take_in(); !taken.ok()) {
    log::error("symmetric memory: PE {} says what no PE says: its connection is ended", pe);
    return lose(pe, Code::peer_gone);
  }
  if (!note_lack(pe) || !peer.pair->is_broken()) return;
  // Perhaps the process has ended, and its connection has more to say.
  while (peer.state == State::open && !peer.pair->has_moved_in() && receive(pe)) {
  }
  lose(pe, Status(Code::peer_gone, peer.pair->why().detail()));
}

// What a peer sent by its queue pair before its connection ended counts.
void FarTcp::drain(uint32_t pe) {
  Peer& peer = peers_[pe];
  if (peer.state != State::open || !peer.pair) return;
  while (card_->poll()) {
  }
  // What is wrong with it matters no more.
  (void)peer.pair->take_in();
}

void FarTcp::look_at_pairs() {
  const engine::Time now = options_.clock->now();
  for (size_t i = open_.size(); i-- > 0;) {
    const uint32_t pe = open_[i];
    Peer& peer = peers_[pe];
    if (!peer.pair || !peer.pair->has_times()) continue;
    peer.pair->look(now);
    if (note_lack(pe)) flush(pe);
  }
}

bool FarTcp::has_pair_times() const {
  return std::any_of(open_.begin(), open_.end(),
                     [&](uint32_t pe) { return peers_[pe].pair && peers_[pe].pair->has_times(); });
}

// What completes from now on wakes.
bool FarTcp::may_sleep() {
  return card_->arm();
}

FarWay FarTcp::way(uint32_t pe) {
  const Lock lock(mutex_);
  const Peer& peer = peers_[pe];
  FarWay way;
  if (card_ != nullptr) way.device = card_->name();
  if (lack_ != FarLack::none) {
    way.why = lack_ == options_.lack ? options_.why_no_card : text_of(lack_);
  } else if (options_.lacks[pe] != FarLack::none) {
    way.why = fmt::format("PE {}: {}", pe, text_of(options_.lacks[pe]));
  } else if (!peer.pair || !peer.pair->is_decided()) {
    way.is_decided = peer.state == State::gone;
    way.why = "it is being tried";
  } else if (peer.pair->lack() != FarLack::none) {
    way.why = peer.pair->is_lack_of_peer()
                  ? fmt::format("PE {}: {}", pe, text_of(peer.pair->lack()))
                  : fmt::format("this PE: {}", text_of(peer.pair->lack()));
  } else {
    way.is_rdma = true;
  }
  return way;
}

}  // namespace penstock::symm
