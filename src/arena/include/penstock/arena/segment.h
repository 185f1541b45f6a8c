// The agent's side of a segment: what readers of one class may see.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "penstock/arena/extent.h"
#include "penstock/arena/layout.h"
#include "penstock/arena/touch_log.h"
#include "penstock/base.h"
#include "penstock/engine.h"

namespace penstock::arena {

class Table;
class Ghost;
class Slab;
class SlotPool;
class SealedMemory;

// May map a segment: processes with exactly these credentials.
struct ReaderClass {
  uint32_t uid = 0;
  uint32_t gid = 0;
  std::vector<uint32_t> groups;  // supplementary, sorted, each once

  friend auto operator<=>(const ReaderClass&, const ReaderClass&) = default;
};

// Told when slabs come and go, so that they can be registered for direct I/O. May block; called in
// whatever thread gives a segment a slab, or takes it.
class SlabHost {
 public:
  virtual ~SlabHost() = default;
  // Returns a number that fills carry along with the slab's memory.
  virtual uint32_t slab_made(MutableBytes memory) = 0;
  virtual void slab_gone(uint32_t number, MutableBytes memory) = 0;
};

struct SegmentStatus {
  ReaderClass readers;
  uint32_t sessions = 0;
  uint64_t slab_bytes = 0;  // of its slabs together
  uint64_t slots = 0;
  uint64_t slots_used = 0;
  uint64_t hits = 0;  // as applications claim
  uint64_t fills = 0;
  uint64_t evictions = 0;  // for others to come in
  uint64_t dropped = 0;    // because the file changed
};

// Thread safe: one mutex, held for as long as a few look-ups take. Slots hold the bytes of
// published extents and zeros behind their end; a slot being filled holds, until its new bytes have
// come, those of the extent that left it; one that was dropped holds its bytes until clean().
class Segment {
 public:
  static Result<std::shared_ptr<Segment>> make(ReaderClass readers, const Geometry& geometry);
  ~Segment();

  const ReaderClass& readers() const { return readers_; }
  const Geometry& geometry() const { return geometry_; }
  // For applications to map read-only. The index, and slab n, or -1; valid while the segment lives.
  int index_fd() const;
  int slab_fd(uint32_t number) const;

  // From now on the memory is valid until then, nanoseconds on CLOCK_MONOTONIC: the caller sees to
  // it that files are not changed by others before that. 0: it is not to be used any more.
  void set_valid_until(uint64_t time);

  // ---- fills ----

  struct Fill {
    Extent extent;
    uint32_t slot = 0;
    uint32_t slab_number = 0;  // what SlabHost::slab_made() returned
    MutableBytes memory;       // kExtentBytes
  };
  enum class Start {
    begun,     // the memory is the caller's until publish() or abandon()
    resident,  // it is here, and stays as if it had been hit
    filling,   // another fill of it is under way
    crowded,   // all slots are in use and it was not to evict, or all are being filled
    closed,
  };
  // Takes a slot for an extent that `following` others of its file are expected to follow. The
  // thread that fills must hear of every change of the file from before it begins to read: see
  // invalidate().
  Start begin_fill(Extent extent, uint32_t following, bool may_evict, Fill* fill);
  // Makes `valid` bytes visible. False, and they are dropped, if the file changed meanwhile.
  bool publish(const Fill& fill, uint32_t valid, const Checksums& checksums);
  void abandon(const Fill& fill);

  // Bytes of the extent that are here.
  uint32_t resident(Extent extent) const;
  // Notes that blocks [first, end) of an extent that is not here were read; true if it is worth
  // being filled. No locks.
  bool touch(Extent extent, uint32_t first_block, uint32_t end_block);

  // ---- changes ----

  // Bytes [offset, offset + length) of a file changed, and it may have grown to the end of them.
  // When this returns no reader finds what was there before, and no fill that has begun publishes
  // it.
  void invalidate(InodeId inode, uint64_t offset, uint64_t length);
  void remove_inode(InodeId inode) { invalidate(inode, 0, UINT64_MAX); }
  // Zeroes slots that were dropped and are not filled anew, a few at a time: bytes that these
  // readers may not see any more must not stay in memory that they map. True when there is more.
  bool clean();

  // Files of which nothing is here any more, not even a fill, since the last call.
  std::vector<InodeId> take_released();
  bool holds(InodeId inode) const;

  // ---- touch logs ----

  // `memory` stays mapped until remove_log(). busy when there are limits::kLogsMax.
  Status add_log(uint64_t id, Bytes memory);
  void remove_log(uint64_t id);

  SegmentStatus status();

 private:
  friend class Arena;
  // Slots form one doubly linked list for each inode.
  struct Slot {
    Extent extent;  // no inode: the slot is free
    uint32_t previous = UINT32_MAX;
    uint32_t next = UINT32_MAX;
    bool poisoned = false;  // the file changed while it was being filled
    bool grew = false;      // the file grew while it was being filled: no short extent then
    bool dirty = false;     // free, and not zero
  };
  struct Inode {
    uint32_t first = UINT32_MAX;
    uint32_t partial = UINT32_MAX;  // the slot that holds the end of the file
  };

  Segment(ReaderClass readers, const Geometry& geometry, SealedMemory index);
  // Makes the pages of the index that one slab more needs: this takes long, and add_slab(), which
  // holds the mutex, then does not.
  void populate_index();
  void add_slab(std::unique_ptr<Slab> slab);
  // Ends it if no fill is under way; its slabs are the caller's to destroy. Sessions that still
  // hold it find nothing in it, and what they do has no effect.
  bool close(std::vector<std::unique_ptr<Slab>>* slabs);
  uint32_t slab_count() const;

  std::byte* bytes_of(uint32_t slot) const;
  Checksums* checksums_of(uint32_t slot) const;
  void link(uint32_t slot, Extent extent);
  void unlink(uint32_t slot);
  void drop(uint32_t slot);
  void drop_partial(InodeId inode);
  void free_slot(uint32_t slot);
  void evict(uint32_t slot);
  void drain_logs();

  const ReaderClass readers_;
  const Geometry geometry_;
  const std::unique_ptr<SealedMemory> index_;
  const std::unique_ptr<Ghost> ghost_;
  uint32_t sessions_ = 0;   // the arena's
  uint64_t last_used_ = 0;  // the arena's

  mutable engine::Mutex mutex_;
  const std::unique_ptr<Table> table_;
  const std::unique_ptr<SlotPool> pool_;
  std::vector<std::unique_ptr<Slab>> slabs_;
  std::vector<Slot> slots_;
  std::unordered_map<InodeId, Inode> inodes_;
  std::vector<uint32_t> filling_;  // slots
  std::vector<InodeId> released_;
  std::vector<uint32_t> dirty_;  // slots that were dropped; some may be in use again
  struct Log {
    uint64_t id;
    TouchLogView view;
  };
  std::vector<Log> logs_;
  uint32_t evictions_to_drain_ = 0;
  bool closed_ = false;
  uint64_t hits_ = 0;
  uint64_t fills_ = 0;
  uint64_t evictions_ = 0;
  uint64_t dropped_ = 0;
};

}  // namespace penstock::arena
