// The files and regions of a session, as a shard that serves its rings knows them.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "penstock/client.h"
#include "penstock/engine.h"
#include "penstock/resources.h"

namespace penstock::serving {

// An open file, as a shard holds it while operations may use it.
struct ServedFile {
  client::FileRef file;
  uint32_t in_flight = 0;
  engine::Op* leaving = nullptr;  // completes when in_flight is 0: no new operations then
};

// A region, as a shard holds it. `guard` stays the session's; a GPU's memory has none.
struct ServedRegion {
  MutableBytes bytes;
  engine::MemoryKind kind = engine::MemoryKind::host;
  engine::BufferId buffer = engine::kNoBuffer;
  const resources::BusGuard* guard = nullptr;
  uint32_t in_flight = 0;
  engine::Op* leaving = nullptr;

  engine::MemoryRef part(uint64_t offset, uint64_t length) const {
    return engine::MemoryRef{bytes.data(), bytes.size(), buffer, kind}.sub(offset, length);
  }
  // It is not the application's any more.
  bool is_broken() const { return guard != nullptr && guard->broken(); }
  bool present() const { return bytes.data() != nullptr && leaving == nullptr; }
};

// Room in the shards' tables of files, or of regions, for the numbers that a session uses: paid for
// when a number is taken, as the tables are made where no request can be refused any more.
class TableRoom {
 public:
  // The size of a table that holds this number.
  static uint32_t entries_for(uint32_t id);
  // `bytes` for each entry, over all shards. busy, when the account has not enough.
  Status reach(const std::shared_ptr<resources::Account>& account, uint32_t id, uint64_t bytes);

 private:
  static constexpr uint32_t kEntriesFree = 64;  // these are the session's own

  uint32_t entries_ = kEntriesFree;
  resources::Charge heap_;
};

// Files and regions that the session has and no operation on this shard has named yet. The loop
// looks here for what it does not know: making something known, and taking back what was not used,
// needs no trip to the loop. An operation that names a number finds it here, as it was added before
// the reply with which the application learned of it. Thread safe.
class Announced {
 public:
  void add_file(uint32_t id, client::FileRef file);
  void add_region(uint32_t id, const ServedRegion& region);
  // What was here, and is not any more: null, or not present, if there was none.
  client::FileRef take_file(uint32_t id);
  ServedRegion take_region(uint32_t id);

 private:
  engine::Mutex mutex_;
  std::unordered_map<uint32_t, client::FileRef> files_;
  std::unordered_map<uint32_t, ServedRegion> regions_;
};

}  // namespace penstock::serving
