// The parts of a target and what they share. Each part has one purpose and reaches the others
// through here; all of it belongs to the thread of one loop.
#pragma once

#include "chain_updates.h"
#include "chains.h"
#include "committer.h"
#include "data_files.h"
#include "defragmenter.h"
#include "maps.h"
#include "reader.h"
#include "reclaim.h"
#include "superblock.h"
#include "sweeps.h"
#include "transfers.h"
#include "updater.h"
#include "write_log.h"

#include <set>

#include "penstock/store.h"

namespace penstock::store {

struct Counters {
  metrics::Counter reads{"store.read.ops"};
  metrics::Counter read_bytes{"store.read.bytes"};
  metrics::Counter writes{"store.write.ops"};
  metrics::Counter write_bytes{"store.write.bytes"};
  metrics::Counter commits{"store.commits"};
  metrics::Counter logged{"store.log.writes"};
  metrics::Counter log_records{"store.log.records"};
  metrics::Counter replayed{"store.log.replayed"};  // records, when targets were opened
  metrics::Counter corrupt_blocks{"store.corrupt_blocks"};
  metrics::Counter repeated_reads{"store.repeated_reads"};
  metrics::Counter full{"store.full"};          // how many targets have no room for commits now
  metrics::Counter no_space{"store.no_space"};  // updates that were refused for lack of space
  metrics::Counter scattered_blocks{"store.scattered_blocks"};  // now, in scattered maps
  metrics::Counter moved_blocks{"store.moved_blocks"};          // by the defragmenter
  metrics::Counter unmoved_blocks{"store.unmoved_blocks"};  // they did not verify when it read them
};

struct Core {
  Core(engine::Loop& its_loop, engine::Disk& its_disk, engine::Kv& its_kv, TargetConfig its_config);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  engine::Loop& loop;
  engine::Disk& disk;
  engine::Kv& kv;
  const TargetConfig config;
  std::unique_ptr<engine::DirectoryLock> lock;
  Identity identity;

  Status failed;         // not ok: the target takes no updates any more
  bool closing = false;  // nothing new begins
  // Maps of a target that has failed, if the log holds newer acknowledged bytes than they do: the
  // next opening brings those back, and until then reads of these maps fail.
  std::set<MapKey> lost;
  uint64_t mapped_blocks = 0;
  uint64_t chunks = 0;
  uint64_t corrupt_blocks = 0;
  uint64_t requests_ended = 0;  // of callers, not of scrubs
  Counters counters;

  BlockAllocator allocator;
  MapIndex index;
  Reclaim reclaim;
  DataFiles files;
  Transfers transfers;
  Maps maps;
  ChunkLocks locks;
  Committer committer;
  WriteLog write_log;
  Pool<Request> requests;
  Pool<LargeArrays> large;
  IntrusiveList<Request> large_waiters;
  Reader reader;
  Updater updater;
  Sweeps sweeps;
  Defragmenter defragmenter;
  ChainUpdates chain_updates;
  Chains chains;

  // What an update is answered once the target has failed.
  Status refusal() const {
    return failed.code() == Code::closed ? Status(Code::closed) : Status(Code::read_only);
  }
  // Called when something ended that close() may be waiting for.
  void (*on_idle)(Core&) = nullptr;
  void check_closed() {
    if (closing) on_idle(*this);
  }
  // Called when a request ended, to admit an operation that waits for its context.
  void (*on_request_free)(Core&) = nullptr;
  // Submits a clear as a caller of the target would.
  void (*submit_clear)(Core&, ClearOp&) = nullptr;
  void* owner = nullptr;

  // Goes on with a request that waited, now or in a later turn of the loop.
  void resume(Request& request);
  void resume_later(Request& request);
  // Gives a large request its arrays; false if it waits for them.
  bool take_arrays(Request& request);
  void give_arrays(Request& request);
  // Ends the request: completes its operation and takes the context back.
  void finish(Request& request);
  void on_io(Io& io);
  // A block that does not verify, for operators.
  void report_corrupt(const Request& request, uint32_t block_of_chunk, BlockNumber physical);

 private:
  void run_ready();
  IntrusiveList<Request> ready_;
  engine::Op ready_op_;
};

// The inside of a target, for tests.
Core& core_of(Target& target);

// Derives the blocks and maps from a request's bytes.
void set_range(Request& request, uint32_t begin, uint32_t end);

}  // namespace penstock::store
