// A histogram of durations that one thread fills while others read it.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

namespace penstock::telemetry {

// Durations by two steps for each power of two: 1 us, 1.5 us, 2 us, 3 us, 4 us, ... 12 s, 16 s, and
// all above. A few hundred bytes. record() is the owner's alone and executes no locked instruction;
// everything else may be called by any thread and sees counts that are each true, if not all of the
// same moment (relaxed: counts order nothing).
class Latency {
 public:
  static constexpr size_t kBuckets = 50;

  void record(uint64_t nanoseconds) {
    add(counts_[bucket_of(nanoseconds)], 1);
    add(sum_, nanoseconds);
  }

  // The same from any thread, for what several share: two locked instructions.
  void record_shared(uint64_t nanoseconds) {
    counts_[bucket_of(nanoseconds)].fetch_add(1, std::memory_order_relaxed);
    sum_.fetch_add(nanoseconds, std::memory_order_relaxed);
  }

  uint64_t count_in(size_t bucket) const { return counts_[bucket].load(std::memory_order_relaxed); }
  uint64_t sum_nanoseconds() const { return sum_.load(std::memory_order_relaxed); }

  // The most that a duration of this bucket is; UINT64_MAX for the last.
  static constexpr uint64_t upper_nanoseconds(size_t bucket) {
    if (bucket + 1 >= kBuckets) return UINT64_MAX;
    const uint64_t power = 1000ull << (bucket / 2);
    return bucket % 2 == 0 ? power : power + power / 2;
  }
  static constexpr size_t bucket_of(uint64_t nanoseconds) {
    // Whole units of 500 ns, of which 2 are the first bucket's bound, 3 the second's, 4, 6, 8, ...
    const uint64_t units = (nanoseconds + 499) / 500;
    if (units <= 2) return 0;
    const auto power = static_cast<size_t>(std::bit_width(units - 1)) - 1;  // 2^power < units
    const bool is_low = units <= (3ull << power) / 2;
    const size_t bucket = 2 * power - (is_low ? 1 : 0);
    return bucket < kBuckets ? bucket : kBuckets - 1;
  }

 private:
  static void add(std::atomic<uint64_t>& to, uint64_t n) {
    to.store(to.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }

  std::array<std::atomic<uint64_t>, kBuckets> counts_{};
  std::atomic<uint64_t> sum_{0};
};

// What a histogram, or several together, showed at a moment. Plain data.
struct LatencySample {
  std::array<uint64_t, Latency::kBuckets> counts{};
  uint64_t sum_nanoseconds = 0;

  void add(const Latency& histogram);
  void add(const LatencySample& other);
  uint64_t count() const;
  // The bound of the bucket that at least `fraction` (0 to 1) of them do not exceed; 0 of none. The
  // last bucket has the bound of the one before it.
  uint64_t percentile_nanoseconds(double fraction) const;
};

}  // namespace penstock::telemetry
