// What operations answered, and what a crash left, held against the histories.
#include "simulation.h"
#include "stored_maps.h"

#include <algorithm>
#include <set>

namespace penstock::store {

void Simulation::on_read(Slot& slot, Status status) {
  if (!status.ok()) return;
  const ReadOp& op = slot.read;
  if (!rig_.core().failed.ok()) {
    // What became durable while it was under way may or may not be in it.
    if (slot.started < durable_since_) return;
    const std::string older =
        histories_[slot.chunk].check_kept(op.offset, {op.destination.data, op.destination.length});
    if (!older.empty()) complain(fmt::format("read of a failed target: {}", older));
    return;
  }
  const std::string wrong = histories_[slot.chunk].check_read(
      op.offset, {op.destination.data, op.destination.length}, slot.started, now_);
  if (!wrong.empty()) complain(fmt::format("read of chunk {}: {}", slot.chunk, wrong));
}

void Simulation::on_update(Slot& slot, Status status, bool durable) {
  for (const auto& [chunk, name] : slot.updates) {
    ChunkHistory& history = histories_[chunk];
    if (status.ok()) {
      history.end(name, now_);
      if (durable) history.make_durable_one(name);
      if (durable) durable_since_ = now_;
    } else if (rig_.core().failed.ok() && !down_ && slot.kind != Kind::remove &&
               !(durable && weather_ == Weather::full)) {
      history.forget(name);
    }
    // Else it may have happened, now or at any time: it never ends.
  }
}

void Simulation::on_durable(InodeId inode, uint64_t time) {
  durable_since_ = now_;
  for (size_t i = 0; i < kChunkCount; ++i) {
    if (inode == InodeId{} || kChunks[i].inode == inode) histories_[i].make_durable(time);
  }
}

// A target that failed goes on reading for a while.
void Simulation::read_after_failure() {
  if (rig_.core().failed.ok() || !complaint_.empty()) return;
  rig_.world.run_until(
      [&] { return std::none_of(slots_.begin(), slots_.end(), [](auto& s) { return s->busy; }); });
  for (int i = 0; i < 20; ++i) {
    Slot& slot = *slots_[0];
    slot.busy = true;
    slot.kind = Kind::read;
    slot.updates.clear();
    slot.started = ++now_;
    slot.chunk = random().below(kChunkCount);
    start_read(slot);
    rig_.world.run_until([&] { return !slot.busy; });
  }
}

void Simulation::verify_after_crash() {
  std::vector<std::byte> bytes(kChunkLength);
  for (size_t i = 0; i < kChunkCount && complaint_.empty(); ++i) {
    Status status;
    bytes = rig_.read(kChunks[i], 0, kChunkLength, &status);
    if (!status.ok()) {
      complain(fmt::format("chunk {} cannot be read: {}", i, status.name()));
      return;
    }
    const std::string wrong = histories_[i].check_crash(bytes);
    if (!wrong.empty()) complain(fmt::format("after a crash, chunk {}: {}", i, wrong));
    histories_[i].rebase();
  }
}

// Nothing in flight and everything committed: every block is free or in exactly one map.
void Simulation::verify_space() {
  Core& core = rig_.core();
  std::set<uint32_t> used;
  uint64_t scattered = 0;
  const auto maps = stored_maps(rig_.records.content());
  if (!maps) return complain("a record does not decode");
  for (const auto& [key, map] : *maps) {
    scattered += core.defragmenter.measure(map);
    for (const BlockRef& ref : map.blocks) {
      if (ref.hole()) continue;
      if (!used.insert(ref.physical).second) return complain("a block is used twice");
      if (core.allocator.is_free(ref.physical)) return complain("a used block is free");
    }
  }
  if (core.reclaim.pending()) return complain("blocks wait for reads that have ended");
  const uint64_t free = core.allocator.free_blocks();
  if (free + used.size() != core.allocator.total_blocks()) {
    return complain(fmt::format("leak: {} free and {} used of {} blocks", free, used.size(),
                                core.allocator.total_blocks()));
  }
  if (core.mapped_blocks != used.size()) return complain("the count of used blocks is wrong");
  if (core.defragmenter.scattered() != scattered) {
    return complain(
        fmt::format("counted {} scattered blocks of {}", core.defragmenter.scattered(), scattered));
  }
  if (core.requests.taken() != 0) return complain("a context leaked");
  if (!core.allocator.consistent()) return complain("the allocator is inconsistent");
}

void Simulation::verify_scrub() {
  ScrubOp scrub;
  const Status status = rig_.run(scrub);
  if (!status.ok() || scrub.damaged_blocks != 0) {
    complain(fmt::format("scrub: {}, {} damaged blocks", status.name(), scrub.damaged_blocks));
  }
  if (scrub.verified_bytes != rig_.target().status().used_bytes) {
    complain(fmt::format("scrub verified {} of {} bytes", scrub.verified_bytes,
                         rig_.target().status().used_bytes));
  }
}

}  // namespace penstock::store
