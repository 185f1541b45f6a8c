// The side of a connection that serves: calls as their service sees them, and their transfers.
#pragma once

#include "incoming.h"
#include "link.h"

#include <vector>

namespace penstock::verbs::internal {

class ServerLink final : public Link {
 public:
  // `service` lives until withdraw(), and until it has replied to what it got.
  ServerLink(LoopNet& net, uint32_t id, uint32_t service_number, engine::Service& service,
             engine::Peer peer);
  ~ServerLink() override;

  uint32_t service() const { return service_number_; }
  const engine::Peer& peer() const { return peer_; }
  // From now on calls end with peer_gone.
  void withdraw() { service_ = nullptr; }

 private:
  friend class Incoming;
  struct Refusing {
    uint64_t call = 0;
    Code code = Code::ok;
  };

  void handle(const Message& message) override;
  void fill() override;
  void on_work(const Work& work) override;
  void on_broken() override {}
  void on_end(Status status) override;

  void on_request(const Message& message);
  void on_abandon(uint64_t number);
  void transfer(Incoming& incoming, engine::TransferOp& op, engine::Access access);
  void end_transfer(engine::TransferOp& op, Status status);
  void answered(Incoming& incoming);
  void fill_responses();
  void fill_pieces();
  void post_piece(engine::TransferOp& op);

  const uint32_t service_number_;
  engine::Service* service_;  // null once withdrawn
  const engine::Peer peer_;
  uint32_t in_progress_ = 0;  // requests whose response has not been sent
  IntrusiveList<Incoming> serving_;
  IntrusiveList<Incoming> responses_;
  std::vector<Refusing> refusing_;
  std::vector<uint64_t> releases_;            // calls that the caller is to be told of
  IntrusiveList<engine::TransferOp> moving_;  // with pieces to be posted
  IntrusiveList<engine::TransferOp> flying_;  // all of them are, or as many as may be
  uint64_t flying_bytes_ = 0;
};

}  // namespace penstock::verbs::internal
