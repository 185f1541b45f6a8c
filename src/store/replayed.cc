#include "replayed.h"

#include "map_records.h"
#include "old_formats.h"
#include "superblock.h"

namespace penstock::store {

using engine::KvMode;
using engine::KvTransaction;

bool Replayed::is_old() const {
  return format_ < kFormatVersion;
}

Status Replayed::read_maps(KvTransaction& transaction, const MapKey& first,
                           std::span<BlockMap> found) const {
  if (!is_old()) return store::read_maps(transaction, first, found);
  for (uint32_t i = 0; i < found.size(); ++i) {
    found[i].reset();
    for (uint32_t part = 0; part < kOldMaps; ++part) {
      const OldMapKey key{first.chain, first.chunk, (first.index + i) * kOldMaps + part};
      const std::string name = encode_old_key(key, format_);
      TRY_ASSIGN(const auto record, transaction.get(name));
      if (!record) continue;
      OldMap old;
      TRY(decode_old_map(name, *record, old));
      merge(old, part, found[i]);
    }
  }
  return Code::ok;
}

Result<BlockMap*> Replayed::map_of(const MapKey& key) {
  const auto found = maps_.find(key);
  if (found != maps_.end()) return &found->second;
  BlockMap map;
  TRY(kv_.run(KvMode::read, [&](KvTransaction& transaction) {
    return read_maps(transaction, key, {&map, 1});
  }));
  return &maps_.emplace(key, map).first->second;
}

Result<std::vector<std::pair<uint32_t, BlockMap*>>> Replayed::maps_of(const ChainChunk& at) {
  const MapKey first{at.chain, at.chunk, 0};
  std::vector<BlockMap> stored(limits::kChunkMapsMax);
  TRY(kv_.run(KvMode::read,
              [&](KvTransaction& transaction) { return read_maps(transaction, first, stored); }));
  for (uint32_t index = 0; index < stored.size(); ++index) {
    // What is here already is newer.
    if (!stored[index].empty()) maps_.try_emplace({at.chain, at.chunk, index}, stored[index]);
  }
  std::vector<std::pair<uint32_t, BlockMap*>> all;
  const MapKey last{at.chain, at.chunk, limits::kChunkMapsMax};
  for (auto at_map = maps_.lower_bound(first); at_map != maps_.end() && at_map->first < last;
       ++at_map) {
    if (!at_map->second.empty()) all.emplace_back(at_map->first.index, &at_map->second);
  }
  return all;
}

Result<std::string> Replayed::get(const std::string& key) {
  const auto found = records_.find(key);
  if (found != records_.end()) return found->second;
  std::string value;
  TRY(kv_.run(KvMode::read, [&](KvTransaction& transaction) -> Status {
    TRY_ASSIGN(const auto record, transaction.get(key));
    value = record.value_or("");
    return Code::ok;
  }));
  return value;
}

void Replayed::write_old(KvTransaction& transaction, const MapKey& key, const BlockMap& map) const {
  for (uint32_t part = 0; part < kOldMaps; ++part) {
    const std::string name =
        encode_old_key({key.chain, key.chunk, key.index * kOldMaps + part}, format_);
    const OldMap old = split(map, part);
    if (old.empty()) {
      transaction.erase(name);
    } else {
      transaction.put(name, encode_old_map(name, old));
    }
  }
}

void Replayed::write(KvTransaction& transaction) const {
  for (const auto& [key, map] : maps_) {
    if (is_old()) {
      write_old(transaction, key, map);
    } else {
      write_map(transaction, key, map);
    }
  }
  for (const auto& [key, value] : records_) {
    if (value.empty()) {
      transaction.erase(key);
    } else {
      transaction.put(key, value);
    }
  }
}

void Replayed::clear() {
  maps_.clear();
  records_.clear();
}

}  // namespace penstock::store
