// Host memory of a session through which the bytes of lists of files go, when they are wanted in
// plain memory or on a GPU.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "penstock/engine.h"

namespace penstock::api {

class Session;
struct Region;

// A region of limits::kStagingBytes that one thread uses at a time.
struct Staging {
  Region* region = nullptr;
  engine::DeviceMemory* pinned_for = nullptr;  // null: GPUs do not reach it
};

// Thread safe. Keeps what was made until the session ends: as many as were in use at once.
class StagingPool {
 public:
  explicit StagingPool(Session& session) : session_(session) {}

  Outcome<Staging*> take();
  void give_back(Staging* staging);
  // Makes it reachable for GPUs; its user's to call.
  static Outcome<void> pin(Staging& staging, engine::DeviceMemory& devices);
  // Nobody uses any of it any more, and the regions are still there.
  void unpin_all();

 private:
  Session& session_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Staging>> all_;
  std::vector<Staging*> free_;
};

}  // namespace penstock::api
