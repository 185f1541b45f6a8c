// Operations of a lane on GPU memory: they never enter the ring.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "penstock/connection.h"
#include "penstock/lanes/lane_queues.h"
#include "penstock/lanes/lane_slots.h"
#include "penstock/lanes/operation.h"
#include "penstock/lanes/side_lock.h"
#include "penstock/route.h"

namespace penstock::lanes {

class LaneTransfers;
class TransferPool;

// One for each slot of a lane that uses GPU memory: a transfer, or a list of small reads.
struct DeviceOperation {
  struct Single : route::Transfer {
    DeviceOperation* operation = nullptr;
  };
  struct List : route::ListTransfer {
    DeviceOperation* operation = nullptr;
  };

  Single single;
  List list;
  bool is_list = false;
  LaneTransfers* of = nullptr;
  connection::Region* region = nullptr;  // as long as it is in progress
  uint32_t slot = 0;
  // How it ended.
  int64_t result = 0;
  engine::Route route = engine::Route::none;
};

// "The submitting side" and "the waiting side" are those of the lane, with their locks held.
class LaneTransfers {
 public:
  LaneTransfers(LaneSlots& slots, LaneQueues& queues) : slots_(slots), queues_(queues) {}

  // Finds the transfers that carry the operations out, the same ones for good. It locks the
  // submitting side itself, and must be called without that lock: threads that hold the pool's lock
  // wait for the side.
  void find(TransferPool& pool, SideLock& submitting);
  // Before the first operation: room for one in each slot. The submitting side's; locks the waiting
  // one.
  void make_room(SideLock& waiting);

  // The submitting side's.
  void prepare(const Io& io, uint32_t slot);
  void prepare(const Gather& gather, uint32_t slot);
  // False, and it has not begun, when its region was released meanwhile.
  bool start(uint32_t slot);
  // Those that were started since the last time, together.
  void submit();
  // All that was prepared has been submitted, or was given up.
  void forget_prepared() { prepared_regions_.clear(); }
  void give_up(uint32_t slot) { operations_[slot].region = nullptr; }
  DeviceOperation& at(uint32_t slot) { return operations_[slot]; }

  // The waiting side's: operations that have ended.
  uint32_t ready() const { return ended_.ready(); }
  const DeviceOperation& take() { return operations_[ended_.take()]; }

  // Whether any have begun and not ended; then all ends are ready.
  bool any_in_progress() const { return started_.load(std::memory_order_relaxed) != ended_.made(); }
  // For a thread that waits for them: does a part of their work.
  void help() const {
    if (any_in_progress()) transfers_.load(std::memory_order_acquire)->help();
  }
  // That thread goes to sleep.
  void leave_alone() const {
    if (any_in_progress()) transfers_.load(std::memory_order_acquire)->leave_alone();
  }
  void cancel(DeviceOperation& operation);
  // Returns when all have ended, and nothing of them runs any more.
  void drain();

 private:
  void keep(connection::Region& region);
  static void ended(DeviceOperation& operation, const engine::Op& op, uint64_t transferred,
                    engine::Route route);

  LaneSlots& slots_;
  LaneQueues& queues_;
  std::unique_ptr<DeviceOperation[]> operations_;  // by slot; made with the first
  std::vector<route::Transfer*> starting_;         // the submitting side's, for one call
  // Release by the thread that found them first pairs with acquire.
  std::atomic<route::Transfers*> transfers_{nullptr};
  uint32_t number_ = 0;  // of those; written once, under the submitting side's lock
  // Of what is prepared: those that have begun are waited for by the thread that releases their
  // region. The submitting side's.
  std::vector<std::shared_ptr<connection::Region>> prepared_regions_;
  // Relaxed: a thread that waits for their end knows them.
  std::atomic<uint32_t> started_{0};
  // Slots, from the thread that drives the transfers (one at a time) to the waiting side.
  SlotQueue<uint32_t> ended_;
};

}  // namespace penstock::lanes
