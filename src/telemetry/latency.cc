#include <algorithm>
#include <numeric>

#include "penstock/telemetry.h"

namespace penstock::telemetry {

static_assert(Latency::bucket_of(0) == 0 && Latency::bucket_of(1000) == 0);
static_assert(Latency::bucket_of(1001) == 1 && Latency::bucket_of(1500) == 1);
static_assert(Latency::bucket_of(1501) == 2 && Latency::bucket_of(2000) == 2);
static_assert(Latency::bucket_of(2001) == 3 && Latency::bucket_of(3000) == 3);
static_assert(Latency::bucket_of(3001) == 4 &&
              Latency::bucket_of(UINT64_MAX / 2) == Latency::kBuckets - 1);

void LatencySample::add(const Latency& histogram) {
  for (size_t i = 0; i < Latency::kBuckets; ++i) counts[i] += histogram.count_in(i);
  sum_nanoseconds += histogram.sum_nanoseconds();
}

void LatencySample::add(const LatencySample& other) {
  for (size_t i = 0; i < Latency::kBuckets; ++i) counts[i] += other.counts[i];
  sum_nanoseconds += other.sum_nanoseconds;
}

uint64_t LatencySample::count() const {
  return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
}

uint64_t LatencySample::percentile_nanoseconds(double fraction) const {
  const uint64_t all = count();
  if (all == 0) return 0;
  const auto wanted =
      std::max<uint64_t>(1, static_cast<uint64_t>(fraction * static_cast<double>(all) + 0.5));
  uint64_t seen = 0;
  for (size_t i = 0; i + 1 < Latency::kBuckets; ++i) {
    seen += counts[i];
    if (seen >= wanted) return Latency::upper_nanoseconds(i);
  }
  return Latency::upper_nanoseconds(Latency::kBuckets - 2);
}

}  // namespace penstock::telemetry
