// A whole target as an old format would have written it.
#pragma once

#include "old_format.h"
#include "rig.h"
#include "stored_maps.h"

namespace penstock::store {

inline void set_superblock(Rig& rig, const std::string& text) {
  sim::SimLoop loop(rig.world);
  sim::SimDisk disk(rig.platter, loop);
  ASSERT_TRUE(disk.replace_file("/target/target", text).ok());
}

inline std::string encode_as(uint32_t format, std::string_view key, const OldMap& map) {
  return format == 1 ? encode_old_map_1(key, map) : encode_old_map(key, map);
}

// The map as an old format has it, under old keys.
inline void put_old(engine::KvTransaction& t, const MapKey& key, const BlockMap& map,
                    uint32_t format) {
  for (uint32_t part = 0; part < kOldMaps; ++part) {
    const OldMap old = split(map, part);
    if (old.empty()) continue;
    const std::string name =
        encode_old_key({key.chain, key.chunk, key.index * kOldMaps + part}, format);
    t.put(name, encode_as(format, name, old));
  }
}

// Rewrites what is stored of a target that no process has; `more_maps` of no content that matters
// come in addition.
inline void write_as_old(Rig& rig, const Identity& identity, uint32_t format, uint32_t more_maps) {
  set_superblock(rig, encode_superblock(identity, format));
  const auto records = rig.records.content();
  const auto maps = stored_maps(records);
  ASSERT_TRUE(maps);
  sim::SimKv kv(rig.records);
  EXPECT_TRUE(kv.run(engine::KvMode::write_durable, [&](engine::KvTransaction& t) -> Status {
                  for (const auto& [name, record] : records) {
                    if (decode_key(name) || decode_quarter_key(name)) t.erase(name);
                  }
                  for (const auto& [key, map] : *maps) {
                    put_old(t, key, map, format);
                  }
                  BlockMap holes;
                  holes.valid_end = 99;
                  for (uint32_t i = 0; i < more_maps; ++i) {
                    put_old(t, {ChainId{}, {InodeId(100), i}, 0}, holes, format);
                  }
                  t.put(kIdentityKey, encode_identity(identity, format));
                  return Code::ok;
                }).ok());
}

}  // namespace penstock::store
