// The lock of a store: a file that is locked (flock) by the process that serves the store.
//
// A process that may open a file may lock it, and so keep the store from being served: the file is
// made for its owner alone. Earlier releases made it readable by all users, so a process of another
// user may have it open still, and hold a lock on it: that file is replaced, unless a process of
// the store's owner or of root has the lock, which is another agent, of any release.
#pragma once

#include <string>
#include <sys/types.h>

#include "penstock/base.h"

namespace penstock::agent {

// The file's mode, and that of everything else which is for the store's owner alone.
inline constexpr mode_t kOwnerOnly = 0600;
inline constexpr mode_t kOwnerOnlyDirectory = 0700;

struct LockOutcome {
  UniqueFd fd;         // holds the lock until it is closed; empty: not ours
  Status status;       // why it is not: in_use, or what the system said
  std::string holder;  // with in_use: the process that has it, in words
};

// Locks the file at `path`, which is made if it is missing. Does not wait.
LockOutcome lock_store(const std::string& path);

// The holder of the flock of an open file that another process has locked.
enum class LockHolder : uint8_t {
  trusted,   // a process of root or of the file's owner
  stranger,  // a process of another user, or none that could be serving the store
  unseen,    // the kernel does not tell: a process of another container
};
struct LockHolderFacts {
  LockHolder kind = LockHolder::unseen;
  pid_t pid = 0;  // 0: not known
};
// `own`: a file of the same file system that this process has locked, or -1 if there is none; only
// with it a lock is found to have no holder.
LockHolderFacts find_lock_holder(int fd, int own);
// The same for a process that is known, with the file that it has locked.
LockHolder judge_lock_holder(pid_t pid, int fd);

}  // namespace penstock::agent
