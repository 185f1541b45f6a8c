// What a fork() does to sessions: they stay with the parent.
#pragma once

#include <cstdint>

#include "penstock/base.h"

namespace penstock::connection {

// True in a process that was forked after `generation` was taken: its threads and sockets are the
// parent's, so every call there fails.
uint64_t fork_generation();
inline bool is_forked(uint64_t generation) {
  return generation != fork_generation();
}

// A descriptor that a forked child closes at once: as long as it had it, what hangs on the
// descriptor would outlive the process that it belongs to. Thread safe as a UniqueFd is.
class ParentsFd {
 public:
  ParentsFd() = default;
  explicit ParentsFd(UniqueFd fd);
  ParentsFd(ParentsFd&& other) noexcept;
  ParentsFd& operator=(ParentsFd&& other) noexcept;
  ~ParentsFd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void reset();

 private:
  int fd_ = -1;
};

}  // namespace penstock::connection
