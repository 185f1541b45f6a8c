#include "incoming.h"

#include "server.h"

#include <cstring>

namespace penstock::verbs::internal {

using engine::Access;
using engine::TransferOp;

IncomingPool::IncomingPool() = default;

IncomingPool::~IncomingPool() {
  ASSERT(free_.size() == all_.size());
}

Incoming* IncomingPool::take() {
  if (free_.empty()) {
    if (all_.size() == limits::kIncomingMax) return nullptr;
    free_.push_back(all_.emplace_back(std::make_unique<Incoming>()).get());
  }
  Incoming* const incoming = free_.back();
  free_.pop_back();
  incoming->pool_ = this;
  return incoming;
}

void IncomingPool::give_back(Incoming& incoming) {
  ASSERT(incoming.transfers_ == 0 && !incoming.linked());
  incoming.link_ = nullptr;
  incoming.context = nullptr;
  incoming.abandoned_ = false;
  free_.push_back(&incoming);
}

Status Incoming::check(const TransferOp& op, Access access) const {
  if (op.exposure >= exposure_count) return Code::invalid_argument;
  const Span& span = spans_[op.exposure];
  if (span.access != access) return Code::access_denied;
  if (!range_within(op.exposure_offset, op.local.length, span.length)) {
    return Code::invalid_argument;
  }
  return op.local.kind == engine::MemoryKind::host ? Code::ok : Code::not_supported;
}

void Incoming::transfer(TransferOp& op, Access access) {
  if (const Status status = check(op, access); !status.ok()) return loop_->complete(op, status);
  if (link_ == nullptr || abandoned_) return loop_->complete(op, Code::peer_gone);
  if (op.local.length == 0) return loop_->complete(op, Code::ok);
  op.call = this;
  link_->transfer(*this, op, access);
}

void Incoming::reply(Status status, Bytes response) {
  ASSERT(transfers_ == 0);
  if (link_ == nullptr) return pool_->give_back(*this);
  if (response.size() > message_.size()) {
    status = Code::bad_message;
    response = {};
  }
  status_ = status;
  response_bytes_ = static_cast<uint32_t>(response.size());
  if (!response.empty()) std::memmove(message_.data(), response.data(), response.size());
  link_->answered(*this);
}

}  // namespace penstock::verbs::internal
