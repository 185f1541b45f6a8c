#include "gpu_reference.h"

#include <cstring>
#include <deque>
#include <sys/mman.h>

namespace penstock::bench {
namespace {

struct Running {
  engine::CopyLanes* lanes = nullptr;
  uint64_t operations = 0;
  uint64_t failed = 0;
  bool stop = false;
};

struct Copy : engine::CopyOp {
  std::vector<engine::CopyPiece> its_pieces;
};

}  // namespace

GpuReference::GpuReference(engine::DeviceMemory& devices, engine::DeviceId device)
    : devices_(devices), device_(device), lanes_(devices.make_lanes(loop_)) {
  loop_.add(*lanes_);
}

GpuReference::~GpuReference() {
  loop_.remove(*lanes_);
  lanes_.reset();
  if (pinned_) devices_.unpin(host_);
  if (memory_.length > 0) (void)!devices_.release(memory_).ok();
  if (!host_.empty()) ::munmap(host_.data(), host_.size());
}

Outcome<std::unique_ptr<GpuReference>> GpuReference::create(engine::DeviceMemory& devices,
                                                            engine::DeviceId device,
                                                            uint64_t host_bytes) {
  std::unique_ptr<GpuReference> made(new GpuReference(devices, device));
  void* const mapped =
      ::mmap(nullptr, host_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return Failure{Code::no_memory, "bench: no memory for the reference"};
  made->host_ = {static_cast<std::byte*>(mapped), host_bytes};
  std::memset(mapped, 0x5a, host_bytes);
  TRY(devices.pin(made->host_, false));
  made->pinned_ = true;
  TRY_ASSIGN(made->memory_, devices.allocate(device, host_bytes));
  return made;
}

Outcome<Measurement> GpuReference::run(const Copies& copies) {
  Running running{.lanes = lanes_.get()};
  std::deque<Copy> all(copies.depth);
  const uint64_t offsets = host_.size() / copies.piece_bytes;
  uint64_t next = 0;
  for (Copy& copy : all) {
    for (uint32_t i = 0; i < copies.pieces; ++i) {
      std::byte* const to = memory_.data + next++ % offsets * copies.piece_bytes;
      copy.its_pieces.push_back(
          {&host_[random_.below(offsets) * copies.piece_bytes], to, copies.piece_bytes});
    }
    copy.device = device_;
    copy.means = copies.means;
    copy.pieces = copy.its_pieces;
    copy.owner = &running;
    copy.completion = [](engine::Op& op) {
      auto& state = op.owner_as<Running>();
      ++state.operations;
      if (!op.status.ok()) ++state.failed;
      if (!state.stop) state.lanes->submit(static_cast<Copy&>(op));
    };
  }
  Measurement result;
  const ProcessMeter meter;
  const engine::Time end =
      loop_.clock().now() + engine::Duration(static_cast<int64_t>(copies.seconds * 1e9));
  for (Copy& copy : all) lanes_->submit(copy);
  while (loop_.clock().now() < end) loop_.poll();
  running.stop = true;
  while (lanes_->busy()) loop_.poll();
  loop_.poll();
  meter.stop(&result);
  if (running.failed > 0) return Failure{Code::io_error, "bench: copies of the reference failed"};
  result.operations = running.operations * copies.pieces;
  result.bytes = result.operations * copies.piece_bytes;
  return result;
}

}  // namespace penstock::bench
