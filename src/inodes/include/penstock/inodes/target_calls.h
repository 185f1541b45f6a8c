// Calls to targets from threads that may block: removing, clearing, syncing, asking for the end.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "penstock/inodes/layout.h"
#include "penstock/inodes/limits.h"
#include "penstock/wire.h"

namespace penstock::inodes {

// Thread safe. Each function returns when all its calls have ended; the first failure counts.
class TargetCalls {
 public:
  explicit TargetCalls(const Config& config) : config_(config) {}

  // Bytes [begin, end) of one chunk; `end` may be wire::kChunkEnd.
  Status clear(InodeId inode, const Placement& placement, uint32_t chunk, uint32_t begin,
               uint32_t end, bool durable);
  // All bytes from `begin` on, of which none lies in a chunk that begins at or beyond `end`.
  struct Beyond {
    uint64_t begin = 0;
    uint64_t end = 0;
  };
  Status clear_beyond(InodeId inode, const Placement& placement, Beyond beyond, bool durable);
  // A removed file, and the chains that may have chunks of it.
  struct Removed {
    InodeId inode;
    std::vector<ChainId> chains;
  };
  // All their chunks; they are gone from stable storage on return.
  Status remove(std::span<const Removed> files);
  // Of a file about which nothing is known: every chain is asked.
  Removed on_every_chain(InodeId inode) const { return {inode, config_.chains->all()}; }
  // The numbers in [from, to] that have chunks, each with the chains that have some, as many as one
  // question to each chain tells. `from` is not InodeId{}.
  struct Listed {
    std::vector<Removed> files;
    InodeId next;  // from where to ask on; InodeId{}: there are no more
  };
  Result<Listed> with_chunks(InodeId from, InodeId to);
  // What completed before on any chain is durable; of one inode, or InodeId{}: of all.
  Status sync_all();
  // Where the data of the inode ends; 0 if there is none.
  Result<uint64_t> end_of(InodeId inode, const Placement& placement);

  // Bytes that the inode takes up in the targets.
  Result<uint64_t> allocated(InodeId inode, const Placement& placement);
  // The first byte in [from, end) that is in a hole, or that is not; `end` if there is none.
  Result<uint64_t> seek(InodeId inode, const Placement& placement, uint64_t from, uint64_t end,
                        bool hole);

  // The same where something is stored behind all of it.
  Result<uint64_t> seek_stored(InodeId inode, const Placement& placement, uint64_t from,
                               uint64_t end, bool hole);

  // One block of kRecordsInode, wherever it is kept; durable when written, no_data if it never was.
  Status read_record(engine::MemoryRef memory);
  Status write_record(engine::MemoryRef memory);

  // Runs `start` with an Op on the loop of the first shard and waits for its completion.
  Status wait(const std::function<void(engine::Loop& loop, engine::Op& done)>& start);

 private:
  struct Call;
  struct Batch;
  using ByInode = std::map<InodeId, std::vector<ChainId>>;
  Status sync(std::span<const ChainId> chains);
  Status run(std::vector<Call>& calls, engine::Duration most = limits::kStoreCallTimeout);
  Result<std::vector<Call>> ask_ends(InodeId inode, const Placement& placement,
                                     engine::Duration most = limits::kStoreCallTimeout);
  static Status take_inodes(const Call& call, InodeId to, ByInode& files, InodeId& next);

  const Config& config_;
};

}  // namespace penstock::inodes
