// A reader-writer lock under which a stream of readers cannot hold a writer off for ever, as it can
// with std::shared_mutex on glibc. One thread must not take it twice.
#pragma once

#include <pthread.h>

#include "penstock/base.h"

namespace penstock::kv {

// For std::lock_guard and std::shared_lock.
class FairLock {
 public:
  FairLock() {
    pthread_rwlockattr_t attributes;
    ASSERT(pthread_rwlockattr_init(&attributes) == 0);
    ASSERT(pthread_rwlockattr_setkind_np(&attributes,
                                         PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP) == 0);
    ASSERT(pthread_rwlock_init(&lock_, &attributes) == 0);
    pthread_rwlockattr_destroy(&attributes);
  }
  ~FairLock() { pthread_rwlock_destroy(&lock_); }
  FairLock(const FairLock&) = delete;
  FairLock& operator=(const FairLock&) = delete;

  void lock() { ASSERT(pthread_rwlock_wrlock(&lock_) == 0); }
  void unlock() { pthread_rwlock_unlock(&lock_); }
  void lock_shared() { ASSERT(pthread_rwlock_rdlock(&lock_) == 0); }
  void unlock_shared() { pthread_rwlock_unlock(&lock_); }

 private:
  pthread_rwlock_t lock_;
};

}  // namespace penstock::kv
