#include "penstock/engine/repeated_log.h"

#include "limits.h"

#include <algorithm>
#include <fmt/format.h>

namespace penstock::engine {

void RepeatedLog::warning(const std::string& cause, const std::string& message) {
  const Time now = clock_.now();
  uint64_t unsaid = 0;
  {
    const std::lock_guard lock(mutex_);
    // Causes that were not met for a minute make room; one that still finds none shares a line with
    // the others like it.
    if (causes_.size() >= limits::kLogCausesMax && !causes_.contains(cause)) {
      std::erase_if(
          causes_, [&](const auto& entry) { return now - entry.second.said >= limits::kLogEvery; });
    }
    const bool is_full = causes_.size() >= limits::kLogCausesMax && !causes_.contains(cause);
    auto [found, is_new] = causes_.try_emplace(is_full ? std::string() : cause, Cause{now, 0});
    if (!is_new && now - found->second.said < limits::kLogEvery) {
      ++found->second.unsaid;
      return;
    }
    ASSERT(causes_.size() <= limits::kLogCausesMax + 1);
    unsaid = std::exchange(found->second.unsaid, 0);
    found->second.said = now;
  }
  if (unsaid == 0) return write_(log::Level::warning, message);
  write_(log::Level::warning,
         fmt::format("{} ({} more like it since it was last said)", message, unsaid));
}

}  // namespace penstock::engine
