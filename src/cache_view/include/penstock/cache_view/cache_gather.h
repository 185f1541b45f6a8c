// Ranges of files on their way from the node cache straight to a GPU, which verifies each block.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "penstock/cache_view/cache_map.h"
#include "penstock/engine.h"

namespace penstock::cache_view {

// What is added goes to one allocation of one GPU. One thread.
class CacheGather {
 public:
  // The view stays until run() has returned.
  explicit CacheGather(CacheView& view) : view_(view) {}

  // Of the bytes from `offset` on, where a block begins, as many as `length` and the file's end
  // let; returns how many those are. Nothing if they are not all here, where GPUs reach them.
  std::optional<uint64_t> add(InodeId inode, uint64_t offset, uint64_t length,
                              std::byte* destination, CacheView::Hits* hits);
  // Copies what was added, by kernels. `run` does one operation and waits for its end.
  template <typename Run>
  void run(const engine::DeviceSpan& destination, Run&& run);
  // How the range that was added as number `range` went: `corrupt` where the agent gave its memory
  // to something else meanwhile.
  Status status(size_t range) const { return ranges_[range].status; }

 private:
  struct Range {
    size_t pieces_end = 0;  // its pieces lie before those of the next one
    Status status;
  };
  bool add(const arena::Found& found, uint32_t begin, uint32_t end, std::byte* destination);
  void ended(size_t first, size_t last, Status status);

  CacheView& view_;
  std::vector<engine::CopyPiece> pieces_;
  std::vector<Range> ranges_;
};

template <typename Run>
void CacheGather::run(const engine::DeviceSpan& destination, Run&& run) {
  for (size_t first = 0; first < pieces_.size(); first += engine::kCopyPiecesMax) {
    const size_t count = std::min<size_t>(engine::kCopyPiecesMax, pieces_.size() - first);
    engine::CopyOp copy;
    copy.device = destination.device;
    copy.means = engine::CopyMeans::kernel;
    copy.pieces = std::span(pieces_).subspan(first, count);
    copy.allocation = destination.allocation;
    run(copy);
    if (!copy.status.ok()) ended(first, first + count, copy.status);
  }
  // What an agent that is gone has left may be out of date.
  if (view_.ended()) ended(0, pieces_.size(), Code::corrupt);
}

}  // namespace penstock::cache_view
