// A stretch of an operation that runs under a hold of an inode.
#pragma once

#include "core.h"

#include <span>

namespace penstock::client {

class HeldInodes;

// For threads that may block. Begun before anything else that is locked, and at most one at a time
// in a thread: whoever waits for another agent has nothing that a recall could want. Where there
// are no holds it does nothing.
class Held {
 public:
  explicit Held(HeldInodes& inodes) : inodes_(inodes) {}
  ~Held() { end(); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  // Blocks until the operation may begin. timed_out: nobody gave it for so long that the caller is
  // told; closed: it never will.
  Status begin(InodeId inode, holds::Hold hold);
  // The same where it need not be waited for; false: nothing has begun.
  bool begin_at_once(InodeId inode, holds::Hold hold);
  // The inode is in use, and becomes fit for the operation; see Inode::fit. Without the control
  // lock, but for make_fit_locked().
  Status make_fit(Inode& inode);
  Status make_fit_locked(Inode& inode);
  // It was loaded just now, under the hold; with the control lock held.
  void note_loaded(Inode& inode);
  // Whether what was found is the truth, and may be given out.
  bool is_good() const;
  // Before observers are told, and wherever else another agent may have to be waited for.
  void end();

 private:
  HeldInodes& inodes_;
  holds::Hold hold_ = holds::Hold::none;
  holds::Ticket ticket_;
  bool has_ticket_ = false;
};

// For operations to come soon: holds of many inodes are asked for together, where they are not here
// yet. Blocks until they are, or that time is over; some may go again before they are used.
void bring_holds(Core& core, std::span<const InodeId> inodes, engine::Duration most);

}  // namespace penstock::client
