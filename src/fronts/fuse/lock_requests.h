// Requests for locks that all nodes see: answered when they have their answer, while no worker
// waits for it.
#pragma once

#define FUSE_USE_VERSION 312
#include <fuse3/fuse_lowlevel.h>
#include <map>
#include <memory>
#include <mutex>

#include "penstock/client.h"
#include "penstock/locks.h"

namespace penstock::fuse {

// Of a mount whose session's context is a Front. Thread safe. A request that is given to it is
// answered by it, once, on the device by which it came.
class LockRequests {
 public:
  // `locking` outlives the mount; what it calls back later than that is not heard.
  explicit LockRequests(locks::Locking& locking);
  ~LockRequests() { end(); }

  // In a worker, with its request.
  void set(fuse_req_t request, const client::FileRef& file, const locks::Wanted& wanted,
           bool waits);
  void get(fuse_req_t request, const client::FileRef& file, const locks::Wanted& wanted);
  // `flushed`: what it is answered with, once the owner has nothing any more.
  void release(fuse_req_t request, InodeId inode, uint64_t owner, Status flushed);

  // Nothing is asked through it any more, and what was locked through it is unlocked.
  void closed(const client::FileRef& file);
  // All that wait are answered, and nothing comes any more. While the devices of workers are open.
  void end();

 private:
  // One that waits, as whoever answers it finds it.
  struct Later {
    fuse_req_t request = nullptr;
    int device = -1;
    locks::RequestId waits;
    bool is_interrupted = false;
  };
  struct Waiting {
    std::mutex mutex;
    uint64_t numbers = 0;
    std::map<uint64_t, Later> all;

    uint64_t add(fuse_req_t request, locks::RequestId waits);
    // `reply` answers it, unless that was done.
    template <class Reply>
    void answer(uint64_t number, Reply reply);
  };

  static void interrupted(fuse_req_t request, void* number);
  void interrupt(uint64_t number);

  locks::Locking& locking_;
  const std::shared_ptr<Waiting> waiting_ = std::make_shared<Waiting>();
};

}  // namespace penstock::fuse
