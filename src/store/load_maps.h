// What an opening learns of all block maps: which blocks are in use, and where each map's are.
#pragma once

#include "core.h"

namespace penstock::store {

// Reads the records of all maps, in the order of their keys, and takes their blocks. Blocks the
// calling thread; a message says what is damaged.
Outcome<bool> load_maps(Core& core);

// Counts a committed map whose blocks are taken already, and keeps its places in memory.
void adopt(Core& core, const MapKey& key, const BlockMap& map);

// What is to be told of a record that cannot be used.
Failure map_failure(const Core& core, Status status, const std::string& bad);
Failure blocks_failure(const Core& core, const ChunkId& chunk);

// Takes the blocks of a map; false if one is in use, or beyond the data files.
bool take_blocks(Core& core, const BlockMap& map);

}  // namespace penstock::store
