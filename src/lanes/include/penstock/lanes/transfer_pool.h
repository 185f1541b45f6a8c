// What carries a session's bytes to and from GPU memory.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "penstock/connection.h"
#include "penstock/engine.h"
#include "penstock/route.h"

namespace penstock::lanes {

class Ring;
class Session;

// Transfers are made when they are first asked for, and kept as long as the session. Thread safe.
class TransferPool final : public connection::RegionUser {
 public:
  explicit TransferPool(Session& session) : session_(session) {}
  ~TransferPool();

  // Made with the first region of GPU memory; null before that.
  route::Transfers* first() const { return first_.get(); }
  // Registers GPU memory. `owner` gives the memory back with the region; null: it is the caller's.
  Outcome<connection::Region*> add_region(engine::DeviceMemory& devices,
                                          const engine::DeviceSpan& span,
                                          engine::DeviceMemory* owner);
  // For a lane that begins to use GPU memory: the first transfers, or others, so that a few threads
  // with lanes of their own do not wait for one another. Null while there are none.
  struct ForLane {
    route::Transfers* transfers = nullptr;
    uint32_t number = 0;  // below kLaneTransfersMax
  };
  ForLane for_lane();
  // For loads: transfers for so many links, each with its own thread and slots as far as
  // kLinkTransfersMax goes, then the same ones again.
  Outcome<std::vector<route::Transfers*>> for_links(engine::DeviceMemory& devices, size_t links);
  // Ends all transfers, and what is in flight on them. No call follows but the destructor.
  void end();

  // Waits until no transfer uses it any more.
  void let_go_of(connection::Region& region) override;

 private:
  Outcome<void> start(engine::DeviceMemory& devices);
  Outcome<std::unique_ptr<route::Transfers>> make(engine::DeviceMemory& devices,
                                                  uint64_t slots_bytes);
  void give_up(connection::Region* slots, Ring* ring);
  void show_to_cards(engine::DeviceMemory& devices, connection::Region& region);

  Session& session_;
  std::mutex mutex_;  // while they are made
  std::unique_ptr<route::Transfers> first_;
  std::vector<std::unique_ptr<route::Transfers>> of_links_;  // behind the first
  std::vector<std::unique_ptr<route::Transfers>> of_lanes_;  // behind the first
  engine::DeviceMemory* devices_ = nullptr;                  // of first_
  uint32_t lanes_begun_ = 0;                                 // that asked for transfers
};

}  // namespace penstock::lanes
