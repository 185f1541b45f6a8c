// What the operations of one thread took, by kind and route, and how those failed that did.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <vector>

#include "penstock/telemetry/latency.h"

namespace penstock::telemetry {

enum class Kind : uint8_t { read, write, sync, fill, other };
inline constexpr size_t kKinds = 5;
const char* kind_name(Kind kind);

// Of one kind by one route (a number of the caller's).
struct OperationSample {
  Kind kind = Kind::other;
  uint32_t route = 0;
  LatencySample latency;
  uint64_t bytes = 0;
};

// begun() and ended() are the owner thread's, without locked instructions; the rest is any
// thread's.
class OperationFigures {
 public:
  static constexpr size_t kRoutes = 16;
  static constexpr size_t kErrors = 134;  // Linux's error numbers end at 133

  struct Ending {
    Kind kind = Kind::other;
    uint32_t route = 0;
    int64_t result = 0;  // bytes moved, or a negative error number
    uint64_t nanoseconds = 0;
  };
  void begun() { add(in_flight_, 1); }
  void ended(const Ending& how) {
    add(in_flight_, UINT64_MAX);
    Cell& cell = cells_[static_cast<size_t>(how.kind) % kKinds][how.route % kRoutes];
    cell.latency.record(how.nanoseconds);
    if (how.result >= 0) [[likely]] {
      add(cell.bytes, static_cast<uint64_t>(how.result));
    } else {
      add(errors_[static_cast<uint64_t>(-how.result) % kErrors], 1);
    }
  }

  uint64_t in_flight() const { return in_flight_.load(std::memory_order_relaxed); }
  // Adds those that there were to `samples`, and how many ended with which error to `errors`.
  void add_to(std::vector<OperationSample>* samples, std::map<int, uint64_t>* errors) const;

 private:
  struct Cell {
    Latency latency;
    std::atomic<uint64_t> bytes{0};
  };
  static void add(std::atomic<uint64_t>& to, uint64_t n) {
    to.store(to.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }

  std::atomic<uint64_t> in_flight_{0};
  std::array<std::array<Cell, kRoutes>, kKinds> cells_;
  std::array<std::atomic<uint64_t>, kErrors> errors_{};
};

}  // namespace penstock::telemetry
