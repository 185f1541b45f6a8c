#include "incoming.h"

#include <cstring>

namespace penstock::tcp {

using engine::Access;
using engine::MemoryKind;
using engine::MemoryRef;
using engine::TransferOp;

IncomingPool::IncomingPool() = default;

IncomingPool::~IncomingPool() {
  ASSERT(taken_ == 0 && free_inline_.size() == inline_.size());
}

Incoming* IncomingPool::take(uint32_t has) {
  if (taken_ == limits::kIncomingMax) return nullptr;
  if (taken_ >= limits::kIncomingMax / 2 && has >= limits::kIncomingShare) return nullptr;
  if (free_.empty()) {
    all_.push_back(std::make_unique<Incoming>());
    free_.push_back(all_.back().get());
  }
  Incoming* const incoming = free_.back();
  free_.pop_back();
  ++taken_;
  incoming->pool_ = this;
  return incoming;
}

void IncomingPool::give_back(Incoming& incoming) {
  ASSERT(taken_ > 0 && incoming.transfers_ == 0);
  --taken_;
  if (incoming.inline_ != nullptr) give_back(*std::exchange(incoming.inline_, nullptr));
  incoming.side_ = nullptr;
  incoming.context = nullptr;
  incoming.abandoned_ = false;
  free_.push_back(&incoming);
}

IncomingPool::InlineBuffer* IncomingPool::take_inline() {
  if (free_inline_.empty()) {
    if (inline_.size() == limits::kInlineBuffersMax) return nullptr;
    return inline_.emplace_back(std::make_unique<InlineBuffer>()).get();
  }
  InlineBuffer* const buffer = free_inline_.back();
  free_inline_.pop_back();
  return buffer;
}

std::optional<MemoryRef> Incoming::direct(uint32_t index) {
  if (index >= exposure_count || !spans_[index].is_inline) return std::nullopt;
  ASSERT(inline_ != nullptr);
  uint64_t offset = 0;
  for (uint32_t i = 0; i < index; ++i) {
    if (spans_[i].is_inline) offset += spans_[i].length;
  }
  ASSERT(range_within(offset, spans_[index].length, inline_->bytes.size()));
  return MemoryRef{inline_->bytes.data() + offset, spans_[index].length, engine::kNoBuffer,
                   MemoryKind::host};
}

void Incoming::place(TransferOp& op) {
  transfer(op, Access::place);
}

void Incoming::fetch(TransferOp& op) {
  transfer(op, Access::fetch);
}

Status Incoming::check(const TransferOp& op, Access access) const {
  if (op.exposure >= exposure_count) return Code::invalid_argument;
  const Span& span = spans_[op.exposure];
  if (span.access != access) return Code::access_denied;
  if (!range_within(op.exposure_offset, op.local.length, span.length)) {
    return Code::invalid_argument;
  }
  return op.local.kind == MemoryKind::host ? Code::ok : Code::not_supported;
}

void Incoming::transfer(TransferOp& op, Access access) {
  if (const Status status = check(op, access); !status.ok()) return loop_->complete(op, status);
  if (side_ == nullptr || abandoned_) return loop_->complete(op, Code::peer_gone);
  if (op.local.length == 0) return loop_->complete(op, Code::ok);
  if (access == Access::fetch && spans_[op.exposure].is_inline) {
    const MemoryRef from = direct(op.exposure)->sub(op.exposure_offset, op.local.length);
    std::memcpy(op.local.data, from.data, from.length);
    return loop_->complete(op, Code::ok);
  }
  op.call = this;
  side_->transfer(*this, op, access);
}

void Incoming::reply(Status status, Bytes response) {
  ASSERT(transfers_ == 0);
  if (side_ == nullptr) return pool_->give_back(*this);
  if (response.size() > message_.size()) {
    status = Code::bad_message;
    response = {};
  }
  status_ = status;
  response_bytes_ = static_cast<uint32_t>(response.size());
  if (!response.empty()) std::memmove(message_.data(), response.data(), response.size());
  side_->answered(*this);
}

}  // namespace penstock::tcp
