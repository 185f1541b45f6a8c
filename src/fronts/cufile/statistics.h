// What the library has done, as cuFileGetStatsL1() and the others give it.
#pragma once

#include "cufile.h"

#include <array>
#include <atomic>
#include <cstdint>

#include "penstock/engine.h"

namespace penstock::cufile {

// Thread safe. All counts are relaxed: they order nothing.
class Statistics {
 public:
  // What is counted as done or failed, without bytes.
  enum class Event : uint8_t {
    handle_register,
    handle_deregister,
    buffer_register,
    buffer_deregister,
    batch_setup,
    batch_submit,
    batch_complete,
    batch_cancel,
    batch_destroy,
    batch_enqueue,
    batch_process,
  };
  static constexpr size_t kEvents = 11;
  static constexpr uint32_t kDevices = 16;  // as CUfileStatsLevel3_t has them
  static constexpr uint32_t kNoDevice = UINT32_MAX;

  // One read or write that has ended.
  struct Io {
    bool write = false;
    bool batch = false;
    bool ok = false;
    uint64_t asked = 0;  // bytes
    uint64_t bytes = 0;
    uint64_t offset = 0;
    uint32_t device = kNoDevice;
    engine::Route route = engine::Route::none;
    engine::Duration time{};
  };

  int level() const { return level_.load(std::memory_order_relaxed); }
  void set_level(int level) { level_.store(level, std::memory_order_relaxed); }
  void start();
  void stop();
  void reset();

  bool counts() const { return running_.load(std::memory_order_relaxed) && level() > 0; }
  void count(Event event, bool ok = true, uint64_t times = 1);
  void count(const Io& io);
  void count_registration(uint32_t device, bool ok, uint64_t bytes);
  void count_deregistration(uint32_t device);
  // A batch of so many operations is submitted: what ends from now on is of the last batch.
  void begin_batch(uint64_t operations);
  void count_submit(engine::Duration time);

  void fill(CUfileStatsLevel1_t& out) const;
  void fill(CUfileStatsLevel2_t& out) const;
  // The GPUs themselves are for the caller to fill in.
  void fill(CUfileStatsLevel3_t& out) const;

 private:
  using Count = std::atomic<uint64_t>;
  struct Outcomes {
    Count ok{0};
    Count failed{0};
  };
  // Reads or writes.
  struct alignas(64) Direction {
    Outcomes ops;
    Count bytes{0};
    Count microseconds{0};
    Count batch_bytes{0};
    Count last_batch_bytes{0};
    std::array<Count, 32> sizes{};  // by the power of two of their KiB
  };
  struct alignas(64) Device {
    struct Half {
      Outcomes ops;
      Count bytes{0};
      Count microseconds{0};
      Count by_slots{0};
      Count routed{0};
      Count unaligned{0};
    } read, write;
    Outcomes registrations;
    Count deregistrations{0};
    Count registered_bytes{0};
  };

  static CUfileOpCounter_t pair_of(const Outcomes& outcomes);
  double seconds() const;

  std::atomic<int> level_{0};
  std::atomic<bool> running_{false};
  Count started_at_{0};  // nanoseconds of the monotonic clock, of the run that goes on
  Count ran_for_{0};     // nanoseconds, of runs before
  std::array<Outcomes, kEvents> events_;
  Direction reads_;
  Direction writes_;
  Count submit_microseconds_{0};
  Count completion_microseconds_{0};
  std::array<Device, kDevices> devices_;
};

}  // namespace penstock::cufile
