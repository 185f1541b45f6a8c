#include "penstock/load/pieces.h"

#include "limits.h"

#include <algorithm>

namespace penstock::load {

namespace {

bool is_small(const model::Run& run) {
  return run.length <= limits::kSmallRunBytes;
}

// Cuts at multiples of the piece's size in the file: whole blocks, and the same pieces for all that
// read the file.
void add_large(const model::Run& run, Pieces* out) {
  for (uint64_t done = 0; done < run.length;) {
    const uint64_t offset = run.offset + done;
    const uint64_t step = std::min(run.length - done, out->piece_bytes - offset % out->piece_bytes);
    out->pieces.push_back({.file = run.file,
                           .offset = offset,
                           .memory_offset = run.memory_offset + done,
                           .length = step,
                           .bytes = step});
    done += step;
  }
}

// How many of the runs, from the first on, make one list.
size_t count_for_list(std::span<const model::Run> runs, uint64_t piece_bytes) {
  const model::Run& first = runs.front();
  size_t count = 1;
  while (count < runs.size() && count < limits::kEntriesPerPiece) {
    const model::Run& next = runs[count];
    const bool fits = next.memory_offset + next.length - first.memory_offset <= piece_bytes;
    if (next.file != first.file || !is_small(next) || !fits) break;
    ++count;
  }
  return count;
}

void add_list(std::span<const model::Run> runs, Pieces* out) {
  const model::Run& first = runs.front();
  const model::Run& last = runs.back();
  Piece piece{.file = first.file,
              .offset = first.offset,
              .memory_offset = first.memory_offset,
              .length = last.memory_offset + last.length - first.memory_offset,
              .first_entry = out->entries.size(),
              .entries = runs.size()};
  for (const model::Run& run : runs) {
    piece.bytes += run.length;
    out->entries.push_back({.offset = run.offset,
                            .memory_offset = run.memory_offset - first.memory_offset,
                            .length = static_cast<uint32_t>(run.length)});
  }
  out->pieces.push_back(piece);
}

}  // namespace

Pieces cut(std::span<const model::Run> runs, uint64_t piece_bytes) {
  Pieces out;
  out.piece_bytes = piece_bytes;
  while (!runs.empty()) {
    const size_t count = is_small(runs.front()) ? count_for_list(runs, piece_bytes) : 1;
    if (count == 1) {
      add_large(runs.front(), &out);
    } else {
      add_list(runs.first(count), &out);
    }
    for (const model::Run& run : runs.first(count)) out.bytes += run.length;
    runs = runs.subspan(count);
  }
  return out;
}

}  // namespace penstock::load
