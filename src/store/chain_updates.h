// How updates of chains reach the disk (decision 0045).
//
// Prepare: new blocks are written beside the old ones, and then a pending record joins the group
// that gathers; a small one is durable with an entry of the log already (decision 0049). Commit: at
// one instant the block maps name the new blocks, and the records join the group. Replacement: both
// at once.
//
//   arrays -> lock (the request holds the range) -> maps (at hand) -> space (blocks allocated)
//          -> transfer (data on its way to the new blocks, and into the log) -> apply (the instant)
#pragma once

#include "request.h"

#include "penstock/chain_store.h"

namespace penstock::store {

struct ChainRecord;
struct Core;

class ChainUpdates {
 public:
  explicit ChainUpdates(Core& core) : core_(core) {}

  // A prepare, commit or replacement that has its request; takes it to its end.
  void start(ChainTask& task);
  void step(Request& request);
  void on_io(Io& io);
  // A prepare that waited to join the log goes on.
  void on_log(Request& request) { pump(request); }

 private:
  void plan(ChainTask& task);
  uint32_t length_before(const Request& request) const;
  BlockRef old_ref(const Request& request, uint32_t block) const;
  void pump(Request& request);
  bool start_next(Request& request);
  void start_write(Io& io);
  void on_old(Io& io);
  void write_lost(Io& io);
  bool join_log(Request& request);
  void instant(Request& request);
  void become_pending(ChainTask& task);
  void commit(ChainTask& task);
  void replace(ChainTask& task);
  void heal(ChainTask& task);
  void plan_heal(ChainTask& task);
  void list_blocks(ChainTask& task);
  void encode(ChainTask& task);
  void change_maps(ChainTask& task);
  void change_map(ChainTask& task, uint32_t i);
  void add_slot(const SlotRecord& slot, std::vector<ChainRecord>& records);
  void fail(Request& request, Status status);
  void retry(Request& request);
  void fail_task(Request& request);
  void release(Request& request);

  Core& core_;
};

}  // namespace penstock::store
