// Random work on a target over simulated disk and database, with crashes and faults, checked
// against a history of every byte.
#pragma once

#include "history.h"
#include "rig.h"

#include <array>
#include <memory>
#include <string>
#include <vector>

namespace penstock::store {

inline constexpr uint32_t kChunkLength = 640 * kKiB;
inline constexpr uint32_t kDepthMax = 12;
inline const ChunkId kChunks[] = {
    {InodeId(1), 0}, {InodeId(1), 1}, {InodeId(2), 0}, {InodeId(2), 7}, {InodeId(300), 2}};
inline constexpr size_t kChunkCount = std::size(kChunks);

// What may go wrong in a run besides crashes.
enum class Weather { fair, tight, rough, breaking, silent, full };

class Simulation {
 public:
  Simulation(uint64_t seed, RigOptions options, Weather weather)
      : rig_(seed, options),
        weather_(weather),
        defragment_(options.defragment.enabled),
        histories_(kChunkCount, ChunkHistory(kChunkLength)) {
    rig_.kv_fills_up = weather == Weather::full;
    // Many things at the same instant.
    if (seed % 4 == 3) rig_.platter.faults.latency_max = rig_.platter.faults.latency_min;
    // Or a disk that is slow beside the database: blocks are freed and used again while one reads.
    if (seed % 4 == 1) rig_.platter.faults.latency_max = std::chrono::milliseconds(3);
    for (auto& slot : slots_) slot = std::make_unique<Slot>(*this);
    // Much for the log, and commits that take longer than many records.
    small_ = options.log_bytes != 0 && random().chance(1, 2);
    if (small_ && random().chance(1, 2)) {
      rig_.records.faults.delay_max = std::chrono::milliseconds(random().below(2) == 0 ? 3 : 20);
    }
  }

  std::string run(int lives);
  uint64_t trace_hash() const { return rig_.world.trace_hash(); }
  uint64_t operations() const { return operations_; }
  uint64_t failures() const { return failures_; }
  uint64_t moved() const { return moved_; }
  uint64_t logged() const { return logged_; }
  uint64_t records() const { return records_; }
  uint64_t replayed() const { return replayed_; }

 private:
  enum class Kind { read, write, clear, remove, sync, end_query, scrub };

  struct Slot {
    explicit Slot(Simulation& its) : simulation(its) {}
    Simulation& simulation;
    bool busy = false;
    Kind kind = Kind::read;
    uint64_t started = 0;
    // The updates of it: chunk and name.
    std::vector<std::pair<size_t, uint64_t>> updates;
    size_t chunk = 0;
    std::vector<std::byte> memory;
    ReadOp read;
    WriteOp write;
    ClearOp clear;
    RemoveOp remove;
    SyncOp sync;
    EndQueryOp end_query;
    ScrubOp scrub;
  };

  engine::Random& random() { return rig_.world.random(); }
  void set_faults(bool on);
  void refill();
  void start(Slot& slot);
  void start_write(Slot& slot);
  void start_read(Slot& slot);
  void start_clear(Slot& slot);
  void start_remove(Slot& slot);
  std::pair<uint32_t, uint32_t> pick_range();
  uint64_t pick_kind();
  std::byte* pick_memory(Slot& slot, uint32_t length);
  template <class Operation>
  void submit(Slot& slot, Operation& op);
  void on_end(Slot& slot, engine::Op& op);
  void on_read(Slot& slot, Status status);
  void on_update(Slot& slot, Status status, bool durable);
  void on_durable(InodeId inode, uint64_t time);
  bool work(uint64_t count);
  void read_after_failure();
  void crash();
  void verify_after_crash();
  bool come_to_rest();
  void verify_space();
  void verify_scrub();
  // Whether nothing may fail but for lack of space.
  bool calm() const {
    return weather_ == Weather::fair || weather_ == Weather::tight || weather_ == Weather::full;
  }
  void complain(const std::string& what) {
    if (complaint_.empty()) complaint_ = what;
  }

  Rig rig_;
  const Weather weather_;
  const bool defragment_;
  bool small_ = false;  // mostly small durable writes
  std::vector<ChunkHistory> histories_;
  std::array<std::unique_ptr<Slot>, kDepthMax> slots_;
  uint32_t depth_ = 1;
  bool stopping_ = false;
  bool down_ = false;  // what ends now ended with the process
  uint64_t now_ = 1;
  uint64_t durable_since_ = 0;  // when something became durable last
  uint64_t next_id_ = 1;
  uint64_t operations_ = 0;
  uint64_t failures_ = 0;
  uint64_t moved_ = 0;  // blocks, by the defragmenter
  uint64_t logged_ = 0;
  uint64_t records_ = 0;
  uint64_t replayed_ = 0;
  std::string complaint_;
};

}  // namespace penstock::store
