// A call as its service sees it.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "penstock/verbs/message.h"

namespace penstock::verbs::internal {

class Incoming;
class ServerLink;

// Incoming calls of one loop. Made when needed, up to the limit, and kept. A call may outlive its
// connection, but not this.
class IncomingPool {
 public:
  IncomingPool();
  ~IncomingPool();
  // Null: none may be had.
  Incoming* take();
  void give_back(Incoming& incoming);
  size_t taken() const { return all_.size() - free_.size(); }

 private:
  std::vector<std::unique_ptr<Incoming>> all_;
  std::vector<Incoming*> free_;
};

// Lives in its loop's pool from its request to its response, or, where the connection has ended, to
// the service's reply.
class Incoming final : public engine::IncomingCall, public ListNode {
 public:
  engine::Peer peer() const override { return peer_; }
  uint64_t exposure_length(uint32_t index) const override {
    return index < exposure_count ? spans_[index].length : 0;
  }
  engine::Access exposure_access(uint32_t index) const override {
    ASSERT(index < exposure_count);
    return spans_[index].access;
  }
  // Nothing of the caller's memory is here.
  std::optional<engine::MemoryRef> direct(uint32_t) override { return std::nullopt; }
  void place(engine::TransferOp& op) override { transfer(op, engine::Access::place); }
  void fetch(engine::TransferOp& op) override { transfer(op, engine::Access::fetch); }
  void reply(Status status, Bytes response) override;

 private:
  friend class ServerLink;
  friend class IncomingPool;

  Status check(const engine::TransferOp& op, engine::Access access) const;
  void transfer(engine::TransferOp& op, engine::Access access);

  engine::Loop* loop_ = nullptr;
  IncomingPool* pool_ = nullptr;
  ServerLink* link_ = nullptr;  // null once the connection has ended
  engine::Peer peer_;
  uint64_t number_ = 0;
  std::array<Span, engine::kNetExposuresMax> spans_;
  uint32_t transfers_ = 0;
  bool abandoned_ = false;  // its caller has given up
  Status status_;
  uint32_t response_bytes_ = 0;
  // The request, and when that has been replied to, the response.
  std::array<std::byte, engine::kNetMessageMax> message_;
};

}  // namespace penstock::verbs::internal
