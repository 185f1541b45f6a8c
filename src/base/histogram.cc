#include "penstock/base/histogram.h"

#include <algorithm>
#include <bit>

namespace penstock {

int Histogram::bucket_of(uint64_t value) {
  constexpr uint64_t kLinear = 1u << kSubBits;
  if (value < kLinear) return static_cast<int>(value);
  const int shift = std::bit_width(value) - 1 - kSubBits;
  return ((shift + 1) << kSubBits) + static_cast<int>((value >> shift) - kLinear);
}

uint64_t Histogram::upper_bound_of(int bucket) {
  constexpr int kLinear = 1 << kSubBits;
  if (bucket < kLinear) return static_cast<uint64_t>(bucket);
  const int shift = (bucket >> kSubBits) - 1;
  const uint64_t mantissa = static_cast<uint64_t>(bucket & (kLinear - 1)) + kLinear;
  // The last bucket's bound is 2^64 - 1; the sum wraps to it.
  return ((mantissa + 1) << shift) - 1;
}

void Histogram::record(uint64_t value) {
  ++buckets_[bucket_of(value)];
  ++count_;
  sum_ += value;
  max_ = std::max(max_, value);
}

void Histogram::merge(const Histogram& other) {
  for (int i = 0; i < kBuckets; ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  sum_ += other.sum_;
  max_ = std::max(max_, other.max_);
}

uint64_t Histogram::percentile(double fraction) const {
  if (count_ == 0) return 0;
  const auto wanted = static_cast<uint64_t>(fraction * static_cast<double>(count_) + 0.5);
  uint64_t seen = 0;
  for (int i = 0; i < kBuckets; ++i) {
    seen += buckets_[i];
    if (seen >= std::max<uint64_t>(wanted, 1)) return std::min(upper_bound_of(i), max_);
  }
  return max_;
}

}  // namespace penstock
