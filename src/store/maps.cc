#include "maps.h"

#include "core.h"
#include "map_records.h"

#include <algorithm>

namespace penstock::store {

Maps::Maps(Core& core) : core_(core), loads_(limits::kLoads) {}

Maps::~Maps() {
  while (load_waiters_.pop_front() != nullptr) continue;
  for (uint32_t i = 0; i < loads_.made(); ++i) {
    while (loads_.at(i).waiters.pop_front() != nullptr) continue;
    while (loads_.at(i).reads.pop_front() != nullptr) continue;
  }
}

Status MapLoad::body(engine::KvTransaction& transaction) {
  return read_maps(transaction, first, {found.data(), count});
}

bool Maps::hold(Request& request, bool create) {
  if (request.maps_generation != generation_) {
    let_go(request);
    request.maps_generation = generation_;
  }
  while (request.maps_held < request.map_count) {
    const MapKey key = request.map_key(request.maps_held);
    CachedMap* map = core_.index.find(key);
    if (map == nullptr && core_.index.look(key) == RunIndex::Known::no_map) {
      if (create) map = &core_.index.insert(key);
    } else if (map == nullptr) {
      if (!load(request)) return false;
      continue;
    } else if (map->load != nullptr) {
      map->load->waiters.push_back(request);
      return false;
    }
    if (map != nullptr) {
      ASSERT(map->load == nullptr && map->in_table);
      DASSERT(map->key == key);
      ++map->pins;
    }
    request.maps[request.maps_held++] = map;
  }
  return true;
}

CachedMap& Maps::make(Request& request, uint32_t i) {
  ASSERT(i < request.maps_held && request.maps[i] == nullptr);
  const MapKey key = request.map_key(i);
  CachedMap* map = core_.index.find(key);
  if (map == nullptr) map = &core_.index.insert(key);
  ASSERT(map->load == nullptr);
  ++map->pins;
  request.maps[i] = map;
  return *map;
}

void Maps::let_go(Request& request) {
  while (request.maps_held > 0) {
    CachedMap* map = request.maps[--request.maps_held];
    if (map == nullptr) continue;
    ASSERT(map->pins > 0);
    if (--map->pins == 0) core_.index.release_if_unused(*map);
  }
}

// Starts to read the maps that the request lacks from maps_held on; false if it must wait for a
// free MapLoad.
bool Maps::load(Request& request) {
  ASSERT(request.maps_held < request.map_count);
  const uint32_t count = std::min(request.map_count - request.maps_held, limits::kLoadMaps);
  if (start_load(request.map_key(request.maps_held), count) != nullptr) return true;
  load_waiters_.push_back(request);
  return false;
}

// Null when there is none free.
MapLoad* Maps::start_load(const MapKey& first, uint32_t count) {
  MapLoad* load = loads_.take();
  if (load == nullptr) return nullptr;
  ASSERT(load->waiters.empty() && load->reads.empty() && count > 0);
  load->core = &core_;
  load->home = &core_.loop;
  load->mode = engine::KvMode::read;
  load->owner = load;
  load->completion = [](engine::Op& op) {
    MapLoad& done = op.owner_as<MapLoad>();
    done.core->maps.on_loaded(done);
  };
  load->first = first;
  load->count = count;
  for (uint32_t i = 0; i < load->count; ++i) {
    const MapKey key{load->first.chain, load->first.chunk, load->first.index + i};
    load->missing[i] = nullptr;
    if (core_.index.find(key) != nullptr) continue;
    CachedMap& map = core_.index.insert(key);
    map.load = load;
    load->missing[i] = &map;
  }
  core_.kv.submit(*load);
  return load;
}

// Where the request's blocks of its i-th map are. A map that is not in memory is late if there are
// any: its bit is set, and `under_way` is the operation that reads it already.
bool Maps::copy_places(Request& request, uint32_t i, MapLoad*& under_way, uint8_t& late) {
  const MapKey key = request.map_key(i);
  const uint32_t begin =
      i == 0 ? 0 : i * limits::kMapBlocks - request.first_block % limits::kMapBlocks;
  const uint32_t within = i == 0 ? request.first_block % limits::kMapBlocks : 0;
  const uint32_t count = std::min(limits::kMapBlocks - within, request.block_count - begin);
  const std::span<BlockRef> out(request.blocks + begin, count);
  const CachedMap* map = core_.index.find(key);
  if (map != nullptr && map->load == nullptr) {
    std::copy_n(map->blocks.data() + within, count, out.data());
    return true;
  }
  if (core_.index.look(key) == RunIndex::Known::nothing) return false;
  core_.index.runs().copy(key, within, out);
  if (std::all_of(out.begin(), out.end(), [](const BlockRef& ref) { return ref.hole(); })) {
    return true;
  }
  late |= static_cast<uint8_t>(1 << i);
  MapLoad* const its = map == nullptr ? nullptr : map->load;
  if ((late & (late - 1)) != 0 && its != under_way) return false;
  under_way = its;
  return true;
}

bool Maps::begin_with_places(Request& request) {
  if (request.map_count > limits::kInlineMaps) return false;
  MapLoad* load = nullptr;
  uint8_t late = 0;
  for (uint32_t i = 0; i < request.map_count; ++i) {
    if (!copy_places(request, i, load, late)) return false;
  }
  // What a probe wants is there.
  if (request.probe) late = 0;
  if (late != 0 && load == nullptr) {
    const auto first = static_cast<uint32_t>(std::countr_zero(late));
    const uint32_t count = static_cast<uint32_t>(std::bit_width(late)) - first;
    load = start_load(request.map_key(first), count);
    if (load == nullptr) return false;
  }
  request.late_maps = late;
  request.late.request = &request;
  if (late != 0) load->reads.push_back(request.late);
  return true;
}

void Maps::on_loaded(MapLoad& load) {
  const Status status = load.status;
  if (!status.ok() && status.code() != Code::closed) {
    log::error("store: cannot read the block maps of inode {} chunk {}: {}",
               load.first.chunk.inode.value, load.first.chunk.index, status.name());
  }
  for (uint32_t i = 0; i < load.count; ++i) {
    CachedMap* map = load.missing[i];
    if (map == nullptr) continue;
    ASSERT(map->load == &load && map->pins == 0 && map->pending == 0);
    map->load = nullptr;
    // Pinned until every waiter was resumed, so that none finds them evicted by another.
    ++map->pins;
    if (status.ok()) {
      static_cast<BlockMap&>(*map) = load.found[i];
      map->note_stored();
    } else {
      core_.index.remove(*map);
    }
  }
  while (Request::LateRead* read = load.reads.pop_front()) {
    core_.reader.on_checksums(*read->request, load);
  }
  while (Request* waiter = load.waiters.pop_front()) {
    if (!status.ok()) waiter->status = status;
    core_.resume(*waiter);
  }
  for (uint32_t i = 0; i < load.count; ++i) {
    CachedMap* map = load.missing[i];
    if (map != nullptr && --map->pins == 0) core_.index.release_if_unused(*map);
  }
  loads_.give(load);
  wake();
}

void Maps::wake() {
  if (loads_.taken() == limits::kLoads) return;
  if (Request* request = load_waiters_.pop_front()) core_.resume_later(*request);
}

void Maps::forget(CachedMap& map) {
  core_.index.runs().forget(map.key);
  map.dirty = 0;
  if (map.in_table) {
    core_.index.remove(map);
  } else {
    core_.index.release_if_unused(map);
  }
}

}  // namespace penstock::store
