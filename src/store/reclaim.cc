#include "reclaim.h"

namespace penstock::store {

bool Reclaim::retire(std::vector<BlockRun>& runs) {
  waiting_.insert(waiting_.end(), runs.begin(), runs.end());
  runs.clear();
  return switch_epochs();
}

bool Reclaim::switch_epochs() {
  bool freed = false;
  while (reads_[current_ ^ 1] == 0) {
    for (const BlockRun& run : draining_) allocator_.release(run);
    freed |= !draining_.empty();
    draining_.clear();
    if (waiting_.empty()) return freed;
    draining_.swap(waiting_);
    current_ ^= 1;
  }
  return freed;
}

}  // namespace penstock::store
