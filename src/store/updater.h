// Writes and clears: new blocks are written beside the old ones, then the block maps change at one
// instant, and the committer makes that durable.
//
//   arrays -> lock (the request holds the range) -> maps (at hand) -> space (blocks allocated)
//          -> transfer (data on its way to the new blocks) -> apply (visible)
#pragma once

#include "request.h"

namespace penstock::store {

struct Core;

class Updater {
 public:
  explicit Updater(Core& core) : core_(core) {}
  ~Updater();

  // The request has its kind, op, chunk, range and memory; takes it to its end.
  void start(Request& request);
  void step(Request& request);
  void on_io(Io& io);
  // A write that waited to join the log goes on.
  void on_log(Request& request);
  // Blocks became free, or will not become free any more.
  void space_changed();

  // Part of making a change visible: a block of a map becomes another block on disk, or a hole; the
  // old one is free after the commit.
  void replace(CachedMap& map, uint32_t block_of_map, BlockRef ref);
  // What a map was before it was changed, and that it was.
  struct Before {
    bool empty;
    uint32_t scattered;
  };
  Before before_change(const CachedMap& map) const;
  void changed(CachedMap& map, const Before& before);
  // Blocks for what the request writes; false if it waits for them, and is resumed.
  bool wait_for_space(Request& request);
  void give_space_back(Request& request);
  // The same where a record of the log names them: later, behind a mark.
  void retire_space(Request& request);

 private:
  bool lock(Request& request);
  void find_edges(Request& request);
  bool needs_rewrite(const Request& request, uint32_t block) const;
  BlockRef old_ref(const Request& request, uint32_t block) const;
  bool allocate(Request& request);

  void pump(Request& request);
  bool start_next(Request& request);
  bool start_partial(Request& request);
  bool start_whole(Request& request);
  void write_partial(Io& io);
  void start_write(Io& io, BlockNumber physical);
  bool join_log(Request& request);
  void leave_log(Request& request);
  void give_ended(Request& request);
  void on_old(Io& io);
  void fail(Request& request, Status status);

  void apply(Request& request);
  void apply_write(Request& request);
  void apply_clear(Request& request);
  void end(Request& request);

  Core& core_;
  IntrusiveList<Request> space_waiters_;
  bool serving_space_ = false;
};

}  // namespace penstock::store
