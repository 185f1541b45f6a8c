// The side of a connection that serves: calls as their service sees them, and their transfers.
#pragma once

#include "side.h"

#include <memory>
#include <vector>

#include "penstock/tcp/greeting.h"

namespace penstock::tcp {

class Incoming;

// Incoming calls of one loop, and memory for what comes along with them. Made when needed, up to
// the limits, and kept. A call may outlive its connection, but not this.
class IncomingPool {
 public:
  struct InlineBuffer {
    std::array<std::byte, limits::kInlineBytesMax> bytes;
  };

  IncomingPool();
  ~IncomingPool();
  // For a connection that has so many; null: none may be had.
  Incoming* take(uint32_t has);
  void give_back(Incoming& incoming);
  InlineBuffer* take_inline();
  void give_back(InlineBuffer& buffer) { free_inline_.push_back(&buffer); }
  uint32_t taken() const { return taken_; }

 private:
  std::vector<std::unique_ptr<Incoming>> all_;
  std::vector<Incoming*> free_;
  std::vector<std::unique_ptr<InlineBuffer>> inline_;
  std::vector<InlineBuffer*> free_inline_;
  uint32_t taken_ = 0;
};

// Owner thread of the loop only.
class ServerSide final : public Side {
 public:
  class Watcher {
   public:
    virtual void on_server_end() = 0;

   protected:
    ~Watcher() = default;
  };

  // `service` lives until withdraw(), and until it has replied to what it got.
  ServerSide(engine::Loop& loop, Pipe& pipe, Watcher& watcher, IncomingPool& pool,
             engine::Service& service, engine::Peer peer, const Welcome& welcome);
  ~ServerSide() override;

  // From now on calls end with peer_gone. The connection ends when the last has been answered.
  void withdraw();

  Result<MutableBytes> on_frame(const Header& header, Bytes message) override;
  Status on_payload(const Header& header) override;
  void fill(Batch& batch) override;
  bool has_to_send() const override;
  void on_sent(engine::Op& owner) override;
  void on_released(engine::Op&) override;
  void on_diverted() override;
  void on_end(Status status) override;
  bool is_busy() const override { return in_progress_ != 0; }
  void ping() override;
  void on_idle() override;

 private:
  friend class Incoming;
  struct Refusing {
    uint64_t call = 0;
    Code code = Code::ok;
  };

  Result<MutableBytes> on_request(const Header& header, Bytes message);
  Result<MutableBytes> on_data(const Header& header);
  Status on_abandon(uint64_t number);
  void deliver(Incoming& incoming);
  void refuse(uint64_t number, Code code);
  void transfer(Incoming& incoming, engine::TransferOp& op, engine::Access access);
  bool copy_now(const Incoming& incoming, engine::TransferOp& op);
  void end_transfer(engine::TransferOp& op, Status status);
  void end_transfers(Incoming& incoming);
  void answered(Incoming& incoming);
  void leave_if_done();
  void fill_control(Batch& batch);
  void fill_responses(Batch& batch);
  void fill_wants(Batch& batch);
  void fill_places(Batch& batch);
  bool fill_place(Batch& batch, engine::TransferOp& op);

  engine::Loop& loop_;
  Pipe& pipe_;
  Watcher& watcher_;
  IncomingPool& pool_;
  engine::Service* service_;  // null once withdrawn
  const engine::Peer peer_;
  const Welcome welcome_;
  bool welcomed_ = false;
  bool over_ = false;

  uint32_t in_progress_ = 0;  // requests whose response has not been put into a batch
  uint32_t slots_ = 0;        // of the pool, that this connection has
  IntrusiveList<Incoming> serving_;
  IntrusiveList<Incoming> responses_;
  std::vector<Refusing> refusing_;
  IntrusiveList<engine::TransferOp> placing_;  // with more to be sent
  IntrusiveList<engine::TransferOp> sent_;     // all of it is in the batch under way
  IntrusiveList<engine::TransferOp> wanting_;  // the caller has not been asked yet
  IntrusiveList<engine::TransferOp> fetching_;
  std::vector<engine::TransferOp*> wants_;  // by number less one
  std::vector<uint32_t> free_wants_;
  Incoming* arriving_ = nullptr;  // its inline bytes are under way
  engine::TransferOp* receiving_ = nullptr;
  bool ping_ = false;
  bool pong_ = false;
  uint64_t pong_number_ = 0;
};

}  // namespace penstock::tcp
