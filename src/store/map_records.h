// Block maps in the database: the record of a map and those of its quarters, together.
#pragma once

#include "block_map.h"

#include <functional>
#include <span>

#include "penstock/engine.h"

namespace penstock::store {

// Reads the maps [first, first + found.size()) of a chunk whole, checksums included; empty where
// there is none. Corrupt or wrong_version as decode_map(), also where a map and its quarters do not
// belong together. `first.index` + the count is at most kChunkMapsMax.
Status read_maps(engine::KvTransaction& transaction, const MapKey& first,
                 std::span<BlockMap> found);

// What the record of a map says, and where its blocks are in any case; checksums are 0, unless the
// map is wide.
Status read_places(engine::KvTransaction& transaction, const MapKey& key, std::string_view record,
                   BlockMap& map);

// Visits up to `limit` maps whose keys lie in [begin, end), in order, with what read_places() fills
// in.
using MapVisitor = std::function<void(const MapKey& key, const BlockMap& map)>;
Status scan_places(engine::KvTransaction& transaction, std::string_view begin, std::string_view end,
                   size_t limit, const MapVisitor& visit);

// Writes a map and all of its quarters, or removes them if it is empty.
void write_map(engine::KvTransaction& transaction, const MapKey& key, const BlockMap& map);

}  // namespace penstock::store
