// Disk operations of requests and the aligned buffers that some of them go through: both limited,
// with requests waiting in order for what is used up.
#pragma once

#include "request.h"

namespace penstock::store {

struct Core;

class Transfers {
 public:
  explicit Transfers(Core& core);
  ~Transfers();
  bool valid() const { return ios_.valid() && static_cast<bool>(stage_memory_); }

  // An Io of the request, with a stage if asked for; counts into request.ios. Null: the request
  // waits here and is resumed when it may try again.
  Io* take(Request& request, bool with_stage);
  // Ends an Io that is not in flight.
  void give(Io& io);
  // Fills in offset, direction and memory and starts it. `memory` holds io.count blocks, which lie
  // in the data files from `physical` on.
  void start(Io& io, engine::DiskOpKind kind, BlockNumber physical, engine::MemoryRef memory);
  // Reads one block again, through a stage if the Io has none; waits for one here if need be.
  void reread(Io& io, BlockNumber physical);

  engine::MemoryRef stage_ref(const Io& io, uint32_t block, uint32_t blocks) const {
    return {io.stage + uint64_t{block} * limits::kBlockBytes,
            uint64_t{blocks} * limits::kBlockBytes, engine::kNoBuffer, engine::MemoryKind::host};
  }
  bool direct_possible(const std::byte* address) const { return is_aligned(address, alignment_); }
  engine::Route route(const Io& io) const { return io.staged ? staged_route_ : direct_route_; }

  // Resumes a request that waits and may go on now.
  void wake();

 private:
  std::byte* take_stage();
  void start_reread(Io& io, BlockNumber physical);

  Core& core_;
  const uint64_t alignment_;
  const engine::Route direct_route_;
  const engine::Route staged_route_;
  Pool<Io> ios_;
  MappedMemory stage_memory_;
  std::array<std::byte*, limits::kStages> free_stages_;
  uint32_t free_stage_count_ = 0;
  IntrusiveList<Request> io_waiters_;
  IntrusiveList<Request> stage_waiters_;
  IntrusiveList<Io> reread_waiters_;
};

}  // namespace penstock::store
