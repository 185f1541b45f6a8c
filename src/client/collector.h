// Removes the chunks of removed files.
#pragma once

#include "closer.h"
#include "held.h"

namespace penstock::client {

// Thread safe. One collection at a time, under `mutex_`, which is taken before any other lock and
// held across calls to meta and the targets. A thread of its own collects when something was
// removed (DropQueue::want_collection), and gives back dropped opens and records times of access on
// its way.
class Collector {
 public:
  Collector(Core& core, HeldInodes& held, Closer& closer)
      : core_(core), held_(held), closer_(closer) {}
  ~Collector() { stop(); }

  // What is removed and kept. Set before start(), and outlives the collector's thread.
  struct Trash {
    // Removes some of it, for a caller that met a full disk; false if there is nothing. From any
    // thread.
    std::function<bool()> give_way;
    // The collector's thread is awake, which it is every few seconds.
    std::function<void()> round;
  };
  void set_trash(Trash trash) { trash_ = std::move(trash); }
  void start();
  // Idempotent. What is still to be removed is left to the next life of the process.
  void stop();

  // Of at most `limit` files that have no name and no user; returns how many.
  Result<uint64_t> collect(size_t limit);
  // For a caller that met a full disk: true if it is worth another try. Some files at a time: there
  // may be millions, and the first of them room enough.
  bool make_room();

  // Meta has taken the last name of an inode: it is collected once it has no user. Before whatever
  // could collect it is known to have seen the removal.
  void add(InodeId orphan);
  // Files that never got their name: their chunks are removed, if not now then with what is
  // collected later. `held` is theirs in WrittenIds, and let go when nothing of them can come back;
  // InodeId{}: it stays.
  struct Discarded {
    InodeId held;
    std::vector<InodeId> files;
  };
  void discard(Discarded discarded);
  // A file without a name got its first one: it is not to be collected any more.
  void take_out(InodeId named);

 private:
  Status try_discard(const Discarded& discarded);
  void keep(Discarded discarded);
  Status discard_kept();
  Result<std::vector<InodeId>> find(size_t limit);
  std::vector<ChainId> chains_of(InodeId id, const Attributes& found) const;
  Status remove(std::span<const InodeId> free, std::span<const TargetCalls::Removed> with_chunks);
  void run();
  Status collect_all(std::vector<RoomRequest*>& asked);

  bool is_ours(InodeId orphan);
  // Whether anything waits to be collected now.
  bool has_something() const;

  Core& core_;
  HeldInodes& held_;
  Closer& closer_;
  Trash trash_;
  engine::Mutex mutex_;
  // Relaxed: a hint for the thread to look again.
  std::atomic<bool> some_held_elsewhere_{false};
  InodeId collected_to_;      // where the last collection ended
  uint32_t collections_ = 0;  // how many there were
  engine::Mutex discarded_mutex_;
  std::vector<Discarded> discarded_;  // under `discarded_mutex_`
  engine::Thread thread_;
};

}  // namespace penstock::client
