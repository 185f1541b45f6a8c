// The side of a connection that calls: which calls are in progress, and which windows are open for
// them.
#pragma once

#include "link.h"
#include "registrations.h"
#include "trial.h"

#include <vector>

#include "penstock/verbs/net.h"

namespace penstock::verbs::internal {

// A call's way: unsent, requested (its windows are open), perhaps releasing (it was given up, and
// the server is to stop), closing (its windows are being invalidated), ended.
class CallerLink final : public Link {
 public:
  CallerLink(LoopNet& net, uint32_t id, engine::Address to);

  // Makes a queue pair and asks for one at the other side.
  void start();
  engine::Address to() const { return to_; }
  bool may_go() const override { return !introducing_ && trial_ == nullptr; }
  // It stands, and has been tried out where calls have another way meanwhile.
  bool is_ready() const { return was_ready_ && !doomed() && !over(); }
  bool was_ready() const { return was_ready_; }

  // Of an operation that keeps the limits, while it is not doomed.
  void call(engine::CallOp& op);
  void cancel(engine::CallOp& op);
  // Null where the call has ended, or never was one of a connection.
  static CallerLink* link_of(engine::CallOp& op);
  // For an operation that is refused before any connection.
  static void mark_refused(engine::CallOp& op);

 private:
  struct Call;  // lives in CallOp::transport

  struct OpenWindow {
    Window window;
    bool taken = false;  // from the pool
    bool open = false;   // not known to be invalid
  };
  // A call's number at the server, taken from the sending of its request to its response.
  struct Slot {
    engine::CallOp* op = nullptr;  // null: free, or the call has ended here
    uint64_t number = 0;           // 0: free
    bool answered = false;
    std::array<OpenWindow, engine::kNetExposuresMax> windows;
  };

  static Call& state(engine::CallOp& op);
  Slot* find(uint64_t number);
  void handle(const Message& message) override;
  void fill() override;
  void on_work(const Work& work) override;
  void on_broken() override;
  void on_end(Status status) override;
  void on_introduced(Status status);
  void begin_trial();
  void on_trial_end();

  bool may_request(const engine::CallOp& op) const;
  void request(engine::CallOp& op);
  Status pin(engine::CallOp& op);
  void unpin(engine::CallOp& op);
  void bind(engine::CallOp& op, Slot& slot, uint32_t exposure, Message& message);
  void post_closes();
  void on_response(const Message& message, Slot& slot);
  void on_timer(engine::CallOp& op);
  void give_up(engine::CallOp& op, Status status);
  void close(engine::CallOp& op);
  void finish(engine::CallOp& op);
  void refuse(engine::CallOp& op, Status status);
  void free(Slot& slot);
  uint32_t take_slot();

  const engine::Address to_;
  Introduction introduction_;
  bool introducing_ = false;
  std::unique_ptr<Trial> trial_;  // while it is under way
  bool was_ready_ = false;
  IntrusiveList<engine::CallOp> unsent_;   // in the order of call()
  IntrusiveList<engine::CallOp> waiting_;  // requested, releasing, or with all its closes posted
  IntrusiveList<engine::CallOp> closing_;  // with windows whose invalidation has not been posted
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_slots_;
  uint32_t used_slots_ = 0;
  uint64_t count_ = 0;
  std::vector<uint64_t> abandons_;  // numbers that the server is to be told of
};

}  // namespace penstock::verbs::internal
