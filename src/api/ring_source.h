// A session's files as a mover's source: reads and writes go through a ring of its own.
#pragma once

#include "lane.h"

#include <map>

#include "penstock/route.h"

namespace penstock::api {

class RingSource final : public route::HostSource {
 public:
  // All memory of HostIos lies in `slots`. `ring` has one lane, for this object alone.
  RingSource(engine::Loop& loop, Ring& ring, Region& slots);

  void submit(route::HostIo& io) override;
  // In the node cache, where GPUs reach it.
  bool find(uint32_t file, uint64_t offset, uint64_t length, route::Resident* resident) override;
  void prefetch(uint32_t file, uint64_t offset) override;
  bool still_there(const route::Resident& resident) override;
  void release(const route::Resident& resident) override;
  bool poll() override;

  void sleep(engine::Time deadline) override;
  void rouse() override { lane_.rouse(); }

 private:
  // A view of the node cache, as long as copies out of it may be under way.
  struct Held {
    std::shared_ptr<CacheView> view;
    uint64_t serial = 0;
    uint64_t uses = 0;
    // What the view said of itself in the loop's turn that began at `asked`.
    engine::Time asked{};
    bool ended = false;
  };

  bool start(route::HostIo& io);
  CacheView* view();
  bool has_ended(Held& held) const;

  engine::Loop& loop_;
  Region& slots_;
  Lane& lane_;
  IntrusiveList<route::HostIo> waiting_;  // while the lane is full
  bool prepared_ = false;
  Session& session_;
  std::map<uint64_t, Held> held_;  // by the map's serial: the newest, and those still in use
  uint64_t serial_ = 0;            // of the newest
  Held* newest_ = nullptr;         // null: there is no cache, or not yet
  CacheView::Hits hits_;
};

}  // namespace penstock::api
