// The block maps of a target as its database has them.
#pragma once

#include "map_records.h"

#include <map>
#include <optional>
#include <string>

namespace penstock::store {

// All of them; nullopt if one cannot be read, or a record of a quarter has no map.
inline std::optional<std::map<MapKey, BlockMap>> stored_maps(
    const std::map<std::string, std::string>& content) {
  std::map<MapKey, BlockMap> maps;
  std::map<MapKey, bool> wide;
  for (const auto& [name, record] : content) {
    const auto key = decode_key(name);
    if (key && !decode_map(*key, record, maps[*key], wide[*key]).ok()) return std::nullopt;
  }
  for (const auto& [name, record] : content) {
    const auto key = decode_quarter_key(name);
    if (!key) continue;
    const auto map = maps.find(key->map);
    if (map == maps.end()) return std::nullopt;
    if (!decode_quarter(key->map, key->quarter, record, wide[key->map], map->second).ok()) {
      return std::nullopt;
    }
  }
  return maps;
}

}  // namespace penstock::store
