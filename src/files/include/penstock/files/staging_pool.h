// Host memory of a session through which the bytes of lists of files go, when they are wanted in
// plain memory or on a GPU.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "penstock/engine.h"
#include "penstock/lanes.h"

namespace penstock::files {

// A region of limits::kStagingBytes that one thread uses at a time.
struct Staging {
  connection::Region* region = nullptr;
  engine::DeviceMemory* pinned_for = nullptr;  // null: GPUs do not reach it
};

// Thread safe. Keeps what was made until the session ends: as many as were in use at once.
class StagingPool {
 public:
  // The session outlives this object.
  explicit StagingPool(lanes::Session& session) : session_(session) {}
  // None of it is in use any more.
  ~StagingPool();

  Outcome<Staging*> take();
  void give_back(Staging* staging);
  // Makes it reachable for GPUs; its user's to call.
  static Outcome<void> pin(Staging& staging, engine::DeviceMemory& devices);

 private:
  lanes::Session& session_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Staging>> all_;
  std::vector<Staging*> free_;
};

}  // namespace penstock::files
