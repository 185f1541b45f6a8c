// Block maps at hand: from the index, or read from the KV store when they are not in memory.
#pragma once

#include "request.h"

namespace penstock::store {

struct Core;

// Reads up to kLoadMaps neighbouring maps of one chunk in one transaction.
struct MapLoad final : engine::KvOp {
  Core* core = nullptr;
  MapKey first;
  uint32_t count = 0;
  std::array<CachedMap*, limits::kLoadMaps> missing{};  // null: was in memory already
  std::array<BlockMap, limits::kLoadMaps> found;        // empty: there is none
  IntrusiveList<Request> waiters;
  IntrusiveList<Request::LateRead> reads;  // they have begun, and want the checksums
  MapLoad* pool_next = nullptr;

  Status body(engine::KvTransaction& transaction) override;
};

class Maps {
 public:
  explicit Maps(Core& core);
  ~Maps();

  // Pins the request's maps. A map that does not exist is null in `request.maps`, or made (empty)
  // if `create`. False: the request waits and is resumed to call again; or request.status says why
  // it cannot be.
  bool hold(Request& request, bool create);
  // For a read of a few maps of which some are not in memory: where the blocks are that it reads,
  // as hold() and a snapshot would have it at this moment, if that is known of all. Then the maps
  // are being read, and Reader::on_checksums() is called at the end if request.late_maps says that
  // there are any; else false, and nothing has changed.
  bool begin_with_places(Request& request);
  // The i-th of the request's maps, which it holds and which does not exist yet.
  CachedMap& make(Request& request, uint32_t i);
  // Unpins them.
  void let_go(Request& request);
  // The content of these maps is no longer what is committed, and never will be: the next hold()
  // reads them again.
  void forget(CachedMap& map);
  // Pins taken before this point are worth nothing (see forget()).
  void start_over() { ++generation_; }

  // Resumes a request that waits for a load to become available.
  void wake();

 private:
  bool load(Request& request);
  MapLoad* start_load(const MapKey& first, uint32_t count);
  bool copy_places(Request& request, uint32_t i, MapLoad*& under_way, uint8_t& late);
  void on_loaded(MapLoad& load);

  Core& core_;
  uint32_t generation_ = 0;
  Pool<MapLoad> loads_;
  IntrusiveList<Request> load_waiters_;
};

}  // namespace penstock::store
