// Operations that go through many block maps in bounded steps: removal, queries and scrub. They
// find their way by scanning keys in the KV store; what they do to chunks goes the way of ordinary
// clears and reads, so nothing of it conflicts with others.
#pragma once

#include "request.h"

#include <array>

#include "penstock/store.h"

namespace penstock::store {

struct Core;
struct Sweep;

enum class SweepKind : uint8_t { remove, end_query, inodes, scrub };

// Some keys in order, and for end queries what their records say.
struct KeyScan final : engine::KvOp {
  MapKey begin;
  ChainId chain;  // the last that is looked at
  InodeId only;   // InodeId{}: all inodes
  bool read_records = false;
  uint32_t count = 0;
  std::array<MapKey, limits::kSweepKeys> keys;
  uint64_t mapped_blocks = 0;
  MapKey last_valid;
  uint32_t valid_end = 0;  // of last_valid; 0: no map had one

  Status body(engine::KvTransaction& transaction) override;
  Status read(engine::KvTransaction& transaction, std::string_view from, std::string_view to);
};

struct Sweep : ListNode {
  Core* core = nullptr;
  SweepKind kind = SweepKind::remove;
  engine::Op* op = nullptr;
  KeyScan scan;
  uint32_t next_key = 0;  // of the scan's keys
  Status status;
  engine::Op step;  // between two steps, and when a commit has happened
  // Removal.
  ClearOp clear;
  uint64_t removed_blocks = 0;
  // Scrub.
  std::array<Request, limits::kScrubDepth> requests;
  engine::Op verified;  // what a verify request names as its operation
  uint32_t verifying = 0;
  std::array<bool, limits::kScrubDepth> busy{};
  bool pumping = false;
  uint32_t healing = 0;  // damaged blocks that somebody sees to
  Sweep* pool_next = nullptr;
};

class Sweeps {
 public:
  explicit Sweeps(Core& core);
  ~Sweeps();
  bool valid() const { return pool_.valid(); }

  void start(SweepKind kind, engine::Op& op);
  bool idle() const { return pool_.taken() == 0; }

  // From the reader, on behalf of scrub.
  void on_block_verified(Request& request);
  void on_damage(Request& request, uint32_t block, Status status);
  void on_verified(Request& request);

 private:
  void begin(Sweep& sweep, SweepKind kind, engine::Op& op);
  void scan(Sweep& sweep);
  void on_scanned(Sweep& sweep);
  void continue_remove(Sweep& sweep);
  void on_cleared(Sweep& sweep);
  void continue_end_query(Sweep& sweep);
  void continue_inodes(Sweep& sweep);
  void continue_scrub(Sweep& sweep);
  void verify(Sweep& sweep, uint32_t slot, const MapKey& key);
  void report(Sweep& sweep, const Damage& damage);
  void heal(Sweep& sweep, const Damage& damage);
  void end(Sweep& sweep);
  // The first key behind the ones that were scanned; false if there are no more.
  bool advance(Sweep& sweep);

  Core& core_;
  Pool<Sweep> pool_;
  IntrusiveList<engine::Op> waiting_;
};

}  // namespace penstock::store
