#include "reclaim.h"

namespace penstock::store {

bool Reclaim::retire(std::vector<Extent>& extents) {
  waiting_.insert(waiting_.end(), extents.begin(), extents.end());
  extents.clear();
  return turn();
}

bool Reclaim::turn() {
  bool freed = false;
  while (reads_[current_ ^ 1] == 0) {
    for (const Extent& extent : draining_) allocator_.release(extent);
    freed |= !draining_.empty();
    draining_.clear();
    if (waiting_.empty()) return freed;
    draining_.swap(waiting_);
    current_ ^= 1;
  }
  return freed;
}

}  // namespace penstock::store
