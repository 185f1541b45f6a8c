// A session's files as a mover's source: reads and writes go through a ring of its own.
#pragma once

#include <unordered_map>

#include "penstock/cache_view.h"
#include "penstock/lanes/lane.h"
#include "penstock/route.h"

namespace penstock::lanes {

class RingSource final : public route::HostSource {
 public:
  // All host memory of HostIos lies in `slots`. `ring` has one lane, for this object alone.
  RingSource(engine::Loop& loop, Ring& ring, connection::Region& slots);

  void submit(route::HostIo& io) override;
  // Where the agent's network cards do, and did not fail for this file a moment ago.
  std::optional<route::Reached> reach(uint32_t file, const engine::DeviceSpan& memory) override;
  // In the node cache, where GPUs reach it.
  bool find(uint32_t file, uint64_t offset, uint64_t length, route::Resident* resident) override;
  void prefetch(uint32_t file, uint64_t offset) override;
  bool still_there(const route::Resident& resident) override;
  void release(const route::Resident& resident) override;
  bool poll() override;

  void sleep(engine::Time deadline) override;
  void rouse() override { lane_.rouse(); }

 private:
  bool start(route::HostIo& io);
  void note_failure(const route::HostIo& io, int64_t result);
  connection::Region& region_of(const route::HostIo& io);

  engine::Loop& loop_;
  connection::Region& slots_;
  Lane& lane_;
  IntrusiveList<route::HostIo> waiting_;  // while the lane is full
  // Files whose bytes cards could not bring: not before then.
  std::unordered_map<uint32_t, engine::Time> not_by_cards_;
  metrics::Counter failures_{"lanes.not_by_cards"};
  bool prepared_ = false;
  Session& session_;
  cache_view::ViewHold cache_;  // as long as copies out of it may be under way
};

}  // namespace penstock::lanes
