// engine::Disk on this machine's files: io_uring where the kernel allows it, else a thread pool.
#pragma once

#include <memory>
#include <string>

#include "penstock/engine.h"

namespace penstock::disk {

struct DiskConfig {
  // The directory (it must exist) whose file system facts() speaks of.
  std::string root;
  // Serve with the thread pool although io_uring works; facts().reason says so.
  bool force_threads = false;
  // Of the thread pool; as many operations run at once.
  uint32_t thread_count = 8;
};

// What one loop needs to sleep and to do I/O. A loop exists only with its parker, and a disk only
// with its loop, so there are two steps:
//
//   auto driver = DiskDriver::create({.root = directory});
//   engine::Loop loop(clock, random, (*driver)->parker());
//   engine::Disk& disk = (*driver)->attach(loop);
//
// The loop may be polled by any thread, one at a time, and handed on, also with operations in
// flight: from start-up code to the shard's thread, then to clean-up code.
//
// End: nothing in flight, loop.remove(disk) if the loop is to live on; then loop and driver in any
// order, as neither's destructor touches the other.
class DiskDriver {
 public:
  // Fails only when the root is no directory or the machine lacks resources (file descriptors,
  // memory).
  static Outcome<std::unique_ptr<DiskDriver>> create(const DiskConfig& config);
  virtual ~DiskDriver() = default;

  virtual engine::Parker& parker() = 0;
  // Once. Adds the disk to the loop's pollers: do not add it again. The driver owns it.
  virtual engine::Disk& attach(engine::Loop& loop) = 0;
};

}  // namespace penstock::disk
