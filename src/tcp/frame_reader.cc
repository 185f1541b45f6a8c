#include "frame_reader.h"

#include <algorithm>
#include <cstring>

namespace penstock::tcp {

using limits::kHeaderBytes;

Status FrameReader::take(Bytes bytes) {
  while (!bytes.empty()) {
    if (payload_left_ != 0) {
      TRY(take_payload(bytes));
    } else {
      TRY(take_head(bytes));
    }
  }
  return Code::ok;
}

Status FrameReader::take_payload(Bytes& bytes) {
  const size_t count = std::min<size_t>(bytes.size(), payload_left_);
  if (place_ != nullptr) std::memcpy(place_, bytes.data(), count);
  bytes = bytes.subspan(count);
  return advance(count);
}

Status FrameReader::take_head(Bytes& bytes) {
  if (kept_ == 0 && bytes.size() >= kHeaderBytes) {
    TRY_ASSIGN(header_, decode_header(bytes.first(kHeaderBytes)));
    const size_t whole = kHeaderBytes + size_t{header_.message_bytes};
    if (bytes.size() >= whole) {
      const Bytes message = bytes.subspan(kHeaderBytes, header_.message_bytes);
      bytes = bytes.subspan(whole);
      return begin(message);
    }
  }
  // A header is looked at as soon as it is whole: what is no frame is not waited for.
  const size_t wanted =
      kept_ < kHeaderBytes ? kHeaderBytes : kHeaderBytes + size_t{header_.message_bytes};
  ASSERT(kept_ <= wanted && wanted <= head_.size());
  const size_t count = std::min(bytes.size(), wanted - kept_);
  std::memcpy(head_.data() + kept_, bytes.data(), count);
  kept_ += static_cast<uint32_t>(count);
  bytes = bytes.subspan(count);
  if (kept_ < wanted) return Code::ok;
  if (wanted == kHeaderBytes) {
    TRY_ASSIGN(header_, decode_header(Bytes(head_).first(kHeaderBytes)));
    if (header_.message_bytes != 0) return Code::ok;
  }
  kept_ = 0;
  return begin(Bytes(head_).subspan(kHeaderBytes, header_.message_bytes));
}

Status FrameReader::begin(Bytes message) {
  ASSERT(payload_left_ == 0 && message.size() == header_.message_bytes);
  TRY_ASSIGN(const MutableBytes place, sink_.on_frame(header_, message));
  payload_left_ = header_.payload_bytes;
  ASSERT(place.empty() || place.size() == payload_left_);
  place_ = place.empty() ? nullptr : place.data();
  return Code::ok;
}

Status FrameReader::advance(size_t count) {
  ASSERT(count <= payload_left_);
  payload_left_ -= static_cast<uint32_t>(count);
  if (place_ != nullptr) place_ += count;
  if (payload_left_ != 0) return Code::ok;
  place_ = nullptr;
  return sink_.on_payload(header_);
}

MutableBytes FrameReader::place() const {
  if (place_ == nullptr) return {};
  return {place_, payload_left_};
}

Status FrameReader::placed(size_t count) {
  return advance(count);
}

void FrameReader::divert() {
  ASSERT(payload_left_ != 0);
  place_ = nullptr;
}

}  // namespace penstock::tcp
