#include "penstock/front/fork.h"

#include <atomic>
#include <pthread.h>

namespace penstock::front {
namespace {

// Relaxed: it changes only while the process has a single thread.
std::atomic<uint32_t> generation{0};

// Before any front's own calls, so that they find the new number.
void count_forks() {
  static const int registered = ::pthread_atfork(
      nullptr, nullptr, [] { generation.fetch_add(1, std::memory_order_relaxed); });
  (void)registered;
}

}  // namespace

uint32_t fork_generation() {
  count_forks();
  return generation.load(std::memory_order_relaxed);
}

void on_fork(const ForkCalls& calls) {
  count_forks();
  ::pthread_atfork(calls.before, calls.in_parent, calls.in_child);
}

}  // namespace penstock::front
