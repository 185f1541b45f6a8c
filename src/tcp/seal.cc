#include "seal.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace penstock::tcp {
namespace {

using tls::Content;
using tls::limits::kContentMax;
using tls::limits::kRecordExtraBytes;
using tls::limits::kRecordHeaderBytes;
using tls::limits::kTrailerBytes;

// KeyUpdate (RFC 8446, 4.6.3): its kind, its length, and whether the other side is to do the same.
constexpr size_t kUpdateBytes = 5;
// What is so short may be no payload, which is known at its end; and is as well copied.
constexpr uint32_t kPlacedBytesMin = 512;
constexpr std::byte kUpdateKind{24};
constexpr std::byte kNotAsked{0};
constexpr std::byte kAsked{1};
constexpr size_t kRecordMax = size_t{kContentMax} + kRecordExtraBytes;
constexpr std::array<std::byte, kUpdateBytes> kUpdate{kUpdateKind, {}, {}, std::byte{1}, kNotAsked};
// An alert that the stream has ended well (RFC 8446, 6.1).
constexpr std::byte kCloseNotify{0};

}  // namespace

Status Seal::take(Bytes bytes, FrameReader& reader) {
  while (!bytes.empty()) {
    if (!in_record_ && kept_ == 0 && crew_ != nullptr) TRY(take_run(bytes, reader));
    if (bytes.empty()) break;
    if (!in_record_) {
      TRY(take_header(bytes));
    } else if (left_ > 0) {
      take_content(bytes, reader);
    } else {
      TRY(take_trailer(bytes, reader));
    }
  }
  return Code::ok;
}

// Records of the largest size that are whole and belong to the payload, where they are enough to
// be shared.
Status Seal::take_run(Bytes& bytes, FrameReader& reader) {
  const MutableBytes place = reader.place();
  const size_t most = std::min(bytes.size() / kRecordMax, place.size() / kContentMax);
  if (most < limits::kSharedRecordsMin) return Code::ok;
  uint32_t count = 0;
  for (; count < most; ++count) {
    const Bytes record = bytes.subspan(count * kRecordMax);
    const auto content = tls::Opener::content_behind(record.first<kRecordHeaderBytes>());
    if (!content || *content != kContentMax) break;
  }
  if (count < limits::kSharedRecordsMin ||
      opener_.records() + count > tls::limits::kRecordsOfKeyMax) {
    return Code::ok;
  }
  const uint64_t first = opener_.share(crew_->hands(), count);
  std::atomic<Code> wrong{Code::ok};  // read when all parts are done
  const auto open_one = [&](uint32_t part, uint32_t hand) {
    const auto content =
        opener_.open_shared(hand, first + part, bytes.subspan(part * kRecordMax, kRecordMax),
                            place.data() + size_t{part} * kContentMax);
    if (content && *content == Content::bytes) return;
    // Alerts and new keys are short.
    wrong.store(content ? Code::bad_message : content.error().code(), std::memory_order_relaxed);
  };
  crew_->share(count, open_one, meanwhile_);
  TRY(Status(wrong.load(std::memory_order_relaxed)));
  updated_ = false;
  bytes = bytes.subspan(count * kRecordMax);
  return reader.placed(size_t{count} * kContentMax);
}

Status Seal::take_header(Bytes& bytes) {
  const size_t count = std::min<size_t>(bytes.size(), kRecordHeaderBytes - kept_);
  std::memcpy(ends_.data() + kept_, bytes.data(), count);
  bytes = bytes.subspan(count);
  kept_ += static_cast<uint32_t>(count);
  if (kept_ < kRecordHeaderBytes) return Code::ok;
  TRY_ASSIGN(left_, opener_.begin(std::span(ends_).first<kRecordHeaderBytes>()));
  in_record_ = true;
  is_long_ = left_ >= kPlacedBytesMin;
  kept_ = 0;
  return Code::ok;
}

void Seal::take_content(Bytes& bytes, FrameReader& reader) {
  size_t count = std::min<size_t>(bytes.size(), left_);
  // What does not belong to the payload stands behind it.
  const bool may_be_placed = is_long_ && opened_bytes_ == 0;
  const MutableBytes place = may_be_placed ? reader.place() : MutableBytes();
  if (place.size() > placed_) {
    const MutableBytes to = place.subspan(placed_);
    count = std::min(count, to.size());
    // Where more of the payload is to come, the type stands where that will.
    open(bytes, count, to);
    placed_ += count;
  } else {
    constexpr size_t kRoom = size_t{kContentMax} + 1;
    if (opened_ == nullptr) opened_ = std::make_unique_for_overwrite<std::byte[]>(kRoom);
    open(bytes, count, MutableBytes(opened_.get(), kRoom).subspan(opened_bytes_));
    opened_bytes_ += static_cast<uint32_t>(count);
  }
}

// So many bytes of the content, and the type with them where it is there and has room.
void Seal::open(Bytes& bytes, size_t count, MutableBytes to) {
  left_ -= static_cast<uint32_t>(count);
  has_type_ = left_ == 0 && bytes.size() > count && to.size() > count;
  if (has_type_) {
    ends_[0] = opener_.open_with_type(bytes.first(count + 1), to.data());
    kept_ = 1;
  } else {
    opener_.open(bytes.first(count), to.data());
  }
  bytes = bytes.subspan(count + kept_);
}

Status Seal::take_trailer(Bytes& bytes, FrameReader& reader) {
  const size_t count = std::min<size_t>(bytes.size(), kTrailerBytes - kept_);
  std::memcpy(ends_.data() + kept_, bytes.data(), count);
  bytes = bytes.subspan(count);
  kept_ += static_cast<uint32_t>(count);
  if (kept_ < kTrailerBytes) return Code::ok;
  kept_ = 0;
  in_record_ = false;
  const std::span<const std::byte, kTrailerBytes> ends(ends_);
  const auto ended =
      has_type_ ? opener_.end(ends[0], ends.last<tls::limits::kTagBytes>()) : opener_.end(ends);
  TRY_ASSIGN(const Content content, ended);
  Status status = Code::ok;
  if (content == Content::bytes) {
    updated_ = false;
    status = tell(reader);
  } else if (placed_ > 0) {
    // Alerts and new keys are short.
    status = Code::bad_message;
  } else {
    status = content == Content::alert ? take_alert() : take_handshake();
  }
  placed_ = 0;
  opened_bytes_ = 0;
  return status;
}

Status Seal::tell(FrameReader& reader) {
  if (placed_ > 0) TRY(reader.placed(placed_));
  return reader.take(opened());
}

Status Seal::take_alert() const {
  const bool is_end = opened_bytes_ == 2 && opened_[1] == kCloseNotify;
  return is_end ? Code::peer_gone : Code::access_denied;
}

Status Seal::take_handshake() {
  const bool is_update =
      opened_bytes_ == kUpdateBytes &&
      std::equal(kUpdate.begin(), kUpdate.end() - 1, opened_.get()) &&
      (opened_[kUpdateBytes - 1] == kAsked || opened_[kUpdateBytes - 1] == kNotAsked);
  if (!is_update || updated_) return Code::bad_message;
  updated_ = true;
  opener_.renew();
  if (opened_[kUpdateBytes - 1] == kAsked) update_asked_ = true;
  return Code::ok;
}

// No record holds more than kContentMax, and each adds kRecordExtraBytes: so a sender of smaller
// ones sends more than that, and never less.
size_t Seal::expected(const FrameReader& reader) const {
  const size_t here = placed_ + opened_bytes_;
  const size_t place = reader.place().size();
  if (place <= here) return 0;
  const size_t content = place - here;
  const size_t of_this = in_record_ ? std::min<size_t>(content, left_) : 0;
  const size_t more = content - of_this;
  const size_t records = (more + kContentMax - 1) / kContentMax;
  const size_t end = in_record_ ? kTrailerBytes : 0;
  return of_this + end - kept_ + more + records * kRecordExtraBytes;
}

size_t Seal::piece(size_t expected, size_t most) const {
  if (expected <= most) return expected;
  const size_t of_this = in_record_  ? left_ + kTrailerBytes - kept_
                         : kept_ > 0 ? kRecordMax - kept_
                                     : 0;
  ASSERT(of_this <= most);
  return of_this + (most - of_this) / kRecordMax * kRecordMax;
}

// Records of the largest size of one piece, where they are enough to be shared: returns their
// length.
size_t Seal::seal_run(Bytes from, MutableBytes to) {
  const auto count =
      static_cast<uint32_t>(std::min(from.size() / kContentMax, to.size() / kRecordMax));
  if (count < limits::kSharedRecordsMin) return 0;
  const uint64_t first = sealer_.share(crew_->hands(), count);
  const auto seal_one = [&](uint32_t part, uint32_t hand) {
    sealer_.seal_shared(hand, first + part, from.subspan(part * size_t{kContentMax}, kContentMax),
                        to.subspan(part * kRecordMax, kRecordMax));
  };
  crew_->share(count, seal_one, meanwhile_);
  return count * kRecordMax;
}

size_t Seal::seal(Batch& batch, MutableBytes to) {
  size_t length = 0;
  if (batch.next().empty()) return 0;
  if (update_asked_ || sealer_.records() >= tls::limits::kRecordsOfKey) {
    const Bytes update = kUpdate;
    ASSERT(to.size() >= kUpdateBytes + kRecordExtraBytes);
    length += sealer_.seal(Content::handshake, {&update, 1}, to);
    sealer_.renew();
    update_asked_ = false;
  }
  // A piece is small frames or a payload: so the latter begins a record of its own.
  for (Bytes piece = batch.next(); !piece.empty(); piece = batch.next()) {
    const size_t run = crew_ != nullptr ? seal_run(piece, to.subspan(length)) : 0;
    if (run > 0) {
      length += run;
      (void)batch.advance(run / kRecordMax * kContentMax);
      continue;
    }
    // Where no whole one has room, the next piece begins: so helpers find records of one size, here
    // and on the other side.
    const size_t count = std::min(piece.size(), size_t{kContentMax});
    if (to.size() - length < count + kRecordExtraBytes) break;
    const Bytes part = piece.first(count);
    length += sealer_.seal(Content::bytes, {&part, 1}, to.subspan(length));
    (void)batch.advance(count);
  }
  ASSERT(length > 0);
  return length;
}

SealedPool::Buffer SealedPool::take() {
  if (taken_ == most_) return nullptr;
  ++taken_;
  if (free_.empty()) return std::make_unique_for_overwrite<std::byte[]>(limits::kSealedBytes);
  Buffer buffer = std::move(free_.back());
  free_.pop_back();
  return buffer;
}

SealedPool::Buffer SealedPool::take_second() {
  return taken_ < most_ / 2 ? take() : nullptr;
}

void SealedPool::give_back(Buffer buffer) {
  ASSERT(taken_ > 0);
  --taken_;
  free_.push_back(std::move(buffer));
}

}  // namespace penstock::tcp
