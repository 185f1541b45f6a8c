#include "far_stream.h"

#include "far_words.h"

#include <algorithm>

namespace penstock::symm {
namespace {

FarFrame frame_of(FarKind kind, FarPlace place, uint64_t length) {
  return {.kind = kind,
          .segment = static_cast<uint8_t>(place.segment),
          .offset = place.offset,
          .length = length};
}

FarFrame frame_of(FarPlace word, const Change& change) {
  return {.kind = FarKind::change,
          .segment = static_cast<uint8_t>(word.segment),
          .op = static_cast<uint8_t>(change.op),
          .width = change.width,
          .offset = word.offset,
          .length = change.operand,
          .extra = change.expected};
}

// From the first element's begin to the last one's end; none where that is no number.
std::optional<uint64_t> reach_of(uint64_t count, uint64_t element_bytes, uint64_t stride) {
  uint64_t reach = 0;
  if (count == 0 || __builtin_mul_overflow(count - 1, stride, &reach) ||
      __builtin_add_overflow(reach, element_bytes, &reach)) {
    return std::nullopt;
  }
  return reach;
}

}  // namespace

bool same_secret(const FarSecret& one, const FarSecret& other) {
  unsigned difference = 0;
  for (size_t i = 0; i < kFarSecretBytes; ++i)
    difference |= std::to_integer<unsigned>(one[i] ^ other[i]);
  return difference == 0;
}

const char* text_of(FarLack lack) {
  switch (lack) {
    case FarLack::none:
      break;
    case FarLack::off:
      return "it was told not to use RDMA (PENSTOCK_RDMA)";
    case FarLack::no_device:
      return "it has no RDMA device that can be used";
    case FarLack::too_many:
      return "it has no queue pair or memory left for it";
    case FarLack::not_joined:
      return "its queue pair does not reach the other one";
    case FarLack::not_through:
      return "large packets do not come through";
  }
  return "of no known reason";
}

FarStream::FarStream(const FarSegments& segments) : segments_(segments) {}

// ---- what goes out

void FarStream::queue(const FarFrame& frame) {
  queue_copy(std::as_bytes(std::span(&frame, 1)));
}

void FarStream::queue_copy(Bytes bytes) {
  if (bytes.empty() || is_silent_) return;
  small_.insert(small_.end(), bytes.begin(), bytes.end());
  if (!pieces_.empty() && pieces_.back().lent == nullptr) {
    pieces_.back().bytes += bytes.size();
  } else {
    pieces_.push_back({nullptr, bytes.size()});
  }
  queued_ += bytes.size();
}

void FarStream::queue_lent(Bytes bytes) {
  if (bytes.empty() || is_silent_) return;
  pieces_.push_back({bytes.data(), bytes.size()});
  queued_ += bytes.size();
}

void FarStream::put(FarPlace dest, Bytes source) {
  queue(frame_of(FarKind::put, dest, source.size()));
  queue_copy(source);
  framed_ = ++puts_;
}

void FarStream::put_lent(FarPlace dest, Bytes source) {
  queue(frame_of(FarKind::put, dest, source.size()));
  queue_lent(source);
  framed_ = ++puts_;
}

void FarStream::put_row(FarPlace dest, const FarRow& row, Bytes packed) {
  ASSERT(packed.size() == row.count * row.element_bytes && packed.size() <= limits::kFarRowBytes);
  FarFrame frame = frame_of(FarKind::put_row, dest, packed.size());
  frame.count = static_cast<uint32_t>(row.count);
  frame.extra = row.stride;
  queue(frame);
  queue_copy(packed);
  framed_ = ++puts_;
}

void FarStream::change(FarPlace word, const Change& change) {
  tell(word, change);
  framed_ = ++puts_;
}

void FarStream::tell(FarPlace word, const Change& change) {
  queue(frame_of(word, change));
}

void FarStream::get(FarPlace source, MutableBytes dest, FarAnswer* answer) {
  ASSERT(may_ask() && !dest.empty());
  queue(frame_of(FarKind::get, source, dest.size()));
  asked_.push_back({FarKind::bytes, dest, 0, answer});
  ++answer->awaited;
}

void FarStream::get_row(FarPlace source, const FarRow& row, MutableBytes packed,
                        FarAnswer* answer) {
  ASSERT(may_ask() && !packed.empty() && packed.size() <= limits::kFarRowBytes &&
         packed.size() == row.count * row.element_bytes);
  FarFrame frame = frame_of(FarKind::get_row, source, packed.size());
  frame.count = static_cast<uint32_t>(row.count);
  frame.extra = row.stride;
  queue(frame);
  asked_.push_back({FarKind::bytes, packed, 0, answer});
  ++answer->awaited;
}

void FarStream::change(FarPlace word, const Change& change, FarAnswer* answer) {
  ASSERT(may_ask());
  FarFrame frame = frame_of(word, change);
  frame.count = 1;
  queue(frame);
  asked_.push_back({FarKind::value, {}, 0, answer});
  ++answer->awaited;
}

void FarStream::get_later(FarPlace source, MutableBytes dest) {
  ASSERT(may_ask() && !dest.empty());
  queue(frame_of(FarKind::get, source, dest.size()));
  asked_.push_back({FarKind::bytes, dest, 0, nullptr});
  framed_ = ++puts_;
}

void FarStream::change_later(FarPlace word, const Change& change, void* dest) {
  ASSERT(may_ask());
  FarFrame frame = frame_of(word, change);
  frame.count = 1;
  queue(frame);
  asked_.push_back(
      {FarKind::value, MutableBytes(static_cast<std::byte*>(dest), change.width), 0, nullptr});
  framed_ = ++puts_;
}

void FarStream::flush() {
  if (!wants_flush()) return;
  ASSERT(may_ask());
  queue({.kind = FarKind::flush});
  asked_.push_back({FarKind::flushed, {}, puts_, nullptr});
  flush_asked_ = puts_;
}

void FarStream::say_bye() {
  queue({.kind = FarKind::bye});
  is_silent_ = true;
}

void FarStream::say(const FarFrame& frame, Bytes after) {
  queue(frame);
  queue_copy(after);
}

std::optional<FarHeard> FarStream::hear() {
  if (heard_.empty()) return std::nullopt;
  const FarHeard first = heard_.front();
  heard_.pop_front();
  return first;
}

uint32_t FarStream::unsent(iovec* pieces, uint32_t room) const {
  uint32_t count = 0;
  uint64_t small = small_head_;
  for (auto piece = pieces_.begin(); piece != pieces_.end() && count < room; ++piece) {
    const std::byte* from = piece->lent;
    if (from == nullptr) {
      from = small_.data() + small;
      small += piece->bytes;
    }
    pieces[count++] = {const_cast<std::byte*>(from), piece->bytes};
  }
  return count;
}

void FarStream::sent(uint64_t bytes) {
  ASSERT(bytes <= queued_ - sent_);
  sent_ += bytes;
  while (bytes > 0) {
    Piece& first = pieces_.front();
    const uint64_t some = std::min(bytes, first.bytes);
    if (first.lent != nullptr) {
      first.lent += some;
    } else {
      small_head_ += some;
    }
    first.bytes -= some;
    bytes -= some;
    if (first.bytes == 0) pieces_.pop_front();
  }
  if (small_head_ == small_.size()) {
    small_.clear();
    small_head_ = 0;
  } else if (small_head_ >= std::max(limits::kFarGathered, small_.size() / 2)) {
    small_.erase(small_.begin(), small_.begin() + static_cast<ptrdiff_t>(small_head_));
    small_head_ = 0;
  }
}

// ---- what comes in

uint32_t FarStream::room(iovec* pieces) {
  uint32_t count = 0;
  if (!direct_.empty()) pieces[count++] = {direct_.data(), direct_.size()};
  if (staging_.empty()) staging_.resize(limits::kFarStaging);
  if (staged_begin_ == staged_end_) {
    staged_begin_ = staged_end_ = 0;
  } else if (staged_begin_ > 0) {
    std::memmove(staging_.data(), staging_.data() + staged_begin_, staged_end_ - staged_begin_);
    staged_end_ -= staged_begin_;
    staged_begin_ = 0;
  }
  // A frame that is taken as a whole fits, so there always is room for more of it.
  ASSERT(staged_end_ < staging_.size());
  pieces[count++] = {staging_.data() + staged_end_, staging_.size() - staged_end_};
  return count;
}

Status FarStream::received(uint64_t bytes) {
  ASSERT(!is_over_);
  if (!direct_.empty()) {
    const uint64_t some = std::min<uint64_t>(bytes, direct_.size());
    direct_ = direct_.subspan(some);
    bytes -= some;
    if (direct_.empty() && is_direct_answer_) answered();
  }
  ASSERT(bytes <= staging_.size() - staged_end_);
  staged_end_ += bytes;
  return take_all();
}

Status FarStream::take_all() {
  while (direct_.empty() && staged_end_ - staged_begin_ >= sizeof(FarFrame)) {
    if (has_said_bye_) return Code::bad_message;
    // It asks on and on, and reads nothing.
    if (pieces_.size() > limits::kFarPieces || small_.size() > limits::kFarUnread)
      return Code::bad_message;
    FarFrame frame;
    std::memcpy(&frame, staging_.data() + staged_begin_, sizeof frame);
    const Bytes after(staging_.data() + staged_begin_ + sizeof frame,
                      staged_end_ - staged_begin_ - sizeof frame);
    TRY_ASSIGN(const uint64_t taken, take(frame, after));
    if (taken == 0) return {};
    staged_begin_ += taken;
    ASSERT(staged_begin_ <= staged_end_);
  }
  return {};
}

std::byte* FarStream::checked(const FarFrame& frame, uint64_t bytes) const {
  if (frame.segment >= kSegments) return nullptr;
  const MutableBytes segment = segments_[frame.segment];
  return range_within(frame.offset, bytes, segment.size()) ? segment.data() + frame.offset
                                                           : nullptr;
}

Result<uint64_t> FarStream::take(const FarFrame& frame, Bytes after) {
  switch (frame.kind) {
    case FarKind::put: {
      std::byte* const to = checked(frame, frame.length);
      if (to == nullptr) return Status(Code::bad_message);
      is_direct_answer_ = false;
      return take_payload(to, frame.length, after);
    }
    case FarKind::put_row:
      if (frame.length > limits::kFarRowBytes) return Status(Code::bad_message);
      if (after.size() < frame.length) return uint64_t{0};
      TRY(scatter(frame, after.first(frame.length)));
      return sizeof frame + frame.length;
    case FarKind::get:
      TRY(serve_get(frame));
      return sizeof frame;
    case FarKind::get_row:
      TRY(serve_row(frame));
      return sizeof frame;
    case FarKind::change:
      TRY(serve_change(frame));
      return sizeof frame;
    case FarKind::flush:
      queue({.kind = FarKind::flushed});
      return sizeof frame;
    case FarKind::bytes: {
      TRY(take_answer(frame));
      const MutableBytes dest = asked_.front().dest;
      if (frame.length != dest.size()) return Status(Code::bad_message);
      is_direct_answer_ = true;
      TRY_ASSIGN(const uint64_t taken, take_payload(dest.data(), frame.length, after));
      if (taken != 0 && direct_.empty()) answered();
      return taken;
    }
    case FarKind::value:
      TRY(take_answer(frame));
      if (asked_.front().waiter != nullptr) {
        asked_.front().waiter->value = frame.length;
      } else {
        std::memcpy(asked_.front().dest.data(), &frame.length, asked_.front().dest.size());
      }
      answered();
      return sizeof frame;
    case FarKind::flushed:
      TRY(take_answer(frame));
      applied_ = asked_.front().number;
      asked_.pop_front();
      ++answers_;
      return sizeof frame;
    case FarKind::bye:
      has_said_bye_ = true;
      return sizeof frame;
    case FarKind::card:
    case FarKind::window_wanted:
    case FarKind::window:
      return take_word(frame, after);
  }
  return Status(Code::bad_message);
}

// Small ones as a whole; of large ones what has come, and the rest as it comes.
Result<uint64_t> FarStream::take_payload(std::byte* to, uint64_t length, Bytes after) {
  if (length <= limits::kFarWhole) {
    if (after.size() < length) return uint64_t{0};
    if (length != 0) store_bytes(to, after.first(length));
    return sizeof(FarFrame) + length;
  }
  const uint64_t here = std::min<uint64_t>(length, after.size());
  std::memcpy(to, after.data(), here);
  direct_ = MutableBytes(to + here, length - here);
  return sizeof(FarFrame) + here;
}

Status FarStream::serve_get(const FarFrame& frame) {
  const std::byte* const from = checked(frame, frame.length);
  if (from == nullptr || frame.length == 0) return Code::bad_message;
  queue({.kind = FarKind::bytes, .length = frame.length});
  if (frame.length > limits::kFarCopied) {
    queue_lent({from, frame.length});
    return {};
  }
  std::array<std::byte, limits::kFarCopied> copy;
  copy_from_others(copy.data(), from, frame.length);
  queue_copy(Bytes(copy).first(frame.length));
  return {};
}

Status FarStream::serve_row(const FarFrame& frame) {
  if (frame.count == 0 || frame.length == 0 || frame.length > limits::kFarRowBytes ||
      frame.length % frame.count != 0) {
    return Code::bad_message;
  }
  const uint64_t element = frame.length / frame.count;
  const auto reach = reach_of(frame.count, element, frame.extra);
  const std::byte* from = reach ? checked(frame, *reach) : nullptr;
  if (from == nullptr) return Code::bad_message;
  std::vector<std::byte> packed(frame.length);
  for (uint64_t i = 0; i < frame.count; ++i)
    copy_from_others(packed.data() + i * element, from + i * frame.extra, element);
  queue({.kind = FarKind::bytes, .length = frame.length});
  queue_copy(packed);
  return {};
}

Status FarStream::scatter(const FarFrame& frame, Bytes packed) {
  if (frame.count == 0 || packed.empty() || packed.size() % frame.count != 0)
    return Code::bad_message;
  const uint64_t element = packed.size() / frame.count;
  const auto reach = reach_of(frame.count, element, frame.extra);
  std::byte* const to = reach ? checked(frame, *reach) : nullptr;
  if (to == nullptr) return Code::bad_message;
  for (uint64_t i = 0; i < frame.count; ++i)
    store_bytes(to + i * frame.extra, packed.subspan(i * element, element));
  return {};
}

Status FarStream::serve_change(const FarFrame& frame) {
  const bool is_word = frame.width == 4 || frame.width == 8;
  std::byte* const word = is_word ? checked(frame, frame.width) : nullptr;
  if (word == nullptr || !is_aligned(word, frame.width) ||
      frame.op > static_cast<uint8_t>(AtomicOp::bit_xor)) {
    return Code::bad_message;
  }
  const uint64_t before =
      frame.width == 8 ? change_word<uint64_t>(word, frame) : change_word<uint32_t>(word, frame);
  if (frame.count != 0) queue({.kind = FarKind::value, .length = before});
  return {};
}

// Whether it is what was asked for first.
Status FarStream::take_answer(const FarFrame& frame) {
  const bool is_right = !asked_.empty() && asked_.front().answer == frame.kind;
  return is_right ? Status() : Status(Code::bad_message);
}

// Whoever uses the stream hears it.
Result<uint64_t> FarStream::take_word(const FarFrame& frame, Bytes after) {
  if (heard_.size() >= limits::kFarHeard) return Status(Code::bad_message);
  FarHeard heard{frame};
  uint64_t bytes = 0;
  if (frame.kind == FarKind::card) {
    if (frame.op > static_cast<uint8_t>(FarCardWord::refused)) return Status(Code::bad_message);
    const bool is_offer = frame.op == static_cast<uint8_t>(FarCardWord::offer);
    if (is_offer && after.size() < heard.offer.size()) return uint64_t{0};
    const uint32_t bit = 1U << frame.op;
    if ((heard_words_ & bit) != 0) return Status(Code::bad_message);
    heard_words_ |= bit;
    if (is_offer) bytes = heard.offer.size();
    std::memcpy(heard.offer.data(), after.data(), bytes);
  }
  heard_.push_back(heard);
  return sizeof frame + bytes;
}

void FarStream::answered() {
  ASSERT(!asked_.empty());
  if (FarAnswer* const answer = asked_.front().waiter; answer != nullptr) {
    ASSERT(answer->awaited > 0);
    --answer->awaited;
  }
  asked_.pop_front();
  ++answers_;
}

void FarStream::end(Status status) {
  ASSERT(!status.ok());
  for (const Asked& asked : asked_) {
    if (asked.waiter == nullptr) continue;
    if (asked.waiter->status.ok()) asked.waiter->status = status;
    --asked.waiter->awaited;
  }
  answers_ += asked_.size();
  asked_.clear();
  pieces_.clear();
  small_.clear();
  small_head_ = 0;
  direct_ = {};
  sent_ = queued_;
  applied_ = flush_asked_ = puts_;
  heard_.clear();
  is_silent_ = is_over_ = true;
}

}  // namespace penstock::symm
