#include "transfers.h"

#include "core.h"

namespace penstock::store {

using limits::kBlockBytes;

Transfers::Transfers(Core& core)
    : core_(core),
      alignment_(core.disk.facts().alignment),
      direct_route_(core.disk.facts().route),
      staged_route_(engine::worse(core.disk.facts().route, engine::Route::disk_staged)),
      ios_(limits::kIosMax),
      stage_memory_(limits::kStages * limits::kStageBytes) {
  if (!stage_memory_) return;
  for (uint32_t i = limits::kStages; i-- > 0;) {
    free_stages_[free_stage_count_++] = stage_memory_.data() + i * limits::kStageBytes;
  }
}

Transfers::~Transfers() {
  while (io_waiters_.pop_front() != nullptr) continue;
  while (stage_waiters_.pop_front() != nullptr) continue;
  while (reread_waiters_.pop_front() != nullptr) continue;
}

std::byte* Transfers::take_stage() {
  return free_stage_count_ == 0 ? nullptr : free_stages_[--free_stage_count_];
}

Io* Transfers::take(Request& request, bool with_stage) {
  std::byte* stage = nullptr;
  if (with_stage) {
    stage = take_stage();
    if (stage == nullptr) {
      stage_waiters_.push_back(request);
      return nullptr;
    }
  }
  Io* io = nullptr;
  if (!request.own_io_taken) {
    request.own_io_taken = true;
    io = &request.io;
  } else {
    io = ios_.take();
    if (io == nullptr) {
      if (stage != nullptr) free_stages_[free_stage_count_++] = stage;
      io_waiters_.push_back(request);
      return nullptr;
    }
  }
  ++request.ios;
  io->request = &request;
  io->checked = 0;
  io->stage = stage;
  io->staged = with_stage;
  io->one_by_one = io->ended = false;
  return io;
}

void Transfers::give(Io& io) {
  Request& request = *io.request;
  ASSERT(request.ios > 0);
  --request.ios;
  ASSERT(io.stage == nullptr || free_stage_count_ < limits::kStages);
  if (io.stage != nullptr) free_stages_[free_stage_count_++] = io.stage;
  io.stage = nullptr;
  if (&io == &request.io) {
    ASSERT(request.own_io_taken);
    request.own_io_taken = false;
  } else {
    ios_.give(io);
  }
  if (io_waiters_.empty() && stage_waiters_.empty() && reread_waiters_.empty()) [[likely]]
    return;
  wake();
}

void Transfers::wake() {
  if (free_stage_count_ > 0) {
    if (Io* io = reread_waiters_.pop_front()) {
      io->stage = take_stage();
      start_reread(*io, io->request->blocks[io->first + io->checked].physical);
      return;
    }
    if (Request* request = stage_waiters_.pop_front()) core_.resume_later(*request);
  }
  if (ios_.taken() < limits::kIosMax) {
    if (Request* request = io_waiters_.pop_front()) core_.resume_later(*request);
  }
}

void Transfers::start(Io& io, engine::DiskOpKind kind, BlockNumber physical,
                      engine::MemoryRef memory) {
  const DataFiles::Location at = core_.files.locate(physical);
  // Whole blocks of one data file: blocks with consecutive numbers may be in two.
  ASSERT(memory.length > 0 && memory.length % kBlockBytes == 0);
  ASSERT(at.offset + memory.length <= uint64_t{limits::kDataFileBlocksLarge} * kBlockBytes);
  io.kind = kind;
  io.file = at.file;
  io.offset = at.offset;
  io.memory = memory;
  io.transferred = 0;
  io.owner = &core_;
  io.completion = [](engine::Op& op) { op.owner_as<Core>().on_io(static_cast<Io&>(op)); };
  core_.disk.submit(io);
}

void Transfers::reread(Io& io, BlockNumber physical) {
  ASSERT(io.checked < io.count);
  if (io.stage == nullptr) {
    io.stage = take_stage();
    if (io.stage == nullptr) {
      reread_waiters_.push_back(io);
      return;
    }
  }
  start_reread(io, physical);
}

void Transfers::start_reread(Io& io, BlockNumber physical) {
  const uint32_t at = io.staged ? io.checked : 0;
  start(io, engine::DiskOpKind::read, physical, stage_ref(io, at, 1));
}

}  // namespace penstock::store
