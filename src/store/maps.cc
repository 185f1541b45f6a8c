#include "maps.h"

#include "core.h"

#include <algorithm>

namespace penstock::store {

Maps::Maps(Core& core) : core_(core), loads_(limits::kLoads) {}

Maps::~Maps() {
  while (load_waiters_.pop_front() != nullptr) continue;
  for (uint32_t i = 0; i < loads_.made(); ++i) {
    while (loads_.at(i).waiters.pop_front() != nullptr) continue;
  }
}

Status MapLoad::body(engine::KvTransaction& transaction) {
  for (uint32_t i = 0; i < count; ++i) found[i].reset();
  const EncodedMapKey begin = encode_key(first);
  const EncodedMapKey end = encode_key({first.chain, first.chunk, first.index + count});
  Status bad;
  const Status scanned =
      transaction.scan(as_view(begin), as_view(end), [&](std::string_view k, std::string_view v) {
        const auto key = decode_key(k);
        bad = key ? decode_map(*key, v, found[key->index - first.index]) : Status(Code::corrupt);
        return bad.ok();
      });
  TRY(scanned);
  return bad;
}

bool Maps::hold(Request& request, bool create) {
  if (request.maps_generation != generation_) {
    let_go(request);
    request.maps_generation = generation_;
  }
  while (request.maps_held < request.map_count) {
    const MapKey key = request.map_key(request.maps_held);
    CachedMap* map = core_.index.find(key);
    if (map == nullptr && core_.index.complete()) {
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
  MapLoad* load = loads_.take();
  if (load == nullptr) {
    load_waiters_.push_back(request);
    return false;
  }
  ASSERT(load->waiters.empty() && request.maps_held < request.map_count);
  load->core = &core_;
  load->home = &core_.loop;
  load->mode = engine::KvMode::read;
  load->owner = load;
  load->completion = [](engine::Op& op) {
    MapLoad& done = op.owner_as<MapLoad>();
    done.core->maps.on_loaded(done);
  };
  load->first = request.map_key(request.maps_held);
  load->count = std::min(request.map_count - request.maps_held, limits::kLoadMaps);
  for (uint32_t i = 0; i < load->count; ++i) {
    const MapKey key{load->first.chain, load->first.chunk, load->first.index + i};
    load->missing[i] = nullptr;
    if (core_.index.find(key) != nullptr) continue;
    CachedMap& map = core_.index.insert(key);
    map.load = load;
    load->missing[i] = &map;
  }
  core_.kv.submit(*load);
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
    } else {
      core_.index.remove(*map);
    }
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
  core_.index.set_incomplete();
  if (map.in_table) {
    core_.index.remove(map);
  } else {
    core_.index.release_if_unused(map);
  }
}

}  // namespace penstock::store
