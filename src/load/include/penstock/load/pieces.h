// Pieces: the runs of a load, cut into what one link carries at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "penstock/model.h"
#include "penstock/route.h"

namespace penstock::load {

// One range of a file; or, with `entries`, several small ones that are neighbours in memory, as one
// list.
struct Piece {
  uint32_t file = 0;
  uint64_t offset = 0;         // in the file, of a single range
  uint64_t memory_offset = 0;  // in the memory of the load
  uint64_t length = 0;         // in that memory, with the gaps between the ranges of a list
  uint64_t bytes = 0;          // of the file
  // In Pieces::entries, whose memory offsets count from that of the piece.
  size_t first_entry = 0;
  size_t entries = 0;
};

struct Pieces {
  std::vector<Piece> pieces;
  std::vector<route::ListEntry> entries;
  uint64_t bytes = 0;        // of all pieces
  uint64_t piece_bytes = 0;  // of the largest that there may be
};

// Runs are ordered by memory offset and do not overlap there. Every byte of them is in exactly one
// piece, and no byte of the memory between two pieces is in any. No piece is longer than
// `piece_bytes`, in the file or in memory.
Pieces cut(std::span<const model::Run> runs, uint64_t piece_bytes);

}  // namespace penstock::load
