// How a file's chunks map to chains: docs/decisions/0047-layouts-name-chains.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "penstock/base.h"
#include "penstock/meta/limits.h"

namespace penstock::meta {

// How a file's bytes survive the loss of a target. The numbers are part of the format; 1 is kept
// for k+m.
enum class Scheme : uint8_t { copies = 0 };
inline constexpr uint8_t kSchemes = 1;

// What kind of disks the chains are to have. The numbers are part of the format.
enum class Media : uint8_t { any = 0, flash = 1, disk = 2, memory = 3 };
inline constexpr uint8_t kMediaNumbers = 4;

// Kept per file, never per chunk. Which chain has a chunk is computed from it: inodes::Placement.
// A directory's layout says what the files that are made in it get. A value.
struct Layout {
  uint32_t chunk_bytes_log2 = 22;
  // The range of chains: the file's own, or the one that its list was drawn from.
  uint32_t chain_first = 0;
  uint32_t chain_count = 1;
  uint64_t seed = 0;  // in a request, and of directories: 0 lets settle_layout() choose one

  // Of directories and in requests: how many chains of the range a new file has; 0, or not fewer
  // than there are: all of them. Of files 0.
  uint32_t stripe = 0;
  uint32_t table = 0;  // the chain table; 0: the chains that the node has by itself
  Scheme scheme = Scheme::copies;
  uint8_t copies = 1;
  Media media = Media::any;
  // Of files: the chains, in the order of chunks, instead of the range. Not more than
  // kListedChainsMax, each once.
  std::vector<ChainId> chains = {};

  uint64_t chunk_bytes() const { return uint64_t{1} << chunk_bytes_log2; }
  friend bool operator==(const Layout&, const Layout&) = default;
};

// Whether every field is in its bounds. Says nothing about which chains there are.
bool layout_is_good(const Layout& layout);

// What a new file with this number gets of the layout of its directory, or of a request: a seed,
// and the list of its chains where it is to have fewer than the range. Changes nothing in the
// layout of a file.
void settle_layout(Layout& layout, InodeId file);

}  // namespace penstock::meta
