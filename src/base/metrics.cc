#include "penstock/base/metrics.h"

#include <algorithm>
#include <map>
#include <mutex>

namespace penstock::metrics {
namespace {

struct Registry {
  std::mutex mutex;
  std::vector<const Counter*> counters;
};

Registry& registry() {
  static Registry* instance = new Registry;  // outlives every counter, also static ones
  return *instance;
}

}  // namespace

Counter::Counter(std::string_view name) : name_(name) {
  std::lock_guard lock(registry().mutex);
  registry().counters.push_back(this);
}

Counter::~Counter() {
  std::lock_guard lock(registry().mutex);
  std::erase(registry().counters, this);
}

std::vector<Sample> snapshot() {
  std::map<std::string, uint64_t> sums;
  {
    std::lock_guard lock(registry().mutex);
    for (const Counter* counter : registry().counters) sums[counter->name()] += counter->value();
  }
  std::vector<Sample> samples;
  samples.reserve(sums.size());
  for (auto& [name, value] : sums) samples.push_back({name, value});
  return samples;
}

}  // namespace penstock::metrics
