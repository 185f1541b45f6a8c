// A ring of the application: its lanes, and which thread has which.
#pragma once

#include "lane.h"

#include <memory>
#include <mutex>
#include <vector>

namespace penstock::api {

class Session;

class Ring {
 public:
  Ring(Session& session, uint32_t id, ring::Geometry geometry);
  ~Ring();

  Session& session() { return session_; }
  uint32_t id() const { return id_; }
  const ring::Geometry& geometry() const { return geometry_; }

  // Fresh memory for a connection; lanes move to it when they notice the session's new epoch.
  Outcome<std::shared_ptr<RingMemory>> make_memory() const;
  void use(std::shared_ptr<RingMemory> memory, uint64_t epoch);
  // The memory of the newest connection and its epoch.
  std::shared_ptr<RingMemory> memory(uint64_t* epoch);
  // Makes every lane look at the session's epoch.
  void rouse_all();
  // Waits until whoever submits has done so. Nobody destroys the ring meanwhile.
  void pass_submitters();
  // Cancels the operations on GPU memory of all lanes and waits for their end.
  void end_transfers();

  // The calling thread's lane, taken at its first call; null when all belong to others.
  Lane* lane_of_thread();
  // Gives the calling thread's lane back. False when operations are in flight on it.
  bool leave_thread();
  Lane* claim();
  bool release(Lane* lane);

 private:
  friend class ThreadLanes;
  enum class Use : uint8_t { free, taken, abandoned };
  void abandon(Lane* lane);

  Session& session_;
  const uint32_t id_;
  const uint64_t serial_;  // never used again by another ring of this process
  const ring::Geometry geometry_;

  std::mutex mutex_;
  std::shared_ptr<RingMemory> memory_;
  uint64_t epoch_ = 0;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<Use> uses_;
};

}  // namespace penstock::api
