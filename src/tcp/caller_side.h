// The side of a connection that calls: which calls are in progress, and what is to be sent for
// them.
#pragma once

#include "side.h"

#include <string>
#include <vector>

#include "penstock/tcp/greeting.h"

namespace penstock::tcp {

// Owner thread of the loop only. Every call ends once, and only when neither the kernel nor this
// side touches its memory any more; ends are completed in a turn of the loop.
class CallerSide final : public Side {
 public:
  // Told of what concerns more than this connection.
  class Watcher {
   public:
    virtual void on_welcome(const Welcome& welcome) = 0;
    virtual void on_refusal(const Refused& refused) = 0;
    // What calls end with that the end of their connection has caught.
    virtual Status status_of_calls(Status end) { return end; }
    // After on_end(): no call is left.
    virtual void on_caller_end(Status status) = 0;

   protected:
    ~Watcher() = default;
  };

  // `hello` has no proof; all outlive this.
  CallerSide(engine::Loop& loop, Pipe& pipe, Watcher& watcher, const Hello& hello)
      : loop_(loop), pipe_(pipe), watcher_(watcher), hello_(hello) {}
  ~CallerSide() override;

  bool takes_calls() const { return stage_ != Stage::leaving && stage_ != Stage::over; }
  // Of an operation that keeps the limits, while it takes_calls().
  void call(engine::CallOp& op);
  // Of a call of this side that has not ended.
  void cancel(engine::CallOp& op);
  // Null where the call has ended, or never was one of a connection.
  static CallerSide* side_of(engine::CallOp& op);
  // For an operation that is refused before any connection.
  static void mark_refused(engine::CallOp& op);

  Result<MutableBytes> on_frame(const Header& header, Bytes message) override;
  Status on_payload(const Header& header) override;
  void fill(Batch& batch) override;
  bool has_to_send() const override;
  void on_sent(engine::Op& owner) override;
  void on_released(engine::Op& owner) override;
  void on_diverted() override;
  void on_end(Status status) override;
  bool is_busy() const override { return calls_ != 0 || used_slots_ != 0; }
  void ping() override;
  void on_idle() override;

 private:
  struct Call;  // lives in CallOp::transport

  // A call's number at the server, taken from the sending of its request to its response.
  struct Slot {
    engine::CallOp* op = nullptr;  // null: free, or the call has ended here
    uint64_t number = 0;           // 0: free
  };
  // Bytes that the server asked for.
  struct Want {
    uint64_t call = 0;
    uint64_t offset = 0;
    uint32_t left = 0;
    uint32_t transfer = 0;
    uint8_t exposure = 0;
  };

  static Call& state(engine::CallOp& op);
  Slot* find(uint64_t number);
  Status greet(const Header& header, Bytes message);
  Result<MutableBytes> on_data(const Header& header);
  Status on_want(const Header& header);
  Status on_response(const Header& header, Bytes message);
  void give_up(engine::CallOp& op, Status status);
  void end(engine::CallOp& op, Status status);
  void settle(engine::CallOp& op);
  void fill_control(Batch& batch);
  void fill_wants(Batch& batch);
  bool fill_want(Batch& batch, Want& want, engine::CallOp& op);
  bool fill_request(Batch& batch, engine::CallOp& op);
  bool may_request() const;

  engine::Loop& loop_;
  Pipe& pipe_;
  Watcher& watcher_;
  const Hello hello_;
  enum class Stage : uint8_t { connected, greeted, ready, leaving, over } stage_ = Stage::connected;

  uint32_t calls_ = 0;                     // that have not ended
  IntrusiveList<engine::CallOp> unsent_;   // in the order of call()
  IntrusiveList<engine::CallOp> waiting_;  // requested, or ending
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_slots_;
  uint32_t used_slots_ = 0;
  uint32_t calls_max_ = 0;
  uint64_t count_ = 0;
  std::vector<Want> wants_;              // the next first
  std::vector<uint64_t> abandons_;       // numbers that the server is to be told of
  engine::CallOp* receiving_ = nullptr;  // its memory is the place of the payload under way
  engine::CallOp* diverting_ = nullptr;  // it has ended, and the kernel still has that place
  bool ping_ = false;
  bool pong_ = false;
  uint64_t pong_number_ = 0;
};

}  // namespace penstock::tcp
