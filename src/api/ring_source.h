// A session's files as a mover's source: reads and writes go through a ring of its own.
#pragma once

#include "lane.h"

#include "penstock/route.h"

namespace penstock::api {

class RingSource final : public route::HostSource {
 public:
  // All memory of HostIos lies in `slots`. `ring` has one lane, for this object alone.
  RingSource(engine::Loop& loop, Ring& ring, Region& slots);

  void submit(route::HostIo& io) override;
  bool find(uint32_t file, uint64_t offset, route::Resident* resident) override;
  bool still_there(const route::Resident& resident) override;
  bool poll() override;

  void sleep(engine::Time deadline) override;
  void rouse() override { lane_.rouse(); }

 private:
  bool start(route::HostIo& io);

  engine::Loop& loop_;
  Region& slots_;
  Lane& lane_;
  IntrusiveList<route::HostIo> waiting_;  // while the lane is full
  bool prepared_ = false;
};

}  // namespace penstock::api
