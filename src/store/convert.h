// The way from an old format to this one.
#pragma once

#include "core.h"

#include <string>
#include <utility>
#include <vector>

namespace penstock::store {

// Some block maps of the database at a time.
struct MapBatch {
  std::vector<std::pair<MapKey, BlockMap>> maps;
  std::string next;  // where the following batch begins; empty at the end
  std::string bad;   // which record could not be read

  // Up to `count` maps from the key `begin` on. With the old `format`, records of both are taken: a
  // conversion may have been interrupted.
  Status read(engine::KvTransaction& transaction, const std::string& begin, uint32_t format,
              size_t count);
};

// Brings a target whose identity is of the old format to this one. All of its maps were read before
// and are good, so nothing is left to refuse but a disk that is full or fails; a crash at any
// moment leaves what the next call goes on from. Blocks.
Outcome<bool> convert_target(Core& core);

}  // namespace penstock::store
