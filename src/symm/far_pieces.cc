// Large puts and gets of a queue pair, piece by piece, and the windows by which they reach memory.
#include "far_pair.h"

#include <algorithm>

namespace penstock::symm {
namespace {

// Parts whose windows are asked for ahead of the pieces that go there.
constexpr uint64_t kPartsAhead = 4;

}  // namespace

// ---- windows that are shown

Status FarPair::hear_wanted(const FarFrame& frame) {
  if (!has_moved() || frame.segment >= kSegments || frame.offset >= card_.parts(frame.segment) ||
      !shown_.insert(key_number(frame.segment, frame.offset)).second) {
    return Code::bad_message;
  }
  wanted_.push_back(frame);
  return {};
}

// The frame goes by a message, which is posted behind both binds.
void FarPair::show_windows() {
  while (!wanted_.empty() && binds_ + 2 <= limits::kFarBinds && !is_broken_) {
    const FarFrame wanted = wanted_.front();
    wanted_.pop_front();
    if (show(wanted.segment, static_cast<uint32_t>(wanted.offset))) continue;
    stream_.say({.kind = FarKind::window, .segment = wanted.segment, .offset = wanted.offset});
  }
}

bool FarPair::show(uint8_t segment, uint32_t part) {
  const auto memory = card_.part(segment, part);
  if (!memory) return false;
  const MutableBytes bytes = card_.bytes_of_part(segment, part);
  const auto place = bind(bytes, *memory, engine::Access::place);
  const auto fetch = place ? bind(bytes, *memory, engine::Access::fetch) : std::nullopt;
  if (!fetch) return false;
  stream_.say({.kind = FarKind::window,
               .segment = segment,
               .count = 1,
               .offset = part,
               .length = reinterpret_cast<uintptr_t>(bytes.data()),
               .extra = *place | (uint64_t{*fetch} << 32)});
  return true;
}

std::optional<uint32_t> FarPair::bind(MutableBytes bytes, verbs::MemoryId memory,
                                      engine::Access access) {
  const auto window = card_.provider().create_window();
  if (!window) return std::nullopt;
  windows_.push_back(window->id);
  const uint32_t key = verbs::next_key(window->key);
  const Status posted = card_.post(*id_,
                                   {.verb = verbs::Verb::bind,
                                    .local = bytes,
                                    .memory = memory,
                                    .key = key,
                                    .window = window->id,
                                    .access = access},
                                   {.pair = this, .kind = FarWork::Kind::bind});
  if (!posted.ok()) {
    break_by(posted);
    return std::nullopt;
  }
  if (in_flight_++ == 0) since_ = card_.now();
  ++binds_;
  return key;
}

// ---- windows that the peer shows

Status FarPair::hear_window(const FarFrame& frame) {
  const auto found = keys_.find(key_number(frame.segment, frame.offset));
  if (frame.offset > UINT32_MAX || found == keys_.end() || found->second.is_known)
    return Code::bad_message;
  --keys_awaited_;
  found->second = {.is_known = true,
                   .is_refused = frame.count == 0,
                   .address = frame.length,
                   .place = static_cast<uint32_t>(frame.extra),
                   .fetch = static_cast<uint32_t>(frame.extra >> 32)};
  return {};
}

// Null: it was asked for.
const FarPair::Key* FarPair::key_of(FarPlace place, uint64_t left) {
  const auto segment = static_cast<uint8_t>(place.segment);
  const uint64_t first = place.offset / card_.part_bytes();
  const uint64_t last = (place.offset + left - 1) / card_.part_bytes();
  for (uint64_t part = first; part <= std::min(last, first + kPartsAhead); ++part) {
    if (keys_awaited_ >= limits::kFarHeard / 2) break;
    if (!keys_.try_emplace(key_number(segment, part)).second) continue;
    ++keys_awaited_;
    stream_.say({.kind = FarKind::window_wanted, .segment = segment, .offset = part});
  }
  const auto found = keys_.find(key_number(segment, first));
  return found != keys_.end() && found->second.is_known ? &found->second : nullptr;
}

// ---- puts and gets

FarOp& FarPair::start(FarPlace place, std::byte* local, uint64_t bytes, FarAnswer* answer) {
  ASSERT(has_moved() && !is_over_ && bytes > 0);
  FarOp& op = ops_.emplace_back();
  op.place = place;
  op.local = local;
  op.left = bytes;
  op.after = stream_.framed();
  op.after_asked = stream_.questions();
  op.answer = answer;
  if (answer != nullptr) ++answer->awaited;
  ++started_;
  return op;
}

void FarPair::put(FarPlace dest, Bytes source, FarAnswer* answer) {
  start(dest, const_cast<std::byte*>(source.data()), source.size(), answer).is_put = true;
}

void FarPair::get(FarPlace source, MutableBytes dest, FarAnswer* answer) {
  start(source, dest.data(), dest.size(), answer);
}

void FarPair::post_ops() {
  while (posted_ops_ < ops_.size() && !is_broken_ && post(ops_[posted_ops_])) ++posted_ops_;
}

// Whether all of it is under way.
bool FarPair::post(FarOp& op) {
  if (stream_.applied() < op.after) {
    if (!stream_.has_asked_for(op.after) && stream_.may_ask()) stream_.flush();
    return false;
  }
  if (stream_.answers() < op.after_asked) return false;
  while (op.left > 0) {
    const Key* const key = key_of(op.place, op.left);
    if (key == nullptr) return false;
    const uint64_t most =
        std::min(op.left, card_.part_bytes() - op.place.offset % card_.part_bytes());
    const uint64_t some = key->is_refused ? by_frames(op, most) : by_card(op, *key, most);
    if (some == 0) return false;
    op.place.offset += some;
    op.local += some;
    op.left -= some;
  }
  op.is_posted = true;
  // A flush from now on is behind it.
  if (op.is_put) stream_.note_written();
  release_if_done(op);
  return true;
}

// From and to symmetric memory itself; else by way of a buffer.
uint64_t FarPair::by_card(FarOp& op, const Key& key, uint64_t most) {
  if (pieces_ >= limits::kFarFlying || piece_bytes_ >= limits::kFarFlyingBytes) return 0;
  FarWork work{.pair = this, .kind = FarWork::Kind::piece, .op = &op};
  verbs::WorkRequest request;
  request.verb = op.is_put ? verbs::Verb::write : verbs::Verb::read;
  request.remote_address = key.address + op.place.offset % card_.part_bytes();
  request.key = op.is_put ? key.place : key.fetch;
  if (const auto local = card_.local(op.local, std::min(most, limits::kFarPiece))) {
    work.is_lent = true;
    request.local = {op.local, local->bytes};
    request.memory = local->memory;
  } else {
    const auto slot = card_.take_slot(true);
    if (!slot) return 0;
    const FarCard::Slot& buffer = card_.slot(*slot);
    work.has_slot = true;
    work.slot = *slot;
    request.local = {buffer.at, std::min(most, limits::kFarBuffer)};
    request.memory = buffer.memory;
    if (op.is_put) {
      std::memcpy(buffer.at, op.local, request.local.size());
    } else {
      work.copy_to = op.local;
    }
  }
  work.bytes = static_cast<uint32_t>(request.local.size());
  if (const Status posted = card_.post(*id_, request, work); !posted.ok()) {
    if (work.has_slot) card_.release_slot(work.slot);
    break_by(posted);
    return 0;
  }
  if (in_flight_++ == 0) since_ = card_.now();
  ++pieces_;
  piece_bytes_ += work.bytes;
  ++op.works;
  if (work.is_lent) ++op.lent_works;
  return work.bytes;
}

// Where the peer shows no window.
uint64_t FarPair::by_frames(FarOp& op, uint64_t most) {
  const uint64_t some = std::min(most, limits::kFarPiece);
  if (op.is_put) {
    stream_.put_lent(op.place, Bytes(op.local, some));
    op.sent_until = stream_.queued();
    return some;
  }
  if (!stream_.may_ask()) return 0;
  stream_.get(op.place, MutableBytes(op.local, some), &op.frames);
  return some;
}

// Its source may change, or its bytes have come.
void FarPair::release_if_done(FarOp& op) {
  if (op.is_released || !op.is_posted) return;
  const bool is_done = op.is_put ? op.lent_works == 0 && stream_.sent() >= op.sent_until
                                 : op.works == 0 && op.frames.awaited == 0;
  if (!is_done) return;
  op.is_released = true;
  if (op.answer == nullptr) return;
  if (op.answer->status.ok()) op.answer->status = op.frames.status;
  --op.answer->awaited;
}

// In their order; the work of a queue pair completes in its order, too.
void FarPair::settle() {
  while (!ops_.empty()) {
    FarOp& first = ops_.front();
    release_if_done(first);
    if (!first.is_released || first.works != 0) return;
    ops_.pop_front();
    --posted_ops_;
    ++done_;
  }
}

}  // namespace penstock::symm
