#include "penstock/cache_view/cache_gather.h"

#include <algorithm>

namespace penstock::cache_view {

using arena::kBlockBytes;
using arena::kExtentBytes;

std::optional<uint64_t> CacheGather::add(InodeId inode, uint64_t offset, uint64_t length,
                                         std::byte* destination, CacheView::Hits* hits) {
  DASSERT(offset % kBlockBytes == 0);
  const size_t before = pieces_.size();
  uint64_t done = 0;
  while (done < length) {
    const uint64_t at = offset + done;
    const arena::Extent extent{inode, static_cast<uint32_t>(at / kExtentBytes)};
    const auto begin = static_cast<uint32_t>(at % kExtentBytes);
    const arena::Found found = view_.reader().find(extent);
    const auto end = static_cast<uint32_t>(std::min<uint64_t>(found.valid, begin + length - done));
    if (!found || !view_.is_pinned(found.slot) || !add(found, begin, end, destination + done)) {
      pieces_.resize(before);
      return std::nullopt;
    }
    view_.note_hit(found.slot, hits);
    done += end - std::min(begin, end);
    if (found.valid < kExtentBytes) break;
  }
  ranges_.push_back({pieces_.size(), {}});
  return done;
}

// False when the agent has given the extent's slot to another.
bool CacheGather::add(const arena::Found& found, uint32_t begin, uint32_t end,
                      std::byte* destination) {
  for (uint32_t first = begin; first < end; first += kBlockBytes) {
    const uint32_t block_end = std::min(first + kBlockBytes, found.valid);
    const uint32_t last = std::min(block_end, end);
    engine::CopyPiece& piece = pieces_.emplace_back();
    piece.source = found.data + first;
    piece.destination = destination + (first - begin);
    piece.length = last - first;
    piece.crc32c = found.checksums->block[first / kBlockBytes];
    piece.checked = 1;
    if (last == block_end) continue;
    // Of a part of a block there is no checksum: it is made here, of bytes that are right.
    if (crc32c({piece.source, block_end - first}) != piece.crc32c) return false;
    piece.crc32c = crc32c({piece.source, last - first});
  }
  return view_.reader().still(found.ticket);
}

// Whatever has a piece among [first, last).
void CacheGather::ended(size_t first, size_t last, Status status) {
  size_t begin = 0;
  for (Range& range : ranges_) {
    if (begin < last && range.pieces_end > first && range.status.ok()) range.status = status;
    begin = range.pieces_end;
  }
}

}  // namespace penstock::cache_view
