// What the library keeps for the whole process, and what a fork() does to it.
#pragma once

#include "files.h"
#include "flush_timer.h"
#include "iovs.h"
#include "ring.h"

#include <cstdint>
#include <memory>

#include "penstock/front.h"

namespace penstock::usrbio {

// Made at first use and never destroyed: threads of the program may be in here when it exits. In
// the child of a fork() sessions and the timer start afresh, registered descriptors and iovs are
// registered again when used, and rings of the parent are refused.
class Process {
 public:
  static Process& instance();

  front::Sessions& sessions() { return sessions_; }
  Files& files() { return files_; }
  Iovs& iovs() { return iovs_; }
  FlushTimer& timer() { return *timer_; }

 private:
  Process();
  static void before_fork();
  static void after_fork_in_parent();
  static void after_fork_in_child();

  front::Sessions sessions_{"usrbio"};
  Files files_{sessions_};
  Iovs iovs_{sessions_};
  std::unique_ptr<FlushTimer> timer_ = std::make_unique<FlushTimer>();
};

// What hf3fs_ior.iorh points to.
struct RingHandle {
  uint32_t generation = 0;
  uint32_t entries = 0;
  std::unique_ptr<Ring> ring;
};

}  // namespace penstock::usrbio
