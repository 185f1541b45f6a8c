// Block maps as format 1 wrote them, for the conversion of old targets (docs/formats/store.md).
#pragma once

#include "block_map.h"

namespace penstock::store {

// As decode_map(), of a record of format 1.
Status decode_map_1(const MapKey& key, std::string_view record, BlockMap& map);

}  // namespace penstock::store
