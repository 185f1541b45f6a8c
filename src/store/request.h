// What a read, write, clear or scrub of one range of one chunk needs while it is in progress.
#pragma once

#include "chunk_locks.h"
#include "map_index.h"

#include <array>
#include <vector>

#include "penstock/engine.h"

namespace penstock::store {

struct ChainTask;
struct PendingRecord;
struct Request;

enum class IoStep : uint8_t {
  read,        // into the caller's memory or the stage
  reread,      // one block once more, after a mismatch
  old,         // the block that a partial write merges with, into the stage
  old_reread,  // the same once more
  write,       // new blocks
};

// One disk operation on neighbouring blocks of a request.
struct Io : engine::DiskOp {
  Request* request = nullptr;
  uint32_t first = 0;  // index into the request's blocks
  uint32_t count = 0;
  uint32_t checked = 0;        // so many of them are verified
  std::byte* stage = nullptr;  // null: straight between the disk and the caller's memory
  IoStep step = IoStep::read;
  bool staged = false;      // all of it goes through the stage, not just a reread
  bool one_by_one = false;  // the whole failed: find out which block
  bool ended = false;       // of a write that is to be logged: its stage is still needed
  Io* pool_next = nullptr;
};

// Arrays for requests that are larger than the inline ones.
struct LargeArrays {
  std::array<BlockRef, limits::kChunkBlocksMax> blocks;
  std::array<CachedMap*, limits::kChunkMapsMax> maps;
  LargeArrays* pool_next = nullptr;
};

enum class RequestKind : uint8_t { read, write, clear, verify, move, chain };
enum class RequestStep : uint8_t { arrays, lock, maps, space, transfer, apply };

// Where a write is on its way into the log: it is to be logged, it waits to join, it is in a
// record.
enum class LogStep : uint8_t { none, taken, held, joined };

// As a ListNode it is in the list of whatever it waits for, if anything.
struct Request : ListNode {
  RequestKind kind = RequestKind::read;
  RequestStep step = RequestStep::arrays;
  engine::Op* op = nullptr;  // the caller's; of verify requests the sweep's own
  ChainId chain;
  ChunkId chunk;
  // Bytes of the chunk, and the blocks and maps that they touch.
  uint32_t begin = 0;
  uint32_t end = 0;
  uint32_t first_block = 0;
  uint32_t block_count = 0;
  uint32_t first_map = 0;
  uint32_t map_count = 0;
  uint32_t maps_held = 0;  // so many of `maps` are pinned (or null)
  uint32_t next = 0;       // blocks below this have their I/O begun
  uint32_t ios = 0;        // in flight
  uint32_t bad_block = 0;
  uint32_t maps_generation = 0;
  uint8_t epoch = 0;       // of Reclaim, for reads
  bool in_submit = false;  // nothing may complete yet
  bool own_io_taken = false;
  bool durable = false;
  bool refuse_holes = false;
  bool probe = false;
  bool to_end = false;     // a clear that forgets the valid length
  bool has_space = false;  // blocks are allocated and not yet visible
  LogStep log_step = LogStep::none;
  uint8_t log_io_count = 0;
  uint8_t old_reads = 0;   // blocks that a partial write merges with, not read yet
  uint8_t edge_count = 0;  // of a clear: blocks that it rewrites in part
  std::array<uint32_t, 2> edges{};
  engine::Route route = engine::Route::none;
  Status status;
  engine::MemoryRef memory;
  uint32_t* checksums = nullptr;  // of a read that is verified further on
  // Of a read that goes on behind damaged blocks: these.
  std::vector<uint32_t>* damaged = nullptr;
  uint64_t freed_blocks = 0;  // out, of a clear
  // Of a part of an operation on a chain: an update of the kind `chain`, or a read.
  ChainTask* chain_task = nullptr;
  uint32_t new_blocks = 0;                 // of a `chain`
  const PendingRecord* pending = nullptr;  // of a read: it reads these blocks, not those of maps
  // Snapshot of a read, new blocks of a write or of a clear's edges.
  BlockRef* blocks = nullptr;
  CachedMap** maps = nullptr;
  LargeArrays* large = nullptr;
  // Of a read that began with nothing but the places of its blocks: a bit for each of its maps
  // whose checksums are being fetched, and what has landed meanwhile.
  uint8_t late_maps = 0;
  struct LateRead : ListNode {
    Request* request = nullptr;
  } late;
  IntrusiveList<engine::Op> landed;
  // Of a write that is to be logged: its record, and what brings its bytes, until it has joined.
  uint64_t log_number = 0;
  std::array<Io*, limits::kLogBlocks> log_ios{};
  RangeLock lock;
  Io io;  // for the first; further ones come from a pool
  Request* pool_next = nullptr;
  std::array<CachedMap*, limits::kInlineMaps> inline_maps;
  std::array<BlockRef, limits::kInlineBlocks> inline_blocks;

  ChainChunk at() const { return {chain, chunk}; }
  MapKey map_key(uint32_t i) const { return {chain, chunk, first_map + i}; }
  // The index in its chunk of the i-th of `blocks`.
  uint32_t chunk_block(uint32_t i) const {
    return kind == RequestKind::clear ? edges[i] : first_block + i;
  }
  // How many of `blocks` are in use.
  uint32_t io_blocks() const {
    if (kind == RequestKind::chain) return new_blocks;
    return kind == RequestKind::clear ? edge_count : block_count;
  }
  bool whole(uint32_t block_of_chunk) const {
    const uint64_t at = uint64_t{block_of_chunk} * limits::kBlockBytes;
    return begin <= at && at + limits::kBlockBytes <= end;
  }
  // The part of a block of the chunk that the request touches.
  struct Part {
    uint32_t offset_in_block;
    uint32_t length;
    uint32_t offset_in_memory;
  };
  Part part(uint32_t block_of_chunk) const {
    const uint64_t at = uint64_t{block_of_chunk} * limits::kBlockBytes;
    const uint64_t from = at > begin ? at : begin;
    const uint64_t to = at + limits::kBlockBytes < end ? at + limits::kBlockBytes : end;
    return {static_cast<uint32_t>(from - at), static_cast<uint32_t>(to - from),
            static_cast<uint32_t>(from - begin)};
  }
};

}  // namespace penstock::store
