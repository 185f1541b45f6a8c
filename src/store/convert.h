// The way from old formats to this one.
#pragma once

#include "core.h"

#include <string>
#include <utility>
#include <vector>

namespace penstock::store {

// Some block maps of the database at a time.
struct MapBatch {
  struct Map {
    MapKey key;
    BlockMap map;
    bool old_key = false;  // its key is of the form that old formats have
  };
  std::vector<Map> maps;
  std::string next;  // where the following batch begins; empty at the end
  std::string bad;   // which record could not be read

  // Up to `count` maps from the key `begin` on. With an old `format`, keys and records of it and of
  // later ones are taken: a conversion may have been interrupted. Maps without a chain are in
  // `old_chain`.
  Status read(engine::KvTransaction& transaction, const std::string& begin, uint32_t format,
              ChainId old_chain, size_t count);

 private:
  bool visit(std::string_view key, std::string_view record, uint32_t format, ChainId old_chain,
             Status& status);
};

// Brings a target whose identity is of an old format to this one. All of its maps were read before
// and are good, so nothing is left to refuse but a disk that is full or fails; a crash at any
// moment leaves what the next call goes on from. Blocks.
Outcome<bool> convert_target(Core& core, uint32_t format);

}  // namespace penstock::store
