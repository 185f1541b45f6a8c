#include "load_maps.h"

#include "map_records.h"

namespace penstock::store {

using engine::KvMode;
using engine::KvTransaction;

namespace {

// Records of maps, some at a time.
struct MapBatch {
  struct One {
    MapKey key;
    MapPlaces places;
  };
  std::vector<One> maps;
  std::vector<std::pair<MapKey, BlockMap>> wide;
  std::string next;  // where the following batch begins; empty at the end
  std::string bad;   // which record could not be read

  Status read(KvTransaction& transaction, const std::string& begin);

 private:
  Status take(std::string_view name, std::string_view record);
  Status told(const MapKey& key, Status status);
  Status read_wide(KvTransaction& transaction);
};

Status MapBatch::told(const MapKey& key, Status status) {
  if (!status.ok()) {
    bad = fmt::format("the block map of inode {} chunk {} at block {}", key.chunk.inode.value,
                      key.chunk.index, key.index * limits::kMapBlocks);
  }
  return status;
}

Status MapBatch::take(std::string_view name, std::string_view record) {
  const auto key = decode_key(name);
  if (!key) {
    bad = fmt::format("a key of {} bytes that no target has", name.size());
    return Code::corrupt;
  }
  One& one = maps.emplace_back();
  one.key = *key;
  return told(*key, decode_places(*key, record, one.places));
}

// Those whose quarters say where their blocks are.
Status MapBatch::read_wide(KvTransaction& transaction) {
  for (const One& one : maps) {
    if (!one.places.wide) continue;
    wide.emplace_back(one.key, BlockMap());
    TRY(told(one.key, read_maps(transaction, one.key, {&wide.back().second, 1})));
  }
  return Code::ok;
}

Status MapBatch::read(KvTransaction& transaction, const std::string& begin) {
  maps.clear();
  wide.clear();
  next.clear();
  bad.clear();
  Status status;
  constexpr char kFirst[] = {kMapKeyType};
  constexpr char kAfter[] = {kMapKeyType + 1};
  const std::string_view from = begin.empty() ? std::string_view(kFirst, 1) : begin;
  TRY(transaction.scan(from, std::string_view(kAfter, 1),
                       [&](std::string_view name, std::string_view record) {
                         if (maps.size() == limits::kLoadRecords) {
                           next = name;
                           return false;
                         }
                         status = take(name, record);
                         return status.ok();
                       }));
  TRY(status);
  return read_wide(transaction);
}

void count(Core& core, const MapKey& key, uint32_t mapped, uint32_t scattered) {
  core.mapped_blocks += mapped;
  if (key.index == 0) ++core.chunks;
  core.defragmenter.note(0, scattered);
}

// As adopt(), of a map that is not wide. So few runs are hardly ever scattered.
bool take(Core& core, const MapKey& key, const MapPlaces& places) {
  const std::span<const MapRun> runs(places.runs.data(), places.count);
  uint32_t mapped = 0;
  for (const MapRun& run : runs) {
    if (!core.allocator.take({run.place, run.count})) return false;
    mapped += run.count;
  }
  uint32_t scattered = 0;
  if (places.count > core.config.defragment.breaks_min) {
    BlockMap map;
    for (const MapRun& run : runs) {
      for (uint32_t b = 0; b < run.count; ++b) map.blocks[run.first + b] = {run.place + b, 0};
    }
    scattered = core.defragmenter.measure(map);
  }
  core.index.runs().put(key, runs, true);
  count(core, key, mapped, scattered);
  return true;
}

Outcome<bool> take_all(Core& core, const MapBatch& batch) {
  for (const MapBatch::One& one : batch.maps) {
    if (one.places.wide || take(core, one.key, one.places)) continue;
    return blocks_failure(core, one.key.chunk);
  }
  for (const auto& [key, map] : batch.wide) {
    if (!take_blocks(core, map)) return blocks_failure(core, key.chunk);
    adopt(core, key, map);
  }
  return true;
}

}  // namespace

Failure map_failure(const Core& core, Status status, const std::string& bad) {
  const std::string what = bad.empty() ? std::string(status.name()) : bad;
  const char* const told = status.code() == Code::wrong_version
                               ? "{}: {} was written by another version of this program, most "
                                 "likely a newer one (use that one)"
                               : "{}: its database is damaged: {}: {} (restore it from a backup)";
  return {status, fmt::format(fmt::runtime(told), core.config.directory, what, status.name())};
}

Failure blocks_failure(const Core& core, const ChunkId& chunk) {
  return {Code::corrupt,
          fmt::format("{}: the block map of inode {} chunk {} names blocks that are used twice or "
                      "lie beyond the data files (restore database and data files from one backup)",
                      core.config.directory, chunk.inode.value, chunk.index)};
}

bool take_blocks(Core& core, const BlockMap& map) {
  bool good = true;
  for_each_run(map, [&](const MapRun& run) {
    good = good && core.allocator.take({run.place, run.count});
  });
  return good;
}

void adopt(Core& core, const MapKey& key, const BlockMap& map) {
  core.index.runs().put(key, map);
  count(core, key, map.mapped(), core.defragmenter.measure(map));
}

Outcome<bool> load_maps(Core& core) {
  MapBatch batch;
  std::string begin;
  do {
    const Status status = core.kv.run(
        KvMode::read, [&](KvTransaction& transaction) { return batch.read(transaction, begin); });
    if (!status.ok()) return map_failure(core, status, batch.bad);
    TRY(take_all(core, batch));
    begin = batch.next;
  } while (!begin.empty());
  return true;
}

}  // namespace penstock::store
