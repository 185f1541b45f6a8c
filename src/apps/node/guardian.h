// A small process beside the node that ends the node's mounts if the node dies and cannot end.
//
// A node that is killed closes its descriptors one by one. Among them may be one of a file in its
// own mount (applications send such descriptors): the kernel then sends the file system a FLUSH and
// waits for an answer that will not come, as the threads of the mount are dead and its device,
// whose close would end the wait, comes later. So the process would stay for ever, and with it the
// lock of the store and all programs that wait for the mount. Only another process can help.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <sys/types.h>

#include "penstock/base.h"

namespace penstock::apps {

class Guardian {
 public:
  // Forks the process. To be called while there is no other thread, by the one that lives as long
  // as the node: its death is what the process waits for. It ends by itself soon after the node.
  // `source`: the store's directory, as mounts show it.
  static Outcome<std::unique_ptr<Guardian>> start(const std::string& source);
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  // The device number of a mount of this node, from now on until forgotten. Any thread. More than
  // fit (kMountsMax) are not watched.
  void watch(dev_t device);
  void forget(dev_t device);

  static constexpr size_t kMountsMax = 256;

 private:
  struct Shared;
  static void guard(Shared& shared, pid_t node, const std::string& source);
  explicit Guardian(Shared* shared) : shared_(shared) {}
  // Never unmapped: the kernel looks at the lock in it when the thread dies.
  Shared* const shared_;
};

}  // namespace penstock::apps
