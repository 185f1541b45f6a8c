// Recording the lengths of open files in meta, and making them durable.
#pragma once

#include <vector>

#include "penstock/inodes/inode.h"
#include "penstock/inodes/limits.h"

namespace penstock::inodes {

// Asks for the length and times of a file to be on stable storage, or for its privileges to be
// dropped; completes on `loop`.
struct SettleRequest : engine::Op {
  engine::Loop* loop = nullptr;
  Inode* inode = nullptr;                      // kept alive by the caller
  const meta::FileWriter* drop_for = nullptr;  // set: only Lengths::drop_privileges() is asked for
  bool widen = false;                          // Inode::reach is to have no bound
  uint64_t grow_to = 0;                        // above 0: only Lengths::allow() is asked for
  uint64_t synced_changes = 0;  // the targets hold everything up to here durably; 0: not known
};

// Thread safe.
class Lengths {
 public:
  explicit Lengths(meta::Meta& meta);
  ~Lengths();

  // Any thread; does not block. Requests that wait at the same time share one sync. Ends with busy
  // when limits::kSettleQueueMax wait, with closed after stop().
  void settle_later(SettleRequest& request);
  // What waits is served first. Idempotent.
  void stop();

  // The following block, and want the inode's control lock held.
  //
  // Records length and modification time if they changed; ends the write session if asked to.
  Status record(Inode& inode, bool durable, bool end_session);
  // Begins a write session if there is none: to be called while the targets would tell the truth
  // about the length after a crash.
  Status begin_session(Inode& inode);
  // Meta has begun one, as it made the file: no power cut leaves the file without it.
  static void note_first_session(Inode& inode) {
    note_session(inode);
    inode.reach.store(UINT64_MAX, std::memory_order_relaxed);
  }
  // Before a sync of meta after which the file may be written as far as one likes.
  Status prepare_to_widen(Inode& inode);
  // Takes away what a write by these must not leave; see Inode::privilege_changes.
  Status drop_privileges(Inode& inode, const meta::FileWriter& writer);
  // The file may grow to this length, by the quotas that bind it; else over_quota.
  Status allow(Inode& inode, uint64_t length);
  // What is known of an inode before meta is synced, and becomes true of stable storage after it.
  struct Recorded {
    uint64_t length = 0;
    uint32_t cuts = 0;
    uint64_t session = 0;  // 0: none
  };
  static Recorded recorded(const Inode& inode);
  // Meta was synced since `recorded`, and the targets hold the data up to `changes` (0: not known).
  static void note_synced(Inode& inode, const Recorded& recorded, uint64_t changes);

 private:
  static void note_session(Inode& inode) {
    inode.session = true;
    ++inode.session_number;
  }

  struct Entry {
    SettleRequest* request = nullptr;
    Recorded recorded;
    Status status;
  };

  void run();
  void serve();
  Status put(Inode& inode, uint64_t changes, bool durable, bool end_session);
  static void note_durable(const Entry& entry);

  meta::Meta& meta_;

  engine::Mutex mutex_;
  engine::Condition arrived_;
  std::vector<SettleRequest*> waiting_;
  bool stop_ = false;
  engine::Thread worker_;
  std::vector<Entry> entries_;  // of the batch being served
};

}  // namespace penstock::inodes
