// When blocks that are no longer mapped may be used again: not before every read that may still use
// them has ended.
//
// Reads belong to one of two epochs, the current one and the one before. Blocks that are retired
// wait until the other epoch has no reads any more; then the two epochs are exchanged, and once the
// reads that began before that have ended, the blocks are free.
#pragma once

#include "allocator.h"

#include <array>
#include <vector>

namespace penstock::store {

class Reclaim {
 public:
  explicit Reclaim(BlockAllocator& allocator) : allocator_(allocator) {}

  // A read takes its snapshot of block maps now; leave() with the result when it needs them no
  // more.
  uint8_t enter() {
    ++reads_[current_];
    return current_;
  }
  // True if blocks became free.
  bool leave(uint8_t epoch) {
    ASSERT(reads_[epoch] > 0);
    if (--reads_[epoch] == 0 && epoch != current_ && !draining_.empty()) return switch_epochs();
    return false;
  }
  // No map that a later read sees holds these blocks. Empties `runs`. True if blocks became
  // free.
  bool retire(std::vector<BlockRun>& runs);

  // Whether a read uses blocks.
  bool in_use() const { return reads_[0] != 0 || reads_[1] != 0; }
  // Whether blocks wait here to become free.
  bool pending() const { return !draining_.empty() || !waiting_.empty(); }

 private:
  bool switch_epochs();

  BlockAllocator& allocator_;
  uint8_t current_ = 0;
  std::array<uint32_t, 2> reads_{};
  std::vector<BlockRun> draining_;  // free when the epoch that is not current has no reads
  std::vector<BlockRun> waiting_;   // retired since
};

}  // namespace penstock::store
