// What all opens of one inode share in this process.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>

#include "penstock/holds.h"
#include "penstock/inodes/gate.h"
#include "penstock/inodes/layout.h"

namespace penstock::inodes {

// A lock for threads that block on databases and disks while they hold it, and for no loop.
class ControlLock {
 public:
  void lock() {
    mutex_.lock();
    held_.store(true, std::memory_order_relaxed);
  }
  void unlock() {
    ASSERT(is_held());
    held_.store(false, std::memory_order_relaxed);
    mutex_.unlock();
  }
  // Whether any thread has it: for assertions of functions that want it held.
  bool is_held() const { return held_.load(std::memory_order_relaxed); }

 private:
  engine::Mutex mutex_{engine::Held::across_calls};
  std::atomic<bool> held_{false};
};

inline constexpr uint32_t kSetIdBits = 06000;  // of a mode

struct Gathered;

// What was written to an inode and is not in the targets yet; see write_behind.h.
struct Behind {
  Behind();
  ~Behind();

  // There is something. Sequentially consistent with Inode::watchers: either the thread that takes
  // bytes sees the watcher, or the watcher, looking after it was added, sees that there are some.
  std::atomic<bool> pending{false};
  // Where the file ends with it; 0: not beyond the inode's length. Release, after the length has
  // grown that far, pairs with the acquire of a reader, which looks at this one first.
  std::atomic<uint64_t> end{0};
  // How often bytes were lost on their way; relaxed but where `mutex` is held.
  std::atomic<uint64_t> losses{0};

  engine::Mutex mutex;
  engine::Condition moved;            // `landed` has grown
  std::unique_ptr<Gathered> filling;  // takes what comes next
  std::unique_ptr<Gathered> older;    // full, or asked for
  uint64_t taken = 0;                 // writes taken so far
  uint64_t landed = 0;                // of these: in the targets, or lost
  Status lost;                        // why, the last time
};

// Loops touch only the atomics and the gate; the rest is for threads that may block. Operations
// that hold a reference to an open file keep it alive.
struct Inode {
  explicit Inode(InodeId inode_id) : id(inode_id) {}

  const InodeId id;
  // What follows was read from meta; release, after it was, pairs with acquire.
  std::atomic<bool> loaded{false};
  // Constant once loaded.
  Placement placement;
  // What the object is fit for: nothing while other agents may change the inode, reads once it was
  // read from meta under a hold, and writes once its writers have a write session under one. Where
  // there are no holds it is fit for all. Goes up under `control`, by who runs under a hold as
  // high; goes down while nobody does. Release and acquire, as of `loaded`.
  std::atomic<holds::Hold> fit{holds::Hold::exclusive};
  // What is here is what the file is; else meta knows it.
  bool is_known() const {
    return loaded.load(std::memory_order_acquire) &&
           fit.load(std::memory_order_acquire) != holds::Hold::none;
  }
  // No name leads to it yet, nor can another agent know of it: what is done with it needs no hold.
  std::atomic<bool> is_private{false};

  // The end of the file: grows with completed writes, shrinks only while the gate is closed.
  alignas(64) std::atomic<uint64_t> length{0};
  // How often the file was cut. A read that sees two values starts again. The release at the cut,
  // after the new length was stored, pairs with the acquire of readers, which load this first.
  std::atomic<uint32_t> cuts{0};
  // One bit for each observer that watches. Sequentially consistent with `changes`: either the
  // writer sees the watcher, or the watcher, looking after it was added, sees the change.
  std::atomic<uint32_t> watchers{0};
  std::atomic<bool> unlinked{false};
  // A write failed in parts: bytes may lie behind the end. Relaxed: looked at under `control`, when
  // the file grows next.
  std::atomic<bool> stray{false};
  // Whether the file may have what a write takes from it: it has no set-id bits when the second is
  // equal to the first, and no security.capability when the third is. The first counts what may
  // give it some. It changes under `control` and `behind.mutex`, before meta is told and while the
  // gate is closed, so that a writer that finds it unchanged inside the gate, or bytes that are
  // taken under the mutex, come before that. The others change under `control`, and take over its
  // value once it was seen, or made, that there is nothing.
  std::atomic<uint32_t> privilege_changes{1};
  std::atomic<uint32_t> set_ids_dropped{0};
  std::atomic<uint32_t> capability_dropped{0};
  bool may_lose_privileges(bool keeps_set_ids) const {
    const uint32_t given = privilege_changes.load(std::memory_order_acquire);
    if (capability_dropped.load(std::memory_order_relaxed) != given) return true;
    return !keeps_set_ids && set_ids_dropped.load(std::memory_order_relaxed) != given;
  }
  // How often something was taken; relaxed: read by the writer that asked for it.
  std::atomic<uint32_t> privileges_taken{0};

  // Some block below the length may be a hole, or blocks may lie beyond. Relaxed: set before what
  // made it so is counted in `changes`.
  std::atomic<bool> sparse{false};

  // With what is still behind.
  uint64_t visible_length() const {
    const uint64_t taken = behind.end.load(std::memory_order_acquire);
    return std::max(taken, length.load(std::memory_order_acquire));
  }

  alignas(64) WriteGate gate;
  // Changes of bytes under way of whose beginning no observer has heard. Sequentially consistent
  // with `watchers`: either the maker of a change sees the watcher, or the watcher, looking after
  // it was added, sees the change. See Observers::begin().
  std::atomic<uint32_t> unannounced{0};
  // How many changes of bytes have begun, and ended. Sequentially consistent with `may_be_recent`:
  // something of the inode may be in RecentBytes, whose lock is held when it changes.
  std::atomic<uint64_t> changes_begun{0};
  std::atomic<uint64_t> changes_ended{0};
  std::atomic<bool> may_be_recent{true};
  // Counts changes of bytes, length and times; incremented after they happened. Starts at 1, with
  // `synced` behind it: what another life of the process left is not known to be durable.
  std::atomic<uint64_t> changes{1};
  // Changes up to here are on stable storage, data and length.
  std::atomic<uint64_t> synced{0};
  // Changes up to here are on stable storage as far as the targets are concerned. Grows only while
  // one target has all of the file, whose durable writes take with them what was written before.
  // Release pairs with the acquire of a sync that asks no target.
  std::atomic<uint64_t> stored{0};
  // More than its first chunk was ever in use: another target may have some of it. Relaxed: set
  // before what made it so is counted in `changes`.
  std::atomic<bool> spread{false};
  // Its last name is among the changes up to here. Relaxed, as looked at after the name was given.
  std::atomic<uint64_t> named{0};
  // A length not above this one is on stable storage.
  std::atomic<uint64_t> durable_length{0};
  // The write session is on stable storage: whatever the targets hold durably counts after a crash,
  // so that a durable write has no length to record. Changes only while no writer is inside the
  // gate, or from false to true. Relaxed: one write too many that records its length does no harm.
  std::atomic<bool> session_durable{false};
  // A write may go so far: even if a power cut takes back what is not durable of meta, the file's
  // record tells which chains may have chunks of it (decision 0047, "What a removal asks"). It
  // grows at any time, and becomes less only while no writer is inside the gate. Relaxed: what it
  // grew after was durable then.
  std::atomic<uint64_t> reach{0};
  // Quotas let it grow so far; see meta::Meta::reserve(). Relaxed: a write that finds an earlier
  // value asks once more.
  std::atomic<uint64_t> allowed{0};
  // A read will change the time of access although its file is opened for relative times only. Also
  // false when it never is to change (kInodeNoAtime). Relaxed, as `accessed`: times order nothing.
  std::atomic<bool> access_due{false};
  std::atomic<bool> no_access_times{false};
  std::atomic<meta::FileTime> accessed{};
  std::atomic<meta::FileTime> modified{};
  static_assert(std::atomic<meta::FileTime>::is_always_lock_free);

  // Under `control`, which is held across calls to meta and the targets. Taken before any lock of
  // the table.
  ControlLock control;
  // No bytes lie in the targets beyond the file's end, unless `stray`.
  bool tail_known = false;
  // Made by this process and never synced: nothing about it was promised yet.
  bool fresh = false;
  // Meta does not know it, as its content comes before its name: see make_files().
  bool unnamed = false;
  // Meta holds a write session: after a crash the length is looked for in the targets.
  bool session = false;
  uint64_t session_number = 0;  // of this one or the last
  uint32_t writers = 0;         // opens for writing
  uint64_t settled = 1;         // changes up to here are recorded in meta
  uint64_t settled_length = 0;
  bool settled_sparse = false;
  Status first_error;  // of settling in the background, for close_file()
  // It was in use when this node's lease ended, of which nobody knows since: without a name it may
  // have been removed.
  bool was_lost = false;

  Behind behind;  // has a lock of its own
  // Of appends, which take their place in turn. Before anything else, also before a hold is waited
  // for: whoever gives back the hold needs nothing of it.
  engine::Mutex appending{engine::Held::across_calls};
};

}  // namespace penstock::inodes
