// Client: the data path of one shard.
#pragma once

#include "operation.h"
#include "piece_pool.h"

#include <memory>
#include <vector>

namespace penstock::shards {

class ShardClient final : public Client {
 public:
  ShardClient(engine::Loop& loop, engine::Net& net, const DataPlane& plane);
  ~ShardClient() override;

  void submit(IoOp& io) override;
  void cancel(IoOp& io) override;

 private:
  static Status check(const IoOp& io);
  void submit_behind(IoOp& io);
  void start_behind();
  Operation& take_slot(IoOp& io, Flow& flow, IoClass io_class);
  void start(Operation& op);
  void wait_for_behind(Operation& op);
  void begin(Operation& op);
  void prepare_holding(Operation& op);
  void hold(Operation& op);
  void wait_for_hold(Operation& op, holds::Hold wanted);
  void end_hold_wait(Operation& op);
  void held(Operation& op);
  void begin_held(Operation& op);
  void let_go(Operation& op);
  bool is_void(const Operation& op);
  void begin_read(Operation& op);
  void drop_privileges(Operation& op, const meta::FileWriter& writer);
  void dropped_privileges(Operation& op);
  void begin_write(Operation& op);
  void grow(Operation& op, uint64_t length);
  void may_grow(Operation& op);
  void widen(Operation& op);
  void widened(Operation& op);
  static bool finds_bytes_again(const Inode& inode);
  bool waits_for_room(Operation& op);
  void got_room(Operation& op);
  void end_outside(Operation& op, Status why);
  static void note_stored(const Operation& op, uint64_t changes_before);
  void begin_sync(Operation& op);

  void note_access(Operation& op);
  void move(Operation& op);
  void dispatch(const Scheduler::Dispatch& next);
  void dispatch_waiting();
  void send(Operation& op, Piece& piece);
  void fill_io(Operation& op, Piece& piece);
  void on_piece(Piece& piece);
  void stop_sending(Operation& op);
  void moved(Operation& op);
  void wrote(Operation& op);
  void tell(Operation& op);

  void end_early(Operation& op, Status why);
  // Uses the inode of an open file beyond its close, until the answer is dropped.
  FileRef keep(const OpenFile& file) const;
  void settle(Operation& op, uint64_t changes);
  // In a turn of the loop: ends `op` and runs the completion.
  void finish(Operation& op, Status status);
  // The same from inside submit() or cancel(), where no completion may run.
  void finish_later(Operation& op, Status status);
  // Takes the result over into the IoOp and gives the operation back; null if that ended before.
  IoOp* release(Operation& op, Status status);

  engine::Loop& loop_;
  engine::Net& net_;
  const DataPlane& plane_;
  std::unique_ptr<Operation[]> operations_;
  PiecePool pieces_;
  std::vector<Operation*> free_operations_;
  Scheduler scheduler_;
  bool dispatching_ = false;
  bool may_send_ = false;  // of the operation at hand, for one piece
  // What operations that have a slot may wait for: goes past the scheduler, and has slots of its
  // own.
  IntrusiveList<IoOp> waiting_behind_;
  uint32_t behind_used_ = 0;
  bool starting_behind_ = false;
};

}  // namespace penstock::shards
