// The chunks of one target as copies in chains (decision 0044): updates that are pending before
// they are committed, names, slots of requests, and whole chunks for repair.
//
// A chunk has at most one pending update. What is done to a chunk becomes durable in order: once a
// prepare or a replacement has completed, everything that was done to its chunk before it is on
// stable storage. Of other chunks that says nothing: a crash may leave pending what was committed
// there a moment before.
//
// Owned by one loop: everything is called from its thread, and operations complete there.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "penstock/store.h"

namespace penstock::store {

enum class UpdateKind : uint8_t {
  write = 1,
  clear =
      2,  // bytes [begin, end) become zeros; `end` kWholeChunk also forgets the end beyond begin
  remove = 3,  // nothing of the chunk is left but its name; no bytes [begin, end)
  drop = 4,    // of a removed chunk, and alone: its name goes, too, as if there had never been any
};

// What one request wants of a chunk. An update has one or several, which happen in their order.
struct UpdatePart {
  RequestId request;
  uint32_t begin = 0;
  uint32_t end = 0;
  UpdateKind kind = UpdateKind::write;
  uint8_t reserved[7] = {};
};
static_assert(sizeof(UpdatePart) == 40 && std::has_unique_object_representations_v<UpdatePart>);

// Bytes of all writes of an update, which come one after the other.
inline uint64_t update_bytes(std::span<const UpdatePart> parts) {
  uint64_t bytes = 0;
  for (const UpdatePart& part : parts) {
    if (part.kind == UpdateKind::write) bytes += part.end - part.begin;
  }
  return bytes;
}

// Whether it leaves nothing of the chunk, and whether not even a name.
inline bool drops(std::span<const UpdatePart> parts) {
  return parts.size() == 1 && parts.front().kind == UpdateKind::drop;
}
inline bool takes_all(UpdateKind kind) {
  return kind == UpdateKind::remove || kind == UpdateKind::drop;
}
// What a chunk has committed after this update.
inline UpdateName name_after(const UpdateName& update, std::span<const UpdatePart> parts) {
  return drops(parts) ? UpdateName{} : update;
}

// Makes an update durable as pending, or fails and changes nothing. The chunk has none. Where a
// part of a block stays as it was, and that block is damaged, it ends with corrupt.
struct PrepareOp : engine::Op {
  ChainChunk at;
  UpdateName name;
  std::span<const UpdatePart> parts;
  engine::MemoryRef bytes;  // of update_bytes() length; unchanged until it has completed
  // Such a block stays damaged instead: whoever reads it hears so, until all of it is written anew.
  bool keep_damage = false;
};

// What a chunk is at this moment.
struct ChunkState {
  UpdateName committed;
  bool removed = false;  // by the last update; else its bytes end at `length`
  uint32_t length = 0;
};
struct LookOp : engine::Op {
  ChainChunk at;
  ChunkState state;  // out
};

// Committed bytes, as of the moment of submission; zeros where there are none, or no_data if holes
// are refused. Damage ends it with corrupt or io_error, or is listed if that is asked for.
struct CopyReadOp : engine::Op {
  ChainChunk at;
  uint32_t begin = 0;
  engine::MemoryRef destination;
  bool refuse_holes = false;
  bool list_damage = false;       // damaged blocks read as zeros
  ChunkState state;               // out: what the chunk was at that moment
  std::vector<uint32_t> damaged;  // out: these blocks, by their numbers in the chunk, in order
};

// Writes damaged blocks anew, as another copy has them, durably. Nothing else of the chunk changes,
// nor what is pending. stale, and nothing changes, when another update is committed by now; blocks
// that the chunk does not have are passed over.
struct HealOp : engine::Op {
  ChainChunk at;
  UpdateName committed;
  std::span<const uint32_t> blocks;  // by their numbers in the chunk, in order
  engine::MemoryRef bytes;           // kBlockBytes for each; unchanged until it has completed
};

struct PendingUpdate {
  ChainChunk at;
  UpdateName name;
  std::vector<UpdatePart> parts;
};
// The bytes of a pending update's writes.
struct PendingReadOp : engine::Op {
  ChainChunk at;
  engine::MemoryRef destination;
};

// The last request of a slot that was executed.
struct SlotRecord {
  RequestId request;
  ChainChunk at;
  UpdateName name;
};

struct ListEntry {
  ChunkId chunk;
  ChunkState state;
};
// Chunks of a chain that were ever updated, removed ones included, from `from` on, in order.
struct ListOp : engine::Op {
  ChainChunk from;
  size_t limit = 0;
  std::vector<ListEntry> entries;  // out
};

// The chunk becomes this, durably, whatever it was; what was pending is forgotten. The name {}: as
// if there had never been any.
struct ReplaceOp : engine::Op {
  ChainChunk at;
  ChunkState state;
  engine::MemoryRef bytes;            // the first `state.length`
  std::span<const SlotRecord> slots;  // kept where they are newer than what is known
  // Blocks of which no copy is left, by their numbers in the chunk, in order: whoever reads them
  // hears that they are damaged.
  std::span<const uint32_t> damaged;
};

class ChainStore {
 public:
  virtual ~ChainStore() = default;

  virtual void submit(PrepareOp& op) = 0;
  virtual void submit(LookOp& op) = 0;
  virtual void submit(CopyReadOp& op) = 0;
  virtual void submit(PendingReadOp& op) = 0;
  virtual void submit(ListOp& op) = 0;
  virtual void submit(ReplaceOp& op) = 0;
  virtual void submit(HealOp& op) = 0;

  // Bytes of new blocks that prepares find room for at this moment; more when commits free others.
  virtual uint64_t room() const = 0;

  // Asked, in the loop, about each damaged block of a chain's chunk that a scrub has found, who
  // then waits for `ended`. An empty one takes it back.
  using Healer = std::function<void(const ChainChunk& at, uint32_t block,
                                    std::function<void(bool healed)> ended)>;
  virtual void set_healer(Healer healer) = 0;

  // The pending update becomes what reads see that are submitted from now on. Durable with the next
  // prepare or replacement of the chunk, or a moment later by itself.
  virtual void commit(const ChainChunk& at) = 0;

  // The pending update is none any more. A power cut may bring it back until `durable` has
  // completed, if there is one, or the next prepare or replacement of the chunk.
  virtual void forget(const ChainChunk& at, engine::Op* durable = nullptr) = 0;

  // What was pending when this life began, or was left so since.
  virtual std::vector<PendingUpdate> pending(ChainId chain) const = 0;
  virtual std::optional<SlotRecord> slot(ChainId chain, NodeId node, uint32_t slot) const = 0;
  // Slots whose last request was for this chunk.
  virtual std::vector<SlotRecord> slots_of(const ChainChunk& at) const = 0;
};

}  // namespace penstock::store
