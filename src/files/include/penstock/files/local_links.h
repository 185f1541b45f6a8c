// Transfers for files of other file systems: of the process, as they need no session.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "penstock/engine.h"
#include "penstock/files/limits.h"
#include "penstock/lanes.h"
#include "penstock/local.h"
#include "penstock/route.h"

namespace penstock::files {

// The way of local files to GPUs for one link of a load: a thread, slots, and threads that read.
class LocalLink {
 public:
  static Outcome<std::unique_ptr<LocalLink>> start(engine::DeviceMemory& devices, uint32_t threads);
  ~LocalLink();

  route::Transfers& transfers() { return *transfers_; }
  local::LocalSource& source() { return *source_; }

 private:
  LocalLink() = default;

  MutableBytes slots_;
  local::LocalSource* source_ = nullptr;  // of transfers_
  std::unique_ptr<route::Transfers> transfers_;
};

// So many links, with at most kLinkTransfersMax different ones among them. They are made when they
// are first asked for, and kept for the life of the process, since they take longer to make than a
// small model to load. `threads` read for each; busy: too many different numbers of them
// were asked for. Thread safe.
Outcome<std::vector<LocalLink*>> local_links(engine::DeviceMemory& devices, uint32_t threads,
                                             size_t links);

// For tests: before the devices that they use go away. No load is under way.
void forget_local_links();

}  // namespace penstock::files
