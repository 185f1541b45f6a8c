// A histogram of durations or sizes with bounded relative error and a fixed size.
#pragma once

#include <array>
#include <cstdint>

namespace penstock {

// Values are grouped into 32 buckets per power of two, so a percentile is at most 3.2 % too high.
// Not thread safe: each thread records into its own and merge() adds them up.
class Histogram {
 public:
  void record(uint64_t value);
  void merge(const Histogram& other);

  uint64_t count() const { return count_; }
  uint64_t sum() const { return sum_; }
  uint64_t max() const { return max_; }
  // The smallest bucket bound that at least `fraction` (0 to 1) of the values do not exceed.
  uint64_t percentile(double fraction) const;

 private:
  static constexpr int kSubBits = 5;
  static constexpr int kBuckets = (64 - kSubBits + 1) << kSubBits;
  static int bucket_of(uint64_t value);
  static uint64_t upper_bound_of(int bucket);

  std::array<uint64_t, kBuckets> buckets_{};
  uint64_t count_ = 0;
  uint64_t sum_ = 0;
  uint64_t max_ = 0;
};

}  // namespace penstock
