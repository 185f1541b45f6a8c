// The process's sessions with agents: one for each mount, made when first needed.
//
// Thread safe. A session lives as long as its table, also when its agent has died: the native one
// serves again when the agent is back. Two mounts of one store share a session. After fork() the
// child starts with none; see fork.h.
#pragma once

#include "penstock.h"

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <sys/types.h>
#include <vector>

#include "penstock/base.h"
#include "penstock/front/lane_pool.h"
#include "penstock/front/limits.h"
#include "penstock/front/mount_table.h"

namespace penstock::front {

struct Session {
  penstock_session* handle = nullptr;
  std::string source;  // as the mount table names what is mounted: the store
  // Of the mount that was asked for last. Relaxed: a thread that looks for another one asks for it.
  std::atomic<dev_t> device{0};
  uint64_t mount_number = 0;  // the same mount's MountNumbers::unique; guarded by Sessions
  uint16_t index = 0;
  // Whether the agent was gone when it was last asked. Relaxed: then nothing is held back for it.
  std::atomic<bool> dead{false};
  LanePool lanes{handle};

  // Passes a native result on, noting when it says that the agent is gone.
  template <class T>
  T seen(T result) {
    const bool gone = result == -ECONNRESET;
    if (gone != dead.load(std::memory_order_relaxed)) dead.store(gone, std::memory_order_relaxed);
    return result;
  }
};

class Sessions {
 public:
  // `front` begins its messages: "usrbio".
  explicit Sessions(const char* front) : front_(front) {}
  // Closes them all. No other thread uses them.
  ~Sessions();
  Sessions(const Sessions&) = delete;
  Sessions& operator=(const Sessions&) = delete;

  // The session of the mount that the directory `mount` is in. Errors are positive errnos, and
  // logged; ENOENT: the directory is in no mount of ours.
  Result<Session*, int> of_mount(const std::string& mount);
  // The session of the mount with these numbers, as of an open file.
  Result<Session*, int> of_mount(const MountNumbers& mount);
  // Whether it is certainly one that was asked for.
  bool knows(const MountNumbers& mount);
  // The session with this index; it exists.
  Session& at(uint16_t index) { return *sessions_[index].load(std::memory_order_acquire); }

  // fork(): no thread is inside between lock() and unlock(); the child forgets all sessions, whose
  // sockets and rings are its parent's.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }
  void forget_all();

 private:
  Result<Session*, int> find_or_connect(const MountNumbers& mount, const std::string& path);
  // With mutex_ held.
  Session* find_known(const MountNumbers& mount);
  Session* find_with(const std::function<bool(const Session&)>& is_it);

  const char* const front_;
  std::mutex mutex_;
  uint32_t count_ = 0;  // guarded by mutex_
  // Release when a session is added pairs with the acquire in at(): an index travels through a
  // descriptor's word, which other threads read without the mutex.
  std::atomic<Session*> sessions_[limits::kSessionsMax] = {};
};

}  // namespace penstock::front
