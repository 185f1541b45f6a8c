#include "refusals.h"

#include "limits.h"

#include <fmt/format.h>

namespace penstock::tcp::internal {

void Refusals::note(std::string_view cause, std::string_view text, engine::Time now) {
  count_.add();
  uint64_t since = 0;
  {
    const std::lock_guard lock(mutex_);
    auto found = causes_.find(cause);
    // What strangers can bring about has a bound, whatever they come up with.
    if (found == causes_.end() && causes_.size() >= limits::kCausesMax) {
      cause = "other";
      found = causes_.find(cause);
    }
    const bool is_new = found == causes_.end();
    if (is_new) found = causes_.emplace(cause, Cause{}).first;
    Cause& known = found->second;
    if (!is_new && now - known.logged_at < limits::kSameCausePause) {
      ++known.since;
      return;
    }
    known.logged_at = now;
    since = std::exchange(known.since, 0);
  }
  log::warning("tcp: {}: {}{}", what_, text,
               since == 0 ? "" : fmt::format(" ({} more for this since it was last said)", since));
}

}  // namespace penstock::tcp::internal
