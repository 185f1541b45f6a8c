// What a fork() does to a front.
#pragma once

#include <cstdint>

namespace penstock::front {

// Which process of a chain of forks this is. What was made under another number is a parent's: its
// threads, sockets and rings have not come along.
uint32_t fork_generation();

// Called as this process forks: `before` and `in_parent` around it, `in_child` in the child, whose
// number has changed by then. Each may be null.
struct ForkCalls {
  void (*before)() = nullptr;
  void (*in_parent)() = nullptr;
  void (*in_child)() = nullptr;
};
// Once for each front, before it has anything that a fork() concerns. Of several fronts those that
// came later are called earlier before the fork, and later behind it.
void on_fork(const ForkCalls& calls);

}  // namespace penstock::front
