// The calling thread's last error, for penstock_last_error().
#pragma once

#include <string>

#include "penstock/base.h"

namespace penstock::api {

// Remembers `message` for the calling thread and returns -`error`.
int fail(int error, std::string message);
int fail(const Failure& failure);
// The same for a message that lives for ever; allocates nothing.
int fail_with(int error, const char* message);
const char* last_error();

// True in a process that was forked after `generation` was taken: its threads and sockets are the
// parent's, so every call there fails.
uint64_t fork_generation();
inline bool is_forked(uint64_t generation) {
  return generation != fork_generation();
}

}  // namespace penstock::api
