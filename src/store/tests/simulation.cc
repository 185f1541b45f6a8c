// The operations, and how lives follow one another.
#include "simulation.h"

#include <algorithm>
#include <set>

namespace penstock::store {

void Simulation::set_faults(bool on) {
  if (!on) rig_.kv_full = false;
  sim::SimDiskFaults& disk = rig_.platter.faults;
  sim::SimKvFaults& kv = rig_.records.faults;
  const bool rough = on && (weather_ == Weather::rough || weather_ == Weather::breaking);
  disk.read_error_permille = rough ? 10 : 0;
  disk.write_error_permille = rough ? 10 : 0;
  disk.flipped_read_permille = rough ? 20 : 0;
  kv.conflict_permille = rough ? 50 : 0;
  kv.unknown_commit_permille = rough ? 50 : 0;
  kv.read_error_permille = rough ? 5 : 0;
  const bool breaking = on && weather_ == Weather::breaking;
  disk.sync_error_permille = breaking ? 10 : 0;
  kv.unresolved_commit_permille = breaking ? 10 : 0;
  const bool silent = on && weather_ == Weather::silent;
  disk.lost_write_permille = silent ? 10 : 0;
  disk.misdirected_write_permille = silent ? 10 : 0;
}

std::pair<uint32_t, uint32_t> Simulation::pick_range() {
  const uint64_t bits = small_ && random().chance(9, 10) ? 14 : 19;
  uint64_t length = 1 + random().below(uint64_t{1} << random().below(bits));
  uint64_t begin = random().below(kChunkLength);
  // Favour blocks and maps and their borders.
  if (random().chance(1, 2)) begin = align_down(begin, 4096);
  if (random().chance(1, 8)) begin = align_down(begin, limits::kMapBytes);
  if (random().chance(1, 2)) length = align_up(length, 4096);
  length = std::min<uint64_t>(length, kChunkLength - begin);
  return {static_cast<uint32_t>(begin), static_cast<uint32_t>(begin + length)};
}

std::byte* Simulation::pick_memory(Slot& slot, uint32_t length) {
  slot.memory.resize(length + 8192);
  auto address = reinterpret_cast<uintptr_t>(slot.memory.data());
  std::byte* aligned = slot.memory.data() + (align_up(address, 4096) - address);
  constexpr uint32_t kSkews[] = {0, 0, 0, 512, 1, 4095};
  return aligned + kSkews[random().below(std::size(kSkews))];
}

template <class Operation>
void Simulation::submit(Slot& slot, Operation& op) {
  op.owner = &slot;
  op.completion = [](engine::Op& ended) {
    Slot& its = ended.owner_as<Slot>();
    its.simulation.on_end(its, ended);
  };
  rig_.target().submit(op);
}

void Simulation::start_write(Slot& slot) {
  const auto [begin, end] = pick_range();
  const uint64_t id = next_id_++;
  WriteOp& op = slot.write;
  op.chunk = kChunks[slot.chunk];
  op.offset = begin;
  op.source = {pick_memory(slot, end - begin), end - begin, engine::kNoBuffer,
               engine::MemoryKind::host};
  op.durable = small_ ? random().chance(9, 10) : random().chance(1, 3);
  fill_content(id, begin, op.source.bytes());
  Update update{id, begin, end, slot.started};
  slot.updates.emplace_back(slot.chunk, histories_[slot.chunk].begin(update));
  submit(slot, op);
}

void Simulation::start_read(Slot& slot) {
  const auto [begin, end] = pick_range();
  ReadOp& op = slot.read;
  op.chunk = kChunks[slot.chunk];
  op.offset = begin;
  op.destination = {pick_memory(slot, end - begin), end - begin, engine::kNoBuffer,
                    engine::MemoryKind::host};
  std::fill_n(op.destination.data, op.destination.length, std::byte{0xdd});
  submit(slot, op);
}

void Simulation::start_clear(Slot& slot) {
  const auto [begin, end] = pick_range();
  ClearOp& op = slot.clear;
  op.chunk = kChunks[slot.chunk];
  op.begin = begin;
  op.end = random().chance(1, 2) ? kWholeChunk : end;
  op.durable = random().chance(1, 3);
  Update update{0, begin, op.end == kWholeChunk ? kChunkLength : end, slot.started};
  slot.updates.emplace_back(slot.chunk, histories_[slot.chunk].begin(update));
  submit(slot, op);
}

void Simulation::start_remove(Slot& slot) {
  RemoveOp& op = slot.remove;
  op.inode = kChunks[slot.chunk].inode;
  op.first_chunk = static_cast<uint32_t>(random().below(2));
  op.durable = random().chance(1, 2);
  for (size_t i = 0; i < kChunkCount; ++i) {
    if (kChunks[i].inode != op.inode || kChunks[i].index < op.first_chunk) continue;
    slot.updates.emplace_back(i, histories_[i].begin({0, 0, kChunkLength, slot.started}));
  }
  submit(slot, op);
}

uint64_t Simulation::pick_kind() {
  // A clear, removal, sync or large write kicks a commit: seldom, for records to gather.
  const bool any = !small_ || random().chance(1, 8);
  return random().below(any ? 100 : 60);
}

void Simulation::start(Slot& slot) {
  // The database's disk fills up, and has room again.
  if (weather_ == Weather::full && random().chance(1, rig_.kv_full ? 6 : 12)) {
    rig_.kv_full = !rig_.kv_full;
  }
  slot.busy = true;
  slot.updates.clear();
  slot.started = now_++;
  slot.chunk = random().below(kChunkCount);
  const uint64_t draw = pick_kind();
  if (draw < 42) {
    slot.kind = Kind::write;
    start_write(slot);
  } else if (draw < 78) {
    slot.kind = Kind::read;
    start_read(slot);
  } else if (draw < 86) {
    slot.kind = Kind::clear;
    start_clear(slot);
  } else if (draw < 88) {
    slot.kind = Kind::remove;
    start_remove(slot);
  } else if (draw < 96) {
    slot.kind = Kind::sync;
    slot.sync.inode = random().chance(1, 2) ? kChunks[slot.chunk].inode : InodeId{};
    submit(slot, slot.sync);
  } else if (draw < 99) {
    slot.kind = Kind::end_query;
    slot.end_query.inode = kChunks[slot.chunk].inode;
    submit(slot, slot.end_query);
  } else {
    slot.kind = Kind::scrub;
    if (calm()) {
      slot.scrub.on_damage = [this](const Damage& damage) {
        if (!down_) complain(fmt::format("scrub found damage: block {}", damage.block));
      };
    }
    submit(slot, slot.scrub);
  }
}

void Simulation::on_end(Slot& slot, engine::Op& op) {
  slot.busy = false;
  ++operations_;
  const Status status = op.status;
  rig_.world.trace("end", static_cast<uint64_t>(slot.kind), static_cast<uint64_t>(status.code()));
  failures_ += status.ok() ? 0 : 1;
  const bool may_be_full = weather_ == Weather::tight || weather_ == Weather::full;
  if (calm() && !down_ && !status.ok() && !(may_be_full && status.code() == Code::no_space)) {
    complain(fmt::format("operation {} ended with {}", static_cast<int>(slot.kind), status.name()));
  }
  switch (slot.kind) {
    case Kind::read:
      on_read(slot, status);
      break;
    case Kind::write:
      on_update(slot, status, slot.write.durable);
      if (status.ok() && slot.write.durable) on_durable(slot.write.chunk.inode, slot.started);
      break;
    case Kind::clear:
      on_update(slot, status, slot.clear.durable);
      break;
    case Kind::remove:
      on_update(slot, status, slot.remove.durable);
      break;
    case Kind::sync:
      if (status.ok()) on_durable(slot.sync.inode, slot.started);
      break;
    case Kind::end_query:
    case Kind::scrub:
      break;
  }
  ++now_;
}

void Simulation::refill() {
  if (stopping_) return;
  for (uint32_t i = 0; i < depth_; ++i) {
    if (!slots_[i]->busy) start(*slots_[i]);
  }
}

// True if all is well and the target is still up.
bool Simulation::work(uint64_t count) {
  const uint64_t until = operations_ + count;
  stopping_ = false;
  depth_ = static_cast<uint32_t>(1 + random().below(kDepthMax));
  const bool came = rig_.world.run_until(
      [&] {
        if (operations_ >= until || !complaint_.empty() || !rig_.core().failed.ok()) return true;
        refill();
        return false;
      },
      std::chrono::minutes(10));
  if (!came) complain("no progress");
  stopping_ = true;
  return complaint_.empty() && rig_.core().failed.ok();
}

void Simulation::crash() {
  moved_ += rig_.core().defragmenter.moved();
  const Counters& counters = rig_.core().counters;
  logged_ += counters.logged.value();
  records_ += counters.log_records.value();
  replayed_ += counters.replayed.value();
  const uint64_t longest = random().chance(1, 2) ? 600'000 : 6'000'000;
  rig_.world.run_for(engine::Duration(static_cast<int64_t>(random().below(longest))));
  down_ = true;
  if (random().chance(1, 2)) {
    rig_.power_cut();
  } else {
    rig_.kill();
    // After a mere kill everything that was visible and committed is there; what was visible
    // and not committed is not.
  }
  for (const auto& slot : slots_) {
    if (slot->busy) complain("an operation never ended");
  }
  down_ = false;
}

// Nobody moves blocks and everything is committed, until set_defragment(). False: a commit failed.
bool Simulation::come_to_rest() {
  rig_.target().set_defragment(false);
  if (!rig_.world.run_until([&] { return rig_.core().defragmenter.idle(); })) {
    complain("moving blocks does not end");
  }
  return rig_.sync().ok();
}

std::string Simulation::run(int lives) {
  for (int life = 0; life < lives && complaint_.empty(); ++life) {
    set_faults(false);
    // It dies while it opens, again and again.
    while (life > 0 && random().chance(1, 3)) {
      const engine::Duration soon(static_cast<int64_t>(random().below(3'000'000)));
      if (rig_.begin_or_crash(soon, random().chance(1, 2))) rig_.crash(random().chance(1, 2));
    }
    if (!rig_.begin()) return "cannot open: " + rig_.refusal.message;
    if (life > 0) {
      verify_after_crash();
      if (complaint_.empty()) verify_scrub();
      if (complaint_.empty() && come_to_rest()) verify_space();
      rig_.target().set_defragment(defragment_);
    }
    set_faults(true);
    bool up = complaint_.empty() && work(20 + random().below(60));
    if (up && random().chance(1, 2)) {
      // Let everything end, and check what only holds at rest.
      rig_.world.run_until([&] {
        return std::none_of(slots_.begin(), slots_.end(), [](auto& s) { return s->busy; });
      });
      set_faults(false);
      if (rig_.core().failed.ok()) {
        ++now_;
        const bool synced = come_to_rest();
        if (synced) on_durable(InodeId{}, now_++);
        if (weather_ != Weather::silent && synced) verify_space();
        rig_.target().set_defragment(defragment_);
      }
      set_faults(true);
      up = complaint_.empty() && rig_.core().failed.ok() && work(10 + random().below(20));
    }
    read_after_failure();
    crash();
    if (weather_ == Weather::silent) break;
  }
  return complaint_;
}

}  // namespace penstock::store
