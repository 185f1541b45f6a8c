#include "figures.h"

#include <array>
#include <atomic>
#include <map>
#include <vector>

#include "penstock/fuse.h"

namespace penstock::fuse {
namespace {

// Linux's error numbers end at 133.
constexpr size_t kErrors = 134;

std::array<std::atomic<uint64_t>, kErrors>& errors() {
  static std::array<std::atomic<uint64_t>, kErrors> counts{};
  return counts;
}

// Filled while the table of operations is made, which comes before any request and any look.
std::vector<RequestFigures*>& all_figures() {
  static auto* const all = new std::vector<RequestFigures*>;
  return *all;
}

// Published by the last name; pairs with the acquire in requests_served().
std::atomic<size_t>& named() {
  static std::atomic<size_t> count{0};
  return count;
}

}  // namespace

void name_figures(RequestFigures& figures, const char* name) {
  constexpr size_t kOperationsMax = 64;
  if (all_figures().empty()) all_figures().reserve(kOperationsMax);
  ASSERT(all_figures().size() < kOperationsMax);
  figures.name = name;
  all_figures().push_back(&figures);
  named().store(all_figures().size(), std::memory_order_release);
}

void count_error(int error) {
  if (error <= 0) return;
  errors()[static_cast<size_t>(error) % kErrors].fetch_add(1, std::memory_order_relaxed);
}

RequestsServed requests_served() {
  RequestsServed served;
  const size_t count = named().load(std::memory_order_acquire);
  for (size_t i = 0; i < count; ++i) {
    const RequestFigures& figures = *all_figures()[i];
    telemetry::LatencySample sample;
    sample.add(figures.latency);
    if (sample.count() > 0) served.operations.emplace_back(figures.name, sample);
  }
  for (size_t error = 0; error < kErrors; ++error) {
    const uint64_t times = errors()[error].load(std::memory_order_relaxed);
    if (times > 0) served.errors[static_cast<int>(error)] = times;
  }
  return served;
}

}  // namespace penstock::fuse
