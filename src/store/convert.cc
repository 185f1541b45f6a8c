#include "convert.h"

#include "load_maps.h"
#include "map_records.h"
#include "old_formats.h"

#include <set>

namespace penstock::store {

using engine::KvMode;
using engine::KvTransaction;

namespace {

// Some old maps of the database at a time, in the order of their keys.
struct OldBatch {
  std::vector<std::pair<OldMapKey, OldMap>> maps;
  std::string next;  // where the following batch begins; empty at the end
  std::string bad;   // which record could not be read

  Status read(KvTransaction& transaction, const std::string& begin, uint32_t format, ChainId chain);

 private:
  Status take(std::string_view name, std::string_view record, uint32_t format, ChainId chain);
};

// Records of format 1 are under keys of its form only.
Status decode(std::string_view name, std::string_view record, uint32_t format, OldMap& map) {
  const Status status = decode_old_map(name, record, map);
  const bool may_be_first = format == 1 && name.size() != kMapKeyBytes;
  if (status.code() != Code::wrong_version || !may_be_first) return status;
  return decode_old_map_1(name, record, map);
}

Status OldBatch::take(std::string_view name, std::string_view record, uint32_t format,
                      ChainId chain) {
  const auto key = decode_old_key(name, format, chain);
  if (!key) {
    bad = fmt::format("a key of {} bytes that no target has", name.size());
    return Code::corrupt;
  }
  OldMap map;
  const Status status = decode(name, record, format, map);
  if (!status.ok()) {
    bad = fmt::format("the block map of inode {} chunk {} at block {}", key->chunk.inode.value,
                      key->chunk.index, key->index * kOldMapBlocks);
    return status;
  }
  maps.emplace_back(*key, map);
  return Code::ok;
}

Status OldBatch::read(KvTransaction& transaction, const std::string& begin, uint32_t format,
                      ChainId chain) {
  maps.clear();
  next.clear();
  bad.clear();
  Status status;
  constexpr char kFirst[] = {kOldMapKeyType};
  constexpr char kAfter[] = {kOldMapKeyType + 1};
  const std::string_view from = begin.empty() ? std::string_view(kFirst, 1) : begin;
  TRY(transaction.scan(from, std::string_view(kAfter, 1),
                       [&](std::string_view name, std::string_view record) {
                         if (maps.size() == limits::kConvertMaps) {
                           next = name;
                           return false;
                         }
                         status = take(name, record, format, chain);
                         return status.ok();
                       }));
  return status;
}

Failure interrupted(const Core& core, Status status, const char* what) {
  return {status, fmt::format("{}: converting it to format {}: cannot write {}: {} (remove the "
                              "cause and start again: the conversion goes on where it was)",
                              core.config.directory, kFormatVersion, what, status.name())};
}

// All names that a part of the map may have.
std::vector<std::string> names_of(const OldMapKey& part, uint32_t format, ChainId old_chain) {
  std::vector<std::string> names = {encode_old_key(part, 3)};
  if (format < 3 && part.chain == old_chain) names.push_back(encode_old_key(part, format));
  return names;
}

// The map as old records have it, which go.
Status collect(KvTransaction& transaction, const MapKey& key, uint32_t format, ChainId old_chain,
               BlockMap& map) {
  map.reset();
  for (uint32_t i = 0; i < kOldMaps; ++i) {
    const OldMapKey part{key.chain, key.chunk, key.index * kOldMaps + i};
    for (const std::string& name : names_of(part, format, old_chain)) {
      TRY_ASSIGN(const auto record, transaction.get(name));
      if (!record) continue;
      OldMap old;
      TRY(decode(name, *record, format, old));
      merge(old, part.index, map);
      transaction.erase(name);
    }
  }
  return Code::ok;
}

// Each map is rewritten whole in one transaction.
Status rewrite(Core& core, const std::set<MapKey>& keys, uint32_t format,
               std::vector<std::pair<MapKey, BlockMap>>& maps) {
  return core.kv.run(KvMode::write, [&](KvTransaction& transaction) -> Status {
    maps.clear();
    for (const MapKey& key : keys) {
      BlockMap map;
      TRY(collect(transaction, key, format, core.config.old_chain, map));
      if (map.empty()) continue;
      write_map(transaction, key, map);
      maps.emplace_back(key, map);
    }
    return Code::ok;
  });
}

// What an earlier attempt has converted has no old record any more.
Status rewrite_all(Core& core, uint32_t format, uint64_t& count) {
  OldBatch batch;
  std::vector<std::pair<MapKey, BlockMap>> maps;
  std::string begin;
  do {
    TRY(core.kv.run(KvMode::read, [&](KvTransaction& transaction) -> Status {
      return batch.read(transaction, begin, format, core.config.old_chain);
    }));
    std::set<MapKey> keys;
    for (const auto& [key, map] : batch.maps) keys.insert(key.of_today());
    TRY(rewrite(core, keys, format, maps));
    for (const auto& [key, map] : maps) adopt(core, key, map);
    count += maps.size();
    begin = batch.next;
  } while (!begin.empty());
  return Code::ok;
}

}  // namespace

Outcome<bool> check_old_maps(Core& core, uint32_t format) {
  OldBatch batch;
  std::string begin;
  do {
    const Status status = core.kv.run(KvMode::read, [&](KvTransaction& transaction) -> Status {
      return batch.read(transaction, begin, format, core.config.old_chain);
    });
    if (!status.ok()) return map_failure(core, status, batch.bad);
    for (const auto& [key, old] : batch.maps) {
      BlockMap map;
      merge(old, key.index, map);
      if (!take_blocks(core, map)) return blocks_failure(core, key.chunk);
    }
    begin = batch.next;
  } while (!begin.empty());
  return true;
}

Outcome<bool> expect_no_old_maps(Core& core) {
  constexpr char kFirst[] = {kOldMapKeyType};
  constexpr char kAfter[] = {kOldMapKeyType + 1};
  bool any = false;
  const Status status = core.kv.run(KvMode::read, [&](KvTransaction& transaction) {
    return transaction.scan({kFirst, 1}, {kAfter, 1}, [&](std::string_view, std::string_view) {
      any = true;
      return false;
    });
  });
  if (!status.ok()) return map_failure(core, status, "");
  if (any) return map_failure(core, Code::corrupt, "a block map of an old format");
  return true;
}

// The superblock comes first: from then on programs that know only an old format refuse the target
// for its version, and do not take converted maps for damage. The identity comes last, in a commit
// of its own that makes everything before it durable, so that nothing of an old format is left
// once it says so.
Outcome<bool> convert_target(Core& core, uint32_t format) {
  const std::string path = core.config.directory + "/" + kSuperblockName;
  Status status = core.disk.replace_file(path, encode_superblock(core.identity));
  if (!status.ok()) return interrupted(core, status, "its superblock");
  uint64_t count = 0;
  status = rewrite_all(core, format, count);
  if (!status.ok()) return interrupted(core, status, "its block maps");
  status = core.kv.run(KvMode::write_durable, [&](KvTransaction& transaction) -> Status {
    transaction.put(kIdentityKey, encode_identity(core.identity));
    return Code::ok;
  });
  if (!status.ok()) return interrupted(core, status, "its identity");
  log::info("store: {}: {} block maps converted to format {}", core.config.directory, count,
            kFormatVersion);
  return true;
}

}  // namespace penstock::store
