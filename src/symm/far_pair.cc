// How a queue pair comes to be used, its messages, and its end.
#include "far_pair.h"

#include <algorithm>

namespace penstock::symm {
namespace {

constexpr uint32_t kPayloadMax = limits::kFarMessageBytes - sizeof(FarMessage);
// What else may be under way beside messages and pieces.
static_assert(limits::kFarReceives + 1 + 2 * limits::kFarBinds + limits::kFarFlying <
              verbs::limits::kWorkMax);
static_assert(limits::kFarReceives <= verbs::limits::kReceivesOfLink);
static_assert(limits::kFarOfferBytes == verbs::limits::kOfferBytes);

}  // namespace

FarPair::FarPair(FarCard& card, FarStream& stream, uint32_t pe)
    : card_(card), stream_(stream), pe_(pe) {}

FarPair::~FarPair() {
  ASSERT(!id_ && ops_.empty());
}

// ---- until it is used

void FarPair::begin() {
  begun_ = card_.now();
  const auto id = card_.provider().create_queue_pair();
  if (!id) return refuse(FarLack::too_many);
  id_ = *id;
  if (!card_.enter(this, *id).ok()) return refuse(FarLack::too_many);
  const verbs::Offer offer{card_.provider().endpoint(*id), limits::kFarCredits, 1};
  const verbs::OfferBytes bytes = verbs::encode_offer(offer);
  stream_.say({.kind = FarKind::card, .op = static_cast<uint8_t>(FarCardWord::offer)}, bytes);
}

void FarPair::say(FarCardWord word, FarLack lack) {
  stream_.say({.kind = FarKind::card,
               .op = static_cast<uint8_t>(word),
               .width = static_cast<uint8_t>(lack)});
}

// Before it has passed here, so that the peer has not moved.
void FarPair::refuse(FarLack lack) {
  ASSERT(!has_passed_);
  lack_ = lack;
  say(FarCardWord::refused, lack);
  close();
}

Status FarPair::hear_all() {
  while (const auto heard = stream_.hear()) TRY(hear(*heard));
  return {};
}

Status FarPair::hear(const FarHeard& heard) {
  if (heard.frame.kind == FarKind::window_wanted) return hear_wanted(heard.frame);
  if (heard.frame.kind == FarKind::window) return hear_window(heard.frame);
  const auto word = static_cast<FarCardWord>(heard.frame.op);
  if (word == FarCardWord::refused) {
    if (has_peer_passed_) return Code::bad_message;
    if (lack_ != FarLack::none) return {};
    lack_ = static_cast<FarLack>(heard.frame.width);
    if (lack_ == FarLack::none) return Code::bad_message;
    is_lack_of_peer_ = true;
    close();
    return {};
  }
  // It may have been said before the refusal was heard.
  if (lack_ != FarLack::none) return word == FarCardWord::moved ? Code::bad_message : Code::ok;
  switch (word) {
    case FarCardWord::offer:
      return hear_offer(heard);
    case FarCardWord::ready:
      is_peer_ready_ = true;
      try_out();
      return {};
    case FarCardWord::passed:
      if (!is_connected_) return Code::bad_message;
      has_peer_passed_ = true;
      move_if_agreed();
      return {};
    default:
      // Only when both have passed.
      if (!has_peer_passed_ || !has_passed_) return Code::bad_message;
      has_moved_in_ = true;
      card_.touch(pe_);
      return {};
  }
}

Status FarPair::hear_offer(const FarHeard& heard) {
  const auto offer = verbs::decode_offer(heard.offer);
  if (!offer || offer->credits != limits::kFarCredits) return Code::bad_message;
  if (!card_.provider().connect(*id_, offer->endpoint).ok()) {
    refuse(FarLack::not_joined);
    return {};
  }
  is_connected_ = true;
  say(FarCardWord::ready);
  try_out();
  return {};
}

// A message of the largest size, which the peer's card acknowledges.
void FarPair::try_out() {
  if (!is_connected_ || !is_peer_ready_ || is_trying_) return;
  is_trying_ = true;
  const auto slot = card_.take_slot(false);
  if (!slot) return refuse(FarLack::too_many);
  std::memset(card_.slot(*slot).at, 0, limits::kFarMessageBytes);
  post_message(FarMessage::Kind::trial, *slot, kPayloadMax);
}

void FarPair::move_if_agreed() {
  if (!has_passed_ || !has_peer_passed_ || has_moved()) return;
  say(FarCardWord::moved);
  moved_at_ = stream_.queued();
}

void FarPair::look(engine::Time now) {
  if (is_over_ || !id_) return;
  if (!has_passed_ && now - begun_ > limits::kFarTrial)
    return refuse(is_connected_ ? FarLack::not_through : FarLack::not_joined);
  const bool is_late = in_flight_ != 0 && now - since_ > limits::kFarCardSilence;
  // Not at the first look: this process may have stood still, and what has completed is not taken.
  if (is_late && was_late_) break_by(Code::timed_out);
  was_late_ = is_late;
}

void FarPair::break_by(Status why) {
  if (is_broken_ || !id_) return;
  // Until the peer may have moved, there is another way.
  if (!has_passed_) return refuse(FarLack::not_through);
  is_broken_ = true;
  why_ = why;
  card_.touch(pe_);
}

// First nothing goes on any more, then windows may go, and then the pair.
void FarPair::close() {
  if (id_) {
    verbs::Provider& provider = card_.provider();
    provider.break_queue_pair(*id_);
    for (const verbs::WindowId window : windows_) provider.destroy_window(window);
    provider.destroy_queue_pair(*id_);
    card_.leave(this, *id_);
    id_.reset();
  }
  windows_.clear();
  wanted_.clear();
  for (const Held& held : held_) card_.receive_again(held.slot);
  held_.clear();
  in_flight_ = sends_ = credit_sends_ = binds_ = pieces_ = 0;
  piece_bytes_ = 0;
}

void FarPair::end(Status status) {
  if (is_over_) return;
  is_over_ = true;
  close();
  for (FarOp& op : ops_) {
    ASSERT(op.frames.awaited == 0);
    if (op.answer == nullptr || op.is_released) continue;
    if (op.answer->status.ok()) op.answer->status = status;
    --op.answer->awaited;
  }
  ops_.clear();
  posted_ops_ = 0;
  done_ = started_;
}

// ---- messages

void FarPair::arrived(uint32_t slot, uint32_t length) {
  ++arrived_;
  held_.push_back({slot, length});
  card_.touch(pe_);
}

Status FarPair::take_in() {
  while (!held_.empty()) {
    const Held held = held_.front();
    FarMessage header;
    TRY(take_header(held, &header));
    // Its bytes follow those of the connection.
    if (header.kind == FarMessage::Kind::bytes && !has_moved_in_) break;
    held_.pop_front();
    const Status taken = header.kind == FarMessage::Kind::bytes ? take_message(held) : Status();
    card_.receive_again(held.slot);
    TRY(taken);
    TRY(hear_all());
    if (!id_) break;
  }
  return {};
}

// Of the message that is next, perhaps again.
Status FarPair::take_header(const Held& held, FarMessage* header) {
  if (held.length < sizeof *header) return Code::bad_message;
  std::memcpy(header, card_.slot(held.slot).at, sizeof *header);
  const uint32_t returned = header->taken - taken_there_;
  if (returned > sent_ - taken_there_ || header->reserved != std::array<uint8_t, 3>{})
    return Code::bad_message;
  switch (header->kind) {
    case FarMessage::Kind::bytes:
      if (held.length == sizeof *header) return Code::bad_message;
      // One that could not be taken yet is looked at again.
      if (!has_moved_in_) return {};
      break;
    case FarMessage::Kind::trial:
      break;
    case FarMessage::Kind::credit:
      // Such uses none, so there must be few.
      if (returned < limits::kFarCredits / 4 || held.length != sizeof *header)
        return Code::bad_message;
      --arrived_;
      taken_there_ = header->taken;
      return {};
    default:
      return Code::bad_message;
  }
  // Those that return credits have come among them.
  if (arrived_ - told_ > limits::kFarReceives) return Code::bad_message;
  taken_there_ = header->taken;
  ++taken_;
  return {};
}

Status FarPair::take_message(const Held& held) {
  Bytes bytes(card_.slot(held.slot).at + sizeof(FarMessage), held.length - sizeof(FarMessage));
  while (!bytes.empty()) {
    iovec rooms[2];
    const uint32_t count = stream_.room(rooms);
    uint64_t placed = 0;
    for (uint32_t i = 0; i < count && !bytes.empty(); ++i) {
      const size_t some = std::min(rooms[i].iov_len, bytes.size());
      std::memcpy(rooms[i].iov_base, bytes.data(), some);
      bytes = bytes.subspan(some);
      placed += some;
    }
    TRY(stream_.received(placed));
  }
  return {};
}

// `bytes` stand behind the place of its header already. The slot is used up.
bool FarPair::post_message(FarMessage::Kind kind, uint32_t slot, uint32_t bytes) {
  const FarCard::Slot& at = card_.slot(slot);
  const FarMessage header{taken_, kind, {}};
  std::memcpy(at.at, &header, sizeof header);
  FarWork work{.pair = this, .kind = FarWork::Kind::message, .has_slot = true, .slot = slot};
  if (kind == FarMessage::Kind::credit) work.kind = FarWork::Kind::credit;
  if (kind == FarMessage::Kind::trial) work.kind = FarWork::Kind::trial;
  const Status posted = card_.post(
      *id_,
      {.verb = verbs::Verb::send, .local = {at.at, sizeof header + bytes}, .memory = at.memory},
      work);
  if (!posted.ok()) {
    card_.release_slot(slot);
    break_by(posted);
    return false;
  }
  if (in_flight_++ == 0) since_ = card_.now();
  told_ = taken_;
  if (kind == FarMessage::Kind::credit) {
    ++credit_sends_;
  } else {
    ++sent_;
    ++sends_;
  }
  return true;
}

void FarPair::send_messages() {
  while (has_moved() && stream_.sent() >= moved_at_ && stream_.has_unsent() && credits() > 0 &&
         sends_ < limits::kFarCredits) {
    const auto slot = card_.take_slot(false);
    if (!slot) return;
    constexpr uint32_t kPieces = 16;
    iovec pieces[kPieces];
    const uint32_t count = stream_.unsent(pieces, kPieces);
    std::byte* const to = card_.slot(*slot).at + sizeof(FarMessage);
    uint32_t bytes = 0;
    for (uint32_t i = 0; i < count && bytes < kPayloadMax; ++i) {
      const auto some =
          static_cast<uint32_t>(std::min<uint64_t>(pieces[i].iov_len, kPayloadMax - bytes));
      std::memcpy(to + bytes, pieces[i].iov_base, some);
      bytes += some;
    }
    if (!post_message(FarMessage::Kind::bytes, *slot, bytes)) return;
    stream_.sent(bytes);
  }
}

// Half of them, which nothing else has told.
void FarPair::return_credit() {
  if (taken_ - told_ < limits::kFarCredits / 2 || credit_sends_ >= limits::kFarCreditMessages)
    return;
  if (const auto slot = card_.take_slot(false)) post_message(FarMessage::Kind::credit, *slot, 0);
}

void FarPair::pump() {
  if (!id_ || is_broken_ || !is_connected_) return;
  show_windows();
  post_ops();
  send_messages();
  if (!is_broken_ && id_) return_credit();
  settle();
}

bool FarPair::wants_pump() const {
  if (!id_ || is_broken_) return false;
  return !ops_.empty() || !wanted_.empty() || (has_moved() && stream_.has_unsent()) ||
         taken_ - told_ >= limits::kFarCredits / 2;
}

void FarPair::completed(const FarWork& work, Status status) {
  if (!status.ok()) return break_by(status);
  --in_flight_;
  since_ = card_.now();
  switch (work.kind) {
    case FarWork::Kind::message:
      --sends_;
      break;
    case FarWork::Kind::credit:
      --credit_sends_;
      break;
    case FarWork::Kind::trial:
      --sends_;
      has_passed_ = true;
      say(FarCardWord::passed);
      move_if_agreed();
      break;
    case FarWork::Kind::bind:
      --binds_;
      break;
    case FarWork::Kind::piece:
      --pieces_;
      piece_bytes_ -= work.bytes;
      if (work.copy_to != nullptr) std::memcpy(work.copy_to, card_.slot(work.slot).at, work.bytes);
      --work.op->works;
      if (work.is_lent) --work.op->lent_works;
      release_if_done(*work.op);
      settle();
      break;
    case FarWork::Kind::none:
      break;
  }
  card_.touch(pe_);
}

}  // namespace penstock::symm
