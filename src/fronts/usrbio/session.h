// The process's sessions with agents: one for each mount, made when first needed.
//
// Thread safe. A session lives as long as the process, also when its agent has died: then it is
// marked and the next lookup connects anew. After fork() the child starts with none; see process.h.
#pragma once

#include "limits.h"
#include "penstock.h"

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <mutex>
#include <string>
#include <sys/types.h>
#include <vector>

#include "penstock/base.h"

namespace penstock::usrbio {

struct Session {
  penstock_session* handle = nullptr;
  std::string mount;
  dev_t device = 0;
  uint16_t index = 0;
  // Relaxed: it only spares a call that would fail with the same answer.
  std::atomic<bool> dead{false};

  // Passes a native result on, noting when it says that the agent is gone.
  template <class T>
  T seen(T result) {
    if (result == -ECONNRESET) dead.store(true, std::memory_order_relaxed);
    return result;
  }
};

class Sessions {
 public:
  // The session of the mount that the directory `mount` is in. Errors are positive errnos; ENOENT:
  // the directory is in no mount of ours.
  Result<Session*, int> of_mount(const std::string& mount);
  // The session of the mount with this device number, as of an open file.
  Result<Session*, int> of_device(dev_t device);
  // The session with this index; it exists.
  Session& at(uint16_t index) { return *sessions_[index].load(std::memory_order_acquire); }

  // fork(): nobody is inside between lock() and unlock(); the child forgets all sessions, whose
  // sockets and rings are its parent's.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }
  void forget_all();

 private:
  Result<Session*, int> find_or_connect(dev_t device, const std::string& mount);

  std::mutex mutex_;
  uint32_t count_ = 0;  // guarded by mutex_
  // Release when a session is added pairs with the acquire in at(): an index travels through a
  // descriptor's word, which other threads read without the mutex.
  std::atomic<Session*> sessions_[kSessionsMax] = {};
};

}  // namespace penstock::usrbio
