// Gatherer: many small reads of one file into device memory, as one operation.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "penstock/engine.h"
#include "penstock/route/deadlines.h"
#include "penstock/route/host_source.h"
#include "penstock/route/mover.h"

namespace penstock::route {

// One range of the file, and where in memory it goes. The layout is that of penstock_piece in the C
// API.
struct ListEntry {
  uint64_t offset = 0;         // in the file, bytes
  uint64_t memory_offset = 0;  // in the operation's memory, bytes
  uint32_t length = 0;         // bytes, up to kListEntryBytesMax
  uint32_t done = 0;           // out: bytes; fewer where the file ends
};
static_assert(sizeof(ListEntry) == 24);

inline constexpr uint32_t kListEntryBytesMax = 1024 * 1024;

// Ends as a TransferOp does, with the first error that was met, or with cancelled or timed_out as
// soon as nothing of it is under way. Also then entries whose `done` is their length, or that end
// at the end of the file, are good.
struct GatherOp : engine::Op {
  uint32_t file = 0;
  engine::DeviceSpan memory;
  std::span<ListEntry> entries;  // the caller's until the end
  engine::Time deadline = engine::kNever;

  uint64_t transferred = 0;                   // out: bytes of all entries
  engine::Route route = engine::Route::none;  // out: the worst that a part took

  // The gatherer's.
  struct {
    size_t next = 0;         // entries that were started
    uint32_t in_flight = 0;  // batches and single transfers
    Status error;
    bool stopped = false;  // to end early: `error` says why
    bool running = false;
    size_t timed_index = 0;
  } progress;
};

// Entries that lie in memory that devices reach go to the gather kernel, together, at a few tens of
// nanoseconds each; all others go through the mover, one by one. Owner thread of the loop.
class Gatherer final : public engine::Poller {
 public:
  // All outlive it. `lanes` are the mover's.
  Gatherer(engine::Loop& loop, Mover& mover, HostSource& source, engine::CopyLanes& lanes,
           bool verify);
  ~Gatherer() override;

  void submit(GatherOp& op);
  // Ends it early, with cancelled, without starting more entries. One that has ended stays as it
  // is.
  void cancel(GatherOp& op);
  void cancel_all();
  bool poll() override;
  bool idle() const { return operations_ == 0; }
  // As Mover has it.
  engine::Time next_deadline() const { return deadlines_.next(); }

 private:
  struct Taken;
  struct Batch;
  struct Single;

  void stop(GatherOp& op, Status why);
  bool start_again();
  bool start(GatherOp& op);
  bool fill(GatherOp& op, Batch& batch);
  static void add(Batch& batch, const Taken& found, bool verify);
  bool start_single(GatherOp& op, uint32_t entry);
  void batch_done(Batch& batch);
  void single_done(Single& single);
  void end_if_done(GatherOp& op);

  engine::Loop& loop_;
  Mover& mover_;
  HostSource& source_;
  engine::CopyLanes& lanes_;
  const bool verify_;
  std::vector<std::unique_ptr<Batch>> batches_;
  std::vector<std::unique_ptr<Single>> singles_;
  IntrusiveList<Batch> free_batches_;
  IntrusiveList<Single> free_singles_;
  IntrusiveList<Batch> again_;  // batches whose entries go one by one
  IntrusiveList<GatherOp> waiting_;
  Deadlines<GatherOp> deadlines_;
  uint64_t operations_ = 0;
};

}  // namespace penstock::route
