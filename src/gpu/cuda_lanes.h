// A loop's copies on CUDA streams.
//
// Each stream tells how far it is by writing a number into pinned memory, which poll() reads
// without a call of the driver. The pieces of all operations that wait for the gather kernel go
// into one launch, as do the checks of all copies that have landed; a check of just one piece is
// made by the warp that gathers it.
#pragma once

#include "cuda_memory.h"
#include "limits.h"

#include <array>
#include <memory>

namespace penstock::gpu {

class CudaLanes final : public engine::CopyLanes {
 public:
  CudaLanes(CudaMemory& memory, engine::Loop& loop) : memory_(memory), loop_(loop) {}
  ~CudaLanes() override;

  void submit(engine::CopyOp& op) override;
  bool busy() const override { return in_progress_ > 0; }
  engine::Time next_look() const override;
  engine::Time latest_look() const override;
  bool poll() override;

 private:
  // A stream, and how far it is.
  struct Stream {
    CUstream stream = nullptr;
    uint32_t* done = nullptr;  // in pinned memory; the device writes the number it has reached
    uint32_t issued = 0;
    engine::Time due{};        // when the oldest one in flight should have ended
    uint64_t behind = 0;       // bytes in flight behind it
    bool only_checks = false;  // the oldest in flight moves nothing
    bool owes_ticket = false;  // the number `issued + 1`, for the last in flight
  };
  // Copies by an engine, in the order of their tickets.
  struct CopyLane : Stream {
    IntrusiveList<engine::CopyOp> waiting;
    IntrusiveList<engine::CopyOp> in_flight;
    uint32_t copies = 0;  // in flight
  };
  // One launch: its lists, in pinned memory.
  struct Batch {
    GatherPiece* pieces = nullptr;
    CheckBlock* checks = nullptr;
    uint8_t* bad = nullptr;
    uint32_t* any_bad = nullptr;
    uint32_t piece_count = 0;
    uint32_t check_count = 0;
    bool checks_pieces = false;
    uint64_t bytes = 0;  // gathered
    uint32_t ticket = 0;
    IntrusiveList<engine::CopyOp> ops;  // progress.ticket: where its checks begin in `bad`
  };
  struct KernelLane : Stream {
    IntrusiveList<engine::CopyOp> waiting;  // to be gathered, or to be checked
    std::array<Batch, limits::kBatches> batches;
    uint32_t first = 0;  // the oldest in flight; counts on
    uint32_t last = 0;   // the next to be launched
  };
  struct Lanes {
    engine::DeviceId device;
    Context context;
    LaneParts parts;
    std::array<CopyLane, 3> copies;  // by CopyDirection
    KernelLane kernels;
    uint32_t in_progress = 0;
    engine::Time last_progress{};
    Status broken;  // not ok: nothing works any more
  };

  Outcome<std::unique_ptr<Lanes>> make_lanes(engine::DeviceId device);
  bool is_allocated(const engine::CopyOp& op) const;
  template <class Each>
  void for_each_at_work(const Each& each) const;
  bool poll(Lanes& lanes);
  bool take_copies(Lanes& lanes, CopyLane& lane);
  bool take_batches(Lanes& lanes);
  bool issue(Lanes& lanes);
  bool issue_kernels(Lanes& lanes);
  void collect(Lanes& lanes, Batch& batch);
  bool issue_copies(Lanes& lanes, CopyLane& lane);
  void issue_copy(Lanes& lanes, CopyLane& lane, engine::CopyOp& op);
  void pay_ticket(Lanes& lanes, Stream& stream);
  CUresult copy(const CopyLane& lane, const engine::CopyOp& op) const;
  static bool fill(Batch& batch, engine::CopyOp& op);
  void launch(Lanes& lanes, Batch& batch);
  void end(Lanes& lanes, engine::CopyOp& op, Status status);
  void break_down(Lanes& lanes, Status status);
  void look_after(Lanes& lanes);

  CudaMemory& memory_;
  engine::Loop& loop_;
  std::vector<std::unique_ptr<Lanes>> lanes_;  // by device; null until it is used
  uint32_t in_progress_ = 0;
};

}  // namespace penstock::gpu
