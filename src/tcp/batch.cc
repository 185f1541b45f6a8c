#include "batch.h"

#include <cstring>

namespace penstock::tcp {

bool Batch::has_room(size_t bytes, uint64_t payload) const {
  // The gathered bytes and the payload may each need a piece.
  return bytes <= memory_.size() - used_ && count_ + 2 <= pieces_.size() &&
         payload <= limits::kBatchPayloadMax - payload_bytes_;
}

std::byte* Batch::append(size_t bytes) {
  ASSERT(first_ == 0 && has_room(bytes));
  std::byte* const at = memory_.data() + used_;
  if (gathering_) {
    pieces_[count_ - 1].iov_len += bytes;
  } else {
    owners_[count_] = nullptr;
    pieces_[count_++] = {at, bytes};
    gathering_ = true;
  }
  used_ += static_cast<uint32_t>(bytes);
  return at;
}

void Batch::append(const Header& header, Bytes message) {
  ASSERT(message.size() == header.message_bytes);
  const HeaderBytes bytes = encode_header(header);
  std::byte* const at = append(bytes.size() + message.size());
  std::memcpy(at, bytes.data(), bytes.size());
  if (!message.empty()) std::memcpy(at + bytes.size(), message.data(), message.size());
}

void Batch::append_payload(Bytes payload, engine::Op& owner) {
  ASSERT(!payload.empty() && count_ < pieces_.size());
  payload_bytes_ += payload.size();
  ASSERT(payload_bytes_ <= limits::kBatchPayloadMax);
  owners_[count_] = &owner;
  // The kernel does not write to what it sends.
  pieces_[count_++] = {const_cast<std::byte*>(payload.data()), payload.size()};
  gathering_ = false;
}

msghdr* Batch::unsent() {
  ASSERT(first_ < count_);
  message_ = {};
  message_.msg_iov = &pieces_[first_];
  message_.msg_iovlen = count_ - first_;
  return &message_;
}

Bytes Batch::next() const {
  if (first_ == count_) return {};
  return {static_cast<const std::byte*>(pieces_[first_].iov_base), pieces_[first_].iov_len};
}

bool Batch::advance(size_t count) {
  while (first_ < count_) {
    iovec& piece = pieces_[first_];
    if (count < piece.iov_len) {
      piece.iov_base = static_cast<std::byte*>(piece.iov_base) + count;
      piece.iov_len -= count;
      return false;
    }
    count -= piece.iov_len;
    ++first_;
  }
  ASSERT(count == 0);
  return true;
}

bool Batch::has(const engine::Op& owner) const {
  for (uint32_t i = first_; i < count_; ++i) {
    if (owners_[i] == &owner) return true;
  }
  return false;
}

void Batch::replace(const engine::Op& owner) {
  for (uint32_t i = 0; i < count_; ++i) {
    if (owners_[i] != &owner) continue;
    owners_[i] = nullptr;
    if (i < first_) continue;
    const auto* const data = static_cast<const std::byte*>(pieces_[i].iov_base);
    std::vector<std::byte>& copy = copies_.emplace_back(data, data + pieces_[i].iov_len);
    pieces_[i].iov_base = copy.data();
  }
}

void Batch::reset() {
  used_ = count_ = first_ = 0;
  gathering_ = false;
  payload_bytes_ = 0;
  copies_.clear();
}

BatchPool::~BatchPool() {
  ASSERT(taken_ == 0);
}

Batch* BatchPool::take() {
  if (free_ == nullptr) {
    if (all_.size() == limits::kBatchesMax) return nullptr;
    free_ = all_.emplace_back(std::make_unique<Batch>()).get();
  }
  Batch* const batch = std::exchange(free_, free_->next_free_);
  ASSERT(batch->empty());
  ++taken_;
  return batch;
}

void BatchPool::give_back(Batch& batch) {
  ASSERT(taken_ > 0 && batch.empty());
  --taken_;
  batch.next_free_ = std::exchange(free_, &batch);
}

}  // namespace penstock::tcp
