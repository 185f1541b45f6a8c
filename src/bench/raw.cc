// The reference where fio is missing: the disk seam alone, on a plain file.

#include <vector>

#include "penstock/bench.h"
#include "penstock/disk.h"
#include "penstock/engine.h"

namespace penstock::bench {
namespace {

using engine::DiskOp;
using engine::DiskOpKind;

// Keeps `depth` operations in flight until `end`; a write is followed by a sync before it counts.
class RawLoop {
 public:
  RawLoop(const Workload& workload, engine::Loop& loop, engine::Disk& disk, engine::DiskFile file)
      : workload_(workload),
        loop_(loop),
        disk_(disk),
        file_(file),
        slots_(workload.depth),
        memory_(workload.depth * workload.block_bytes + limits::kBlockBytes) {}

  Status run(Measurement* result);

 private:
  struct Slot {
    DiskOp op;
    RawLoop* parent = nullptr;
    std::byte* memory = nullptr;
    engine::Time started{};
  };

  void next(Slot& slot);
  static void completed(engine::Op& op);

  const Workload& workload_;
  engine::Loop& loop_;
  engine::Disk& disk_;
  const engine::DiskFile file_;
  engine::SeededRandom random_{23};
  std::vector<Slot> slots_;
  std::vector<std::byte> memory_;
  engine::Time end_{};
  uint64_t next_block_ = 0;
  uint32_t in_flight_ = 0;
  uint64_t operations_ = 0;
  Histogram latency_;
  Status error_;
};

void RawLoop::next(Slot& slot) {
  const uint64_t blocks = workload_.file_bytes / workload_.block_bytes;
  const uint64_t block = workload_.random ? random_.below(blocks) : next_block_++ % blocks;
  slot.op.kind = workload_.write ? DiskOpKind::write : DiskOpKind::read;
  slot.op.file = file_;
  slot.op.offset = block * workload_.block_bytes;
  slot.op.memory = {slot.memory, workload_.block_bytes};
  slot.op.completion = completed;
  slot.op.owner = &slot;
  slot.started = loop_.clock().now();
  ++in_flight_;
  disk_.submit(slot.op);
}

void RawLoop::completed(engine::Op& op) {
  Slot& slot = op.owner_as<Slot>();
  RawLoop& self = *slot.parent;
  if (op.status.ok() && slot.op.kind == DiskOpKind::write) {
    slot.op.kind = DiskOpKind::sync;
    self.disk_.submit(slot.op);
    return;
  }
  --self.in_flight_;
  if (!op.status.ok()) self.error_ = op.status;
  const engine::Time now = self.loop_.clock().now();
  self.latency_.record(static_cast<uint64_t>((now - slot.started).count()));
  ++self.operations_;
  if (self.error_.ok() && now < self.end_) self.next(slot);
}

Status RawLoop::run(Measurement* result) {
  auto* base = reinterpret_cast<std::byte*>(
      align_up(reinterpret_cast<uintptr_t>(memory_.data()), limits::kBlockBytes));
  const ProcessMeter meter;
  end_ =
      loop_.clock().now() + std::chrono::nanoseconds(static_cast<int64_t>(workload_.seconds * 1e9));
  for (Slot& slot : slots_) {
    slot.parent = this;
    slot.memory = base + static_cast<size_t>(&slot - slots_.data()) * workload_.block_bytes;
    next(slot);
  }
  while (in_flight_ > 0) loop_.poll_or_park(engine::kNever);
  meter.stop(result);
  result->operations = operations_;
  result->bytes = operations_ * workload_.block_bytes;
  result->latency_p50_ns = latency_.percentile(0.5);
  result->latency_p99_ns = latency_.percentile(0.99);
  result->latency_p999_ns = latency_.percentile(0.999);
  return error_;
}

}  // namespace

Outcome<Measurement> run_raw(const std::string& file, const Workload& workload) {
  const size_t slash = file.rfind('/');
  auto driver = disk::DiskDriver::create({.root = file.substr(0, slash)});
  if (!driver) return driver.error();
  engine::SeededRandom random(1);
  engine::Loop loop(engine::system_clock(), random, (*driver)->parker());
  engine::Disk& disk = (*driver)->attach(loop);
  auto opened = disk.open(file, {});
  if (!opened) return opened.error();
  Measurement result;
  const Status status = RawLoop(workload, loop, disk, *opened).run(&result);
  disk.close(*opened);
  loop.remove(disk);
  if (!status.ok()) return Failure{status, file + ": " + std::string(status.name())};
  return result;
}

}  // namespace penstock::bench
