// A target: one chunk store on one disk.
//
// Chunks are arrays of 4 KiB blocks. A *block map* describes 64 consecutive blocks of a chunk:
// where each lives in the data files, and its CRC-32C. Block maps are the only committed state; the
// map of free space is rebuilt from them at open. Every update writes new blocks and then commits
// new block maps in one KV transaction, so that a crash leaves the old or the new bytes; the
// replaced blocks are freed after the commit, once no read uses them any more. Updates that wait
// for a commit at the same time share it. Formats: docs/formats/store.md.
//
// A target is owned by one loop: everything is called from the loop's thread, and every operation
// completes there. Operations on one chunk behave as if they ran one after the other in some order
// that respects completion: what completed before another was submitted is seen by it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "penstock/engine.h"

namespace penstock::store {

inline constexpr uint32_t kWholeChunk = UINT32_MAX;

// A chunk as one of a chain. Repair goes through them in this order.
struct ChainChunk {
  ChainId chain;
  ChunkId chunk;
  friend constexpr auto operator<=>(const ChainChunk&, const ChainChunk&) = default;
};

// Bytes [offset, offset + destination.length) of a chunk go to `destination`. What was never
// written reads as zeros. Blocks are verified after they landed; a mismatch ends with corrupt, is
// logged with inode, chunk and block, and the destination's bytes are then undefined.
struct ReadOp : engine::Op {
  ChainId chain;
  ChunkId chunk;
  uint32_t offset = 0;
  engine::MemoryRef destination;  // length > 0, within the chunk size limit
  bool refuse_holes = false;      // no_data instead of zeros
  // For bytes that are verified further on: one for each block that the range touches, filled with
  // the CRC-32C of its 4096 bytes. Blocks that are wanted in full are not verified here then.
  uint32_t* checksums = nullptr;
  // Nothing is read, and the destination is only a length: whether the first block is a hole (then
  // the route says so), and how many blocks of the range from it on are the same.
  bool probe = false;
  uint32_t alike_blocks = 0;                  // out, of a probe
  engine::Route route = engine::Route::none;  // out
  uint32_t bad_block = 0;                     // out with corrupt: the block's index in its chunk
};

// `source` replaces the bytes at `offset`. It is copied before anything is done with it: where it
// changes until the operation completed, the old or the new bytes are stored, and read back intact.
// When durable, it completes once the update is on stable storage;
// otherwise once readers see it, and a later SyncOp or durable write of the inode makes it durable.
// With no_space nothing changed, except that a durable write may have become visible, and becomes
// durable later, when it was the commit that found no room.
struct WriteOp : engine::Op {
  ChainId chain;
  ChunkId chunk;
  uint32_t offset = 0;
  engine::MemoryRef source;  // length > 0
  bool durable = true;
  engine::Route route = engine::Route::none;  // out
};

// Bytes [begin, end) of the chunk read as zeros from now on and whole blocks in it are freed.
// `end` kWholeChunk means to the end and also forgets the valid length beyond `begin`.
struct ClearOp : engine::Op {
  ChainId chain;
  ChunkId chunk;
  uint32_t begin = 0;
  uint32_t end = kWholeChunk;
  bool durable = false;
  uint64_t freed_blocks = 0;  // out
};

// Removes the inode's chunks of a chain with index >= first_chunk, in bounded steps.
struct RemoveOp : engine::Op {
  ChainId chain;
  InodeId inode;
  uint32_t first_chunk = 0;
  bool durable = false;
  uint64_t removed_bytes = 0;  // out
};

// Every update of the inode, in all chains, that completed before is durable on completion.
// InodeId{} means all inodes.
struct SyncOp : engine::Op {
  InodeId inode;
};

// Where the inode's data ends, for files whose writer died before its length was recorded.
struct EndQueryOp : engine::Op {
  ChainId chain;
  InodeId inode;
  // out: the largest index of a chunk with data, and the end of its last written byte
  bool any = false;
  uint32_t last_chunk = 0;
  uint32_t end_in_chunk = 0;
  uint64_t allocated_bytes = 0;  // of all its chunks, in whole blocks
};

// Inodes that have chunks of a chain, in order from one on: as many as a bounded search finds.
struct InodesOp : engine::Op {
  ChainId chain;
  InodeId first;               // not InodeId{}
  uint32_t limit = 0;          // not 0
  std::vector<InodeId> found;  // out
  InodeId next;                // out: from where to ask on; InodeId{}: there are no more
};

struct Damage {
  ChainId chain;
  ChunkId chunk;
  uint32_t block = 0;
  Status status;        // corrupt, or what the disk said
  bool healed = false;  // from another copy of its chain: it is damaged no more
};

// Reads and verifies everything that is stored, in the background of other operations.
struct ScrubOp : engine::Op {
  // Called in the loop for every bad block, and with the number of bytes verified so far.
  std::function<void(const Damage&)> on_damage;
  std::function<void(uint64_t verified_bytes)> on_progress;
  bool stop = false;            // set it to end early with cancelled
  uint64_t verified_bytes = 0;  // out
  uint64_t damaged_blocks = 0;  // out
  uint64_t healed_blocks = 0;   // out: of these
};

// An eighth of the file system, within bounds.
inline constexpr uint64_t kReserveByNeed = UINT64_MAX;

// Blocks that updates scattered over the disk are brought together again in the background. It
// rests most of the time while there are other operations.
struct DefragmentConfig {
  bool enabled = true;
  engine::Duration wait = std::chrono::seconds(5);  // after something was found scattered
  // A block map is scattered when reading it takes so many disk operations more than it need.
  uint32_t breaks_min = 4;
};

// 32 MiB, or a share of the file system.
inline constexpr uint64_t kLogByNeed = UINT64_MAX;

struct TargetConfig {
  std::string directory;  // holds "data-NNNN" files; made by create()
  TargetId id;
  // In which the chunks of a target are that was written when there were no chains.
  ChainId old_chain;
  uint64_t capacity_bytes = 0;  // up to 1 PiB; 0: as long as the file system has room
  // Left free on the file system below, for databases.
  uint64_t reserve_bytes = kReserveByNeed;
  // Of the log of small durable writes, made when there are enough of them; 0: none is made. Less
  // on a small file system.
  uint64_t log_bytes = kLogByNeed;
  uint32_t log_after = 32;  // durable writes of a life without one
  // Bound of what is kept in memory of block maps. A MiB of it tells where 28 to 110 GiB of data
  // lie that was written in large pieces, or all of 440 MiB, with checksums. At least so much is
  // taken for a few maps in any case.
  uint64_t map_cache_bytes = kGiB;
  DefragmentConfig defragment = {};
};

struct TargetStatus {
  uint64_t capacity_bytes = 0;  // what this target can hold in all at this moment
  uint64_t used_bytes = 0;      // in blocks of committed chunks
  uint64_t chunks = 0;
  uint64_t block_maps_cached = 0;
  uint64_t corrupt_blocks_seen = 0;  // since open
  uint64_t scattered_bytes = 0;      // in block maps whose blocks lie apart
  uint64_t moved_bytes = 0;          // brought together since open
  bool full = false;    // no room for commits: writes and syncs end with no_space until there is
  bool failed = false;  // takes no updates until it is opened again
};

class ChainStore;

class Target {
 public:
  // Opens or, on an empty database and directory, makes the target. `kv` holds this target's block
  // maps and nothing else. All three outlive the target. Blocks the calling thread; call it before
  // the loop runs. Refuses with a message that names the directory and says what to do.
  static Outcome<std::unique_ptr<Target>> open(engine::Loop& loop, engine::Disk& disk,
                                               engine::Kv& kv, TargetConfig config);
  virtual ~Target() = default;

  // At most limits::kOpsMax operations are in progress; more wait here in order.
  virtual void submit(ReadOp& op) = 0;
  virtual void submit(WriteOp& op) = 0;
  virtual void submit(ClearOp& op) = 0;
  virtual void submit(RemoveOp& op) = 0;
  virtual void submit(SyncOp& op) = 0;
  virtual void submit(EndQueryOp& op) = 0;
  virtual void submit(InodesOp& op) = 0;
  virtual void submit(ScrubOp& op) = 0;

  // Its chunks as copies in chains (chain_store.h); lives as long as the target.
  virtual ChainStore& chains() = 0;

  virtual TargetStatus status() const = 0;

  // Whether scattered blocks are brought together from now on; a step that is under way ends first.
  virtual void set_defragment(bool enabled) = 0;

  // Commits what is pending and completes `done` when nothing is in flight any more; submit nothing
  // after it. Destroying a target without it is as safe as a crash, provided that the disk and the
  // KV have nothing in flight for it.
  virtual void close(engine::Op& done) = 0;
};

// The greatest inode below `below` of which a target's database names a chunk, also one that was
// removed; InodeId{} if there is none. What the target's log holds is in the database once the
// target was opened. Blocks.
Result<InodeId> newest_inode(engine::Kv& kv, InodeId below);

}  // namespace penstock::store
