#include <algorithm>

#include "penstock/telemetry.h"

namespace penstock::telemetry {

const char* kind_name(Kind kind) {
  switch (kind) {
    case Kind::read:
      return "read";
    case Kind::write:
      return "write";
    case Kind::sync:
      return "sync";
    case Kind::fill:
      return "fill";
    case Kind::other:
      break;
  }
  return "other";
}

void OperationFigures::add_to(std::vector<OperationSample>* samples,
                              std::map<int, uint64_t>* errors) const {
  for (size_t kind = 0; kind < kKinds; ++kind) {
    for (size_t route = 0; route < kRoutes; ++route) {
      const Cell& cell = cells_[kind][route];
      LatencySample latency;
      latency.add(cell.latency);
      if (latency.count() == 0) continue;
      const auto same = [&](const OperationSample& one) {
        return one.kind == static_cast<Kind>(kind) && one.route == route;
      };
      auto sample = std::ranges::find_if(*samples, same);
      if (sample == samples->end()) {
        samples->push_back({static_cast<Kind>(kind), static_cast<uint32_t>(route), {}, 0});
        sample = samples->end() - 1;
      }
      sample->latency.add(latency);
      sample->bytes += cell.bytes.load(std::memory_order_relaxed);
    }
  }
  for (size_t error = 0; error < kErrors; ++error) {
    const uint64_t count = errors_[error].load(std::memory_order_relaxed);
    if (count > 0) (*errors)[static_cast<int>(error)] += count;
  }
}

}  // namespace penstock::telemetry
