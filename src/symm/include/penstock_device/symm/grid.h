// Collective operations on streams, by one kernel of several blocks on each PE.
//
// Block b of a PE waits for the others' blocks b, and for no block of its own grid: so no more than
// block b of all PEs have to run at once. A first sync tells that the others have come to the
// operation (what their streams did before is done: source is written, dest may be); the last one
// that what they had to do here is done.
//
// What limits them: the links, from some hundred KiB on; a fence, which waits for the way there and
// back, and two ways of a word below. Small ones go by marked words instead (marked.h).
#pragma once

#include "penstock_device/symm/collectives.h"
#include "penstock_device/symm/grid_work.h"

namespace penstock::device {

using Block = Company<Scope::block>;

// One block's part in an operation.
struct GridBlock {
  const SymmState& state;
  const GridWork& work;
  Members members;
  uint32_t block;

  PENSTOCK_DEVICE SymmGridControl& control(int pe) const {
    return reinterpret_cast<SymmControl*>(state.peers + static_cast<uint64_t>(pe) * state.stride)
        ->grids[work.team];
  }
  PENSTOCK_DEVICE SymmGridControl& own() const {
    return reinterpret_cast<SymmControl*>(state.heap)->grids[work.team];
  }
};

PENSTOCK_DEVICE GridBlock grid_block(const SymmState& state, const GridWork& work, uint32_t block) {
  return {state, work, {work.start, work.stride, work.size, work.index}, block};
}

// The host tells it and ends what has to end; the stream goes on.
PENSTOCK_DEVICE void report_end(const SymmState& state) {
  auto* const report = reinterpret_cast<SymmReport*>(state.failure);
  store_system(&report->why, static_cast<uint32_t>(kSymmPeerGone));
}

// ---- how blocks wait for each other ----

// This block has come `steps` further, for all others. Without a fence: for what was done before
// this kernel.
PENSTOCK_DEVICE void tell_steps(const GridBlock& at, uint64_t steps) {
  for (auto i = static_cast<int>(Block::rank()); i < at.members.size;
       i += static_cast<int>(Block::size())) {
    if (i == at.members.index) continue;
    add_system(&at.control(at.members.pe(i)).arrived[at.block][at.members.index], steps);
  }
}
// The same, for what the block has done, too.
PENSTOCK_DEVICE void tell_done(const GridBlock& at, uint64_t steps) {
  Block::meet();
  // By each that tells: its own fence and its own word release, and cover what it has met.
  if (static_cast<int>(Block::rank()) < at.members.size) fence_system();
  tell_steps(at, steps);
}

// Until `member` has come so far, or all others have (-1). To all of the block.
PENSTOCK_DEVICE bool wait_for_steps(const GridBlock& at, uint64_t steps, int member) {
  bool come = true;
  for (auto i = static_cast<int>(Block::rank()); i < at.members.size && come;
       i += static_cast<int>(Block::size())) {
    if (i == at.members.index || (member >= 0 && i != member)) continue;
    const uint64_t* const word = &at.own().arrived[at.block][i];
    // The acquire pairs with the fence and the add of tell_done().
    come = wait(at.state, [&] { return load_acquire(word) >= steps; });
  }
  return Block::all(come);
}

constexpr int kAllMembers = -1;

// All have come to this operation. Gives how far this block had come before.
PENSTOCK_DEVICE bool begin_steps(const GridBlock& at, uint64_t& before) {
  tell_steps(at, 1);
  before = load_system(&at.own().steps[at.block]);
  return wait_for_steps(at, before + 1, kAllMembers);
}

// How far it is now, for the next operation; all of the block have read what it was.
PENSTOCK_DEVICE void end_steps(const GridBlock& at, uint64_t now) {
  Block::meet();
  if (Block::rank() == 0) store_system(&at.own().steps[at.block], now);
}

// ---- bytes ----

// A call: it has a loop for each width.
PENSTOCK_DEVICE_CALL void grid_move(void* to, const void* from, uint64_t bytes, PartOf whole) {
  copy_part<Source::near, Scope::block>(to, from, bytes, whole);
}

PENSTOCK_DEVICE void grid_push(const GridBlock& at_block, int member, void* dest,
                               const void* source, uint64_t bytes, PartOf whole) {
  if (bytes == 0) return;
  grid_move(at(at_block.state, dest, bytes, at_block.members.pe(member)), source, bytes, whole);
}

// What a member's dest gets from this PE in an fcollect or an alltoall.
PENSTOCK_DEVICE void push_to(const GridBlock& at, int member, PartOf whole) {
  const uint64_t bytes = at.work.bytes;
  const uint64_t theirs =
      at.work.kind == GridKind::alltoall ? bytes * static_cast<uint64_t>(member) : 0;
  grid_push(at, member, byte_offset(at.work.dest, bytes * static_cast<uint64_t>(at.members.index)),
            byte_offset(at.work.source, theirs), bytes, whole);
}

// Within this PE, by blocks that wait for nobody.
PENSTOCK_DEVICE void grid_copy_own(const GridBlock& at, PartOf whole) {
  const uint64_t bytes = at.work.bytes;
  const auto index = static_cast<uint64_t>(at.members.index);
  const bool is_broadcast = at.work.kind == GridKind::broadcast;
  if (is_broadcast && at.members.index != at.work.root) return;
  void* const to = byte_offset(at.work.dest, is_broadcast ? 0 : bytes * index);
  const void* const from =
      byte_offset(at.work.source, at.work.kind == GridKind::alltoall ? bytes * index : 0);
  if (to != from) grid_move(to, from, bytes, whole);
}

// Of a broadcast: each member but the root gets a slice from it and passes it on to the others, so
// that no link carries more than everything once. A block's part of a slice comes in steps, so that
// members pass on while the root sends.
constexpr uint64_t kBroadcastStepBytes = 128 * 1024;

PENSTOCK_DEVICE uint32_t broadcast_steps(const GridBlock& at) {
  if (at.members.size <= 2) return 1;
  const Slice slice = slice_of(at.work.bytes, at.members.size - 1, 0);
  const Slice part = slice_of(slice.bytes, static_cast<int>(at.work.blocks), 0);
  return static_cast<uint32_t>(within(divided_up(part.bytes, kBroadcastStepBytes), 1, 1u << 30));
}

// What the block sends of the slice of a member in one step.
PENSTOCK_DEVICE Slice broadcast_piece(const GridBlock& at, int member, uint32_t step,
                                      uint32_t steps) {
  const int behind_root = member - at.work.root - 1;
  const int place = behind_root < 0 ? behind_root + at.members.size : behind_root;
  const Slice slice = slice_of(at.work.bytes, at.members.size - 1, place);
  const Slice part =
      slice_of(slice.bytes, static_cast<int>(at.work.blocks), static_cast<int>(at.block));
  const Slice piece = slice_of(part.bytes, static_cast<int>(steps), static_cast<int>(step));
  return {slice.begin + part.begin + piece.begin, piece.bytes};
}

PENSTOCK_DEVICE void broadcast_push(const GridBlock& at, int member, Slice piece) {
  const void* const from = at.members.index == at.work.root ? at.work.source : at.work.dest;
  grid_push(at, member, byte_offset(at.work.dest, piece.begin), byte_offset(from, piece.begin),
            piece.bytes, {0, 1});
}

PENSTOCK_DEVICE bool broadcast_root(const GridBlock& at, uint32_t steps) {
  PENSTOCK_NOT_UNROLLED
  for (uint32_t step = 0; step < steps; ++step) {
    PENSTOCK_NOT_UNROLLED
    for (int i = 1; i < at.members.size; ++i) {
      const int member = served(at.members, i);
      broadcast_push(at, member, broadcast_piece(at, member, step, steps));
    }
    tell_done(at, 1);
  }
  return true;  // nobody sends to the root
}

PENSTOCK_DEVICE bool broadcast_others(const GridBlock& at, uint64_t begun, uint32_t steps) {
  PENSTOCK_NOT_UNROLLED
  for (uint32_t step = 0; step < steps; ++step) {
    if (!wait_for_steps(at, begun + step + 1, at.work.root)) return false;
    const Slice piece = broadcast_piece(at, at.members.index, step, steps);
    PENSTOCK_NOT_UNROLLED
    for (int i = 1; i < at.members.size; ++i) {
      const int member = served(at.members, i);
      if (member != at.work.root) broadcast_push(at, member, piece);
    }
  }
  tell_done(at, steps);
  return wait_for_steps(at, begun + steps, kAllMembers);
}

// One that has nothing to pass on tells at once all that it will ever tell, and waits for the root
// alone.
PENSTOCK_DEVICE bool receive_broadcast(const GridBlock& at) {
  constexpr uint64_t kSteps = 2;  // it has come, and all that it does is done
  tell_steps(at, kSteps);
  const uint64_t now = load_system(&at.own().steps[at.block]) + kSteps;
  const bool come = wait_for_steps(at, now, at.work.root);
  end_steps(at, now);
  return come;
}

// A broadcast, fcollect or alltoall, by one block of it. False: somebody has ended.
PENSTOCK_DEVICE bool grid_bytes(const GridBlock& at) {
  if (at.block >= at.work.blocks) return true;
  if (at.work.kind == GridKind::broadcast && at.members.size == 2 &&
      at.members.index != at.work.root) {
    return receive_broadcast(at);
  }
  uint64_t before = 0;
  if (!begin_steps(at, before)) return false;
  const uint64_t begun = before + 1;
  uint32_t steps = 1;
  bool come = false;
  if (at.work.kind == GridKind::broadcast) {
    steps = broadcast_steps(at);
    come = at.members.index == at.work.root ? broadcast_root(at, steps)
                                            : broadcast_others(at, begun, steps);
  } else {
    PENSTOCK_NOT_UNROLLED
    for (int i = 1; i < at.members.size; ++i) {
      push_to(at, served(at.members, i), {at.block, at.work.blocks});
    }
    tell_done(at, steps);
    come = wait_for_steps(at, begun + steps, kAllMembers);
  }
  end_steps(at, begun + steps);
  return come;
}

}  // namespace penstock::device
