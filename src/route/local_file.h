// A file of another file system, as it is read and written.
#pragma once

#include <atomic>
#include <memory>

#include "penstock/base.h"
#include "penstock/route/host_source.h"

namespace penstock::route {

// Up to two open files for one: through the page cache, and past it. Thread safe.
class LocalFile {
 public:
  // Takes a duplicate of `fd`, and opens the other one by its name in /proc.
  static Outcome<std::unique_ptr<LocalFile>> open(int fd);

  // Reads what is in the page cache, if that is all of it, without waiting for anything.
  bool read_now(HostIo& io);
  // Both fill in the operation's `transferred` and `route`, and may block.
  Status read(HostIo& io);
  Status write(HostIo& io);

 private:
  uint64_t read_cached(HostIo& io);
  bool may_go_direct(uint64_t offset, const std::byte* memory, uint64_t length) const;

  UniqueFd buffered_;  // none when only O_DIRECT can be had
  UniqueFd direct_;    // none when the file system has none
  bool asked_direct_ = false;
  // Relaxed: found out once, by whoever tries first, and true for all.
  std::atomic<bool> can_look_{true};    // the file system tells what is cached
  std::atomic<bool> can_direct_{true};  // O_DIRECT works as we use it
};

}  // namespace penstock::route
