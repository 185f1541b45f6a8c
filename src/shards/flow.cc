#include <algorithm>

#include "penstock/shards.h"
#include "penstock/shards/limits.h"

namespace penstock::shards {

namespace {

constexpr int64_t kSecond = 1'000'000'000;

}  // namespace

Flow::Flow() {
  for (Side& side : sides_) side.flow = this;
}

Flow::~Flow() {
  for (const Side& side : sides_) ASSERT(!side.linked());
  ASSERT(held_ == 0);
}

Status Terms::set(const Allowance& allowance) {
  if (allowance.weight == 0 || allowance.weight > kWeightMax) return Code::invalid_argument;
  weight_.store(allowance.weight, std::memory_order_relaxed);
  in_flight_.store(allowance.operations_in_flight, std::memory_order_relaxed);
  bytes_.per_second.store(allowance.bytes_per_second, std::memory_order_relaxed);
  operations_.per_second.store(allowance.operations_per_second, std::memory_order_relaxed);
  // What was used up under the former limits is forgiven.
  bytes_.ends.store(0, std::memory_order_relaxed);
  operations_.ends.store(0, std::memory_order_relaxed);
  return Code::ok;
}

Allowance Terms::allowance() const {
  return {
      .weight = weight(),
      .bytes_per_second = bytes_.per_second.load(std::memory_order_relaxed),
      .operations_per_second = operations_.per_second.load(std::memory_order_relaxed),
      .operations_in_flight = operations_in_flight(),
  };
}

int64_t Terms::Pace::ready_at() const {
  if (per_second.load(std::memory_order_relaxed) == 0) [[likely]]
    return INT64_MIN;
  return ends.load(std::memory_order_relaxed) - limits::kPaceAhead.count();
}

void Terms::Pace::charge(engine::Time now, uint64_t amount) {
  const uint64_t pace = per_second.load(std::memory_order_relaxed);
  if (pace == 0) [[likely]]
    return;
  const double takes = static_cast<double>(amount) / static_cast<double>(pace) * kSecond;
  const auto nanoseconds =
      static_cast<int64_t>(std::min(takes, static_cast<double>(limits::kPaceMost.count())));
  int64_t end = ends.load(std::memory_order_relaxed);
  int64_t next = 0;
  do {
    next = std::max(end, now.time_since_epoch().count()) + nanoseconds;
  } while (!ends.compare_exchange_weak(end, next, std::memory_order_relaxed));
}

engine::Time Terms::ready_at() const {
  return engine::Time(engine::Duration(std::max(bytes_.ready_at(), operations_.ready_at())));
}

void Terms::charge(engine::Time now, uint64_t bytes, bool begins) {
  bytes_.charge(now, bytes);
  if (begins) operations_.charge(now, 1);
}

}  // namespace penstock::shards
