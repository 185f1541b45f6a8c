// Files of a Penstock mount: by rings of a session with the mount's agent.
#pragma once

#include "backend.h"
#include "host_threads.h"
#include "penstock.h"

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <tuple>
#include <vector>

#include "penstock/front.h"

namespace penstock::cufile {

class MountBackend final : public Backend {
 public:
  // The session outlives this object.
  static Outcome<std::unique_ptr<MountBackend>> start(front::Session& session);
  ~MountBackend() override;

  // The session's number of the file behind a descriptor.
  Outcome<uint32_t> add(int fd);

  void run(Operation& operation) override;
  void submit(std::span<Operation* const> operations) override;
  void cancel(Operation& operation) override;
  void remove(uint32_t file) override;

 private:
  // GPU memory that the session knows. Released when no operation uses it any more.
  struct Region {
    ~Region() { penstock_region_release(handle); }
    penstock_region* handle = nullptr;
  };
  using RegionKey = std::tuple<std::byte*, uint64_t, uint64_t>;  // address, length, allocation
  struct KnownRegion {
    std::shared_ptr<Region> region;
    uint64_t last_use = 0;
  };

  explicit MountBackend(penstock_session* session);
  Result<std::shared_ptr<Region>> region_of(const Memory& memory);
  Status hold_region(Operation& operation);
  static void cut(Operation& operation);
  static penstock_io entry_of(Operation& operation, RingPart& part);
  static void take_end(RingPart& part, const penstock_completion& completion);
  static void finish(Operation& operation);
  void run_on_host(Operation& operation);
  penstock_lane* take_lane();
  void give_back(penstock_lane* lane);
  Status start_waiting();
  void pass_on();
  void wait_for_ends();

  penstock_session* const session_;
  penstock_ring* ring_ = nullptr;
  HostThreads host_threads_;

  std::mutex regions_mutex_;
  std::map<RegionKey, KnownRegion> regions_;
  uint64_t uses_ = 0;

  // For run(): each lane belongs to one caller at a time.
  std::mutex lanes_mutex_;
  std::condition_variable lane_is_free_;
  std::vector<penstock_lane*> free_lanes_;
  uint32_t lanes_ = 0;

  // For submit(): one lane, whose ends a thread takes. Parts that found it full wait.
  std::mutex submit_mutex_;
  penstock_lane* lane_ = nullptr;
  IntrusiveList<RingPart> waiting_;
  std::atomic<bool> stop_{false};  // relaxed: only the thread's end hangs on it
  std::thread thread_;

  std::mutex files_mutex_;
  std::map<uint32_t, UniqueFd> files_;  // for host memory
};

}  // namespace penstock::cufile
