// What an opening has brought back from the log and not committed yet, over what the database has.
#pragma once

#include "block_map.h"

#include <map>
#include <span>
#include <string>
#include <vector>

#include "penstock/engine.h"
#include "penstock/store.h"

namespace penstock::store {

class Replayed {
 public:
  // `format`: of the database, which is converted later if it is an old one.
  Replayed(engine::Kv& kv, uint32_t format) : kv_(kv), format_(format) {}

  // A block map, to be changed.
  Result<BlockMap*> map_of(const MapKey& key);
  // The maps of a chunk that are not empty, in order. Valid until clear().
  Result<std::vector<std::pair<uint32_t, BlockMap*>>> maps_of(const ChainChunk& at);
  // Another record; empty if there is none.
  Result<std::string> get(const std::string& key);
  // An empty value: the record goes.
  void put(const std::string& key, std::string value) { records_[key] = std::move(value); }

  size_t size() const { return maps_.size() + records_.size(); }
  void write(engine::KvTransaction& transaction) const;
  // All of it is in the database.
  void clear();

 private:
  bool is_old() const;
  Status read_maps(engine::KvTransaction& transaction, const MapKey& first,
                   std::span<BlockMap> found) const;
  void write_old(engine::KvTransaction& transaction, const MapKey& key, const BlockMap& map) const;

  engine::Kv& kv_;
  const uint32_t format_;
  std::map<MapKey, BlockMap> maps_;
  std::map<std::string, std::string> records_;
};

}  // namespace penstock::store
