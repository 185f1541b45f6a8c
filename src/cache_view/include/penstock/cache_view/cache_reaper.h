// Where views of the node cache go when no reader uses them any more: to a thread of its own.
//
// The driver gives pinned memory back only when the kernels that run have ended, and lets no other
// thread copy meanwhile (both seen with driver 580). Those kernels may be waiting for the thread
// that lets go of a view, or for a copy: so nothing is unpinned while there are rings for kernels.
// Unmapping takes a while, too.
#pragma once

#include <memory>

namespace penstock::cache_view {

class CacheView;

// Thread safe. The thread is there while there is something to do.
class CacheReaper {
 public:
  CacheReaper();
  // Waits for what is being given up, but not for ever: the thread needs nothing of this object,
  // and ends with the kernels that hold it up. What is still held is never given up.
  ~CacheReaper();

  // Between these two nothing is given up. They may be nested. The first waits for what is being
  // given up; false, and nothing is held, when that takes too long, as kernels run.
  bool hold();
  void let_go();

  // The last owner, which may outlive this object, hands the view to the thread and goes on.
  std::shared_ptr<CacheView> keep(std::unique_ptr<CacheView> view);

 private:
  struct Work;
  static void take(const std::shared_ptr<Work>& work, std::unique_ptr<CacheView> view);
  static void start(const std::shared_ptr<Work>& work);
  static void run(const std::shared_ptr<Work>& work);

  const std::shared_ptr<Work> work_;
};

}  // namespace penstock::cache_view
