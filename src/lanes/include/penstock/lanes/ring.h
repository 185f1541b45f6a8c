// A ring of the application: its lanes, and which thread has which.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "penstock/lanes/lane.h"

namespace penstock::lanes {

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
  RingUse newest();
  // Makes every lane look at the session's epoch.
  void rouse_all();
  // Waits for each thread that submits at this moment. The ring is not destroyed meanwhile.
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
  RingUse newest_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<Use> uses_;
};

}  // namespace penstock::lanes
