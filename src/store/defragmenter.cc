#include "defragmenter.h"

#include "core.h"

#include <algorithm>

namespace penstock::store {

using limits::kBlockBytes;
using limits::kMapBlocks;

Defragmenter::Defragmenter(Core& core)
    : core_(core),
      enabled_(core.config.defragment.enabled),
      wait_(core.config.defragment.wait),
      memory_(limits::kMoveBlocks * kBlockBytes) {
  timer_.owner = scan_.owner = this;
  timer_.completion = [](engine::Op& op) { op.owner_as<Defragmenter>().on_timer(); };
  scan_.completion = [](engine::Op& op) { op.owner_as<Defragmenter>().on_scanned(); };
  scan_.mode = engine::KvMode::read;
  scan_.home = &core.loop;
  scan_.breaks_min = core.config.defragment.breaks_min;
  for (Io& io : ios_) {
    io.owner = this;
    io.completion = [](engine::Op& op) { op.owner_as<Defragmenter>().on_io(static_cast<Io&>(op)); };
    idle_ios_[idle_io_count_++] = &io;
  }
}

Defragmenter::~Defragmenter() {
  core_.loop.cancel(timer_);
  if (request_.linked()) request_.unlink();
}

uint32_t Defragmenter::measure(const BlockMap& map) const {
  return scattered_blocks(map, core_.config.defragment.breaks_min);
}

void Defragmenter::note(uint32_t before, uint32_t after) {
  if (before == after) return;
  ASSERT(scattered_ + after >= before);
  scattered_ += after;
  scattered_ -= before;
  core_.counters.scattered_blocks.set(scattered_);
  if (stage_ == Stage::idle) wake();
}

bool Defragmenter::may_work() const {
  return enabled_ && core_.failed.ok() && !core_.closing && !closed_;
}

// Whether enough is scattered: a pass reads the records of all maps.
bool Defragmenter::worth_a_pass() const {
  return scattered_ != 0 && scattered_ * limits::kScatterShare >= core_.mapped_blocks;
}

void Defragmenter::wake() {
  if (stage_ == Stage::idle && may_work() && worth_a_pass()) wait(wait_);
}

void Defragmenter::stop() {
  if (stage_ != Stage::waiting) return;
  core_.loop.cancel(timer_);
  stage_ = Stage::idle;
  in_pass_ = false;
}

void Defragmenter::enable(bool enabled) {
  enabled_ = enabled;
  if (enabled) {
    wake();
  } else {
    stop();
  }
}

void Defragmenter::wait(engine::Duration time) {
  stage_ = Stage::waiting;
  core_.loop.start(timer_, core_.loop.now() + time);
}

void Defragmenter::on_timer() {
  if (in_pass_) {
    next_piece();
  } else {
    begin_pass();
  }
}

void Defragmenter::begin_pass() {
  in_pass_ = true;
  pass_began_ = core_.loop.now();
  moved_before_pass_ = moved_;
  scan_.begin = {};
  (void)others_worked();  // what happened long ago does not count
  scan();
}

void Defragmenter::end_pass() {
  in_pass_ = false;
  stage_ = Stage::idle;
  if (!may_work() || !worth_a_pass()) {
    wait_ = core_.config.defragment.wait;
    core_.check_closed();
    return;
  }
  // Nothing could be moved: no room, damage, or updates all the time.
  wait_ = moved_ != moved_before_pass_ ? core_.config.defragment.wait
                                       : std::min(2 * wait_, limits::kDefragmentWaitMax);
  // It rests between passes, also where updates scatter as fast as it mends.
  const engine::Duration took = core_.loop.now() - pass_began_;
  wait(std::max(wait_, took * limits::kPassPause));
}

void Defragmenter::scan() {
  if (!may_work()) return end_pass();
  stage_ = Stage::scanning;
  core_.kv.submit(scan_);
}

void Defragmenter::on_scanned() {
  next_key_ = 0;
  // The records cannot be read: a read that needs them says so.
  closed_ = closed_ || scan_.status.code() == Code::closed;
  if (!scan_.status.ok()) return end_pass();
  next_piece();
}

void Defragmenter::next_piece() {
  if (!may_work() || core_.committer.full()) return end_pass();
  if (next_key_ < scan_.count) return begin_piece();
  if (!scan_.more) return end_pass();
  scan_.begin = scan_.next;
  scan();
}

// Neighbouring maps, as far as they are scattered and share an aligned group of kMoveMaps.
void Defragmenter::begin_piece() {
  const MapKey first = scan_.keys[next_key_];
  uint32_t maps = 1;
  while (next_key_ + maps < scan_.count) {
    const MapKey expected{first.chain, first.chunk, first.index + maps};
    if (scan_.keys[next_key_ + maps] != expected || expected.index % limits::kMoveMaps == 0) break;
    ++maps;
  }
  piece_began_ = core_.loop.now();
  reads_max_ = others_worked() ? limits::kMoveReadsBusy : limits::kMoveReads;
  stage_ = Stage::holding;
  ASSERT(!request_.linked() && request_.maps_held == 0 && request_.ios == 0);
  request_.kind = RequestKind::move;
  request_.op = &unused_;
  request_.chain = first.chain;
  request_.chunk = first.chunk;
  const auto begin = static_cast<uint32_t>(first.index * limits::kMapBytes);
  set_range(request_, begin, begin + static_cast<uint32_t>(maps * limits::kMapBytes));
  const bool inline_arrays = core_.take_arrays(request_);
  ASSERT(inline_arrays);
  step(request_);
}

void Defragmenter::step(Request& request) {
  if (request.status.ok() && !core_.maps.hold(request, false)) return;
  if (request.status.ok() && may_work() && undisturbed()) {
    pick_blocks();
    if (count_ != 0) return begin_move();
  }
  end_piece();
}

void Defragmenter::end_piece() {
  next_key_ += request_.map_count;
  take_a_break();
}

// While others work, most of the time is theirs. In any case the loop gets a turn.
void Defragmenter::take_a_break() {
  core_.maps.let_go(request_);
  if (!may_work()) return end_pass();
  const engine::Duration took = core_.loop.now() - piece_began_;
  wait(others_worked() || reads_max_ != limits::kMoveReads ? took * limits::kMovePause
                                                           : engine::Duration::zero());
}

// Whether there were reads or updates of others since it was last asked, or are now.
bool Defragmenter::others_worked() {
  const uint64_t before = std::exchange(requests_seen_, core_.requests_ended);
  return before != requests_seen_ || core_.requests.taken() != 0;
}

// Whether no update works on the piece or waits for it: updates rely on blocks staying where they
// are.
bool Defragmenter::undisturbed() const {
  return !core_.locks.busy(request_.at(), request_.first_block,
                           request_.first_block + request_.block_count);
}

void Defragmenter::pick_blocks() {
  count_ = 0;
  for (uint32_t i = 0; i < request_.map_count; ++i) {
    for (uint32_t q = 0; request_.maps[i] != nullptr && q < limits::kMapQuarters; ++q) {
      pick_quarter(i, q);
    }
  }
}

void Defragmenter::pick_quarter(uint32_t i, uint32_t quarter) {
  const CachedMap& map = *request_.maps[i];
  if (scattered_blocks(map, quarter, core_.config.defragment.breaks_min) == 0) return;
  const uint32_t begin = quarter * limits::kQuarterBlocks;
  for (uint32_t b = begin; b < begin + limits::kQuarterBlocks; ++b) {
    if (map.blocks[b].hole()) continue;
    ASSERT(count_ < blocks_.size());
    blocks_[count_++] = {i * kMapBlocks + b, map.blocks[b], 0, false};
  }
}

// The last of the space is left to writes.
bool Defragmenter::has_room(uint32_t count) const {
  const uint64_t growth = core_.files.growth_left_bytes() / kBlockBytes;
  const uint64_t left = core_.allocator.free_blocks() + growth;
  const uint64_t all = core_.allocator.total_blocks() + growth;
  return left >= count + std::max(all / limits::kMoveReserveShare, limits::kMoveReserveBlocksMin);
}

// All of them in few runs, or none.
bool Defragmenter::allocate() {
  uint32_t done = 0;
  while (done < count_) {
    const auto run = core_.allocator.allocate(count_ - done);
    if (!run) break;
    for (uint32_t i = 0; i < run->count; ++i) blocks_[done++].to = run->first + i;
    if (run->count < std::min(limits::kMoveRunMin, count_) && done < count_) break;
  }
  if (done == count_) return true;
  while (done > 0) give_back(blocks_[--done].to);
  return false;
}

// Lets the data files become longer, but not longer than twice what is stored; true if they do.
bool Defragmenter::grow() {
  if (core_.allocator.free_blocks() > core_.mapped_blocks + limits::kGrowBlocks) return false;
  return core_.files.grow();
}

void Defragmenter::begin_move() {
  const bool room = has_room(count_);
  if (!room || core_.allocator.free_blocks() < count_ + limits::kMoveReserveBlocksMin ||
      !allocate()) {
    if (!room || !grow()) {
      // No piece of this pass would find room.
      core_.maps.let_go(request_);
      return end_pass();
    }
    core_.maps.let_go(request_);
    return wait(limits::kGrowRetryDelay);
  }
  epoch_ = core_.reclaim.enter();
  stage_ = Stage::reading;
  next_read_ = 0;
  read_more();
}

void Defragmenter::submit(engine::DiskOpKind kind, uint32_t first, uint32_t count,
                          BlockNumber physical) {
  ASSERT(idle_io_count_ > 0 && first + count <= count_);
  Io& io = *idle_ios_[--idle_io_count_];
  const DataFiles::Location at = core_.files.locate(physical);
  io.kind = kind;
  io.file = at.file;
  io.offset = at.offset;
  io.memory = {memory_.data() + uint64_t{first} * kBlockBytes, uint64_t{count} * kBlockBytes,
               engine::kNoBuffer, engine::MemoryKind::host};
  io.transferred = 0;
  io.first = first;
  io.count = count;
  core_.disk.submit(io);
}

// Keeps a number of reads under way, until all blocks are read.
void Defragmenter::read_more() {
  while (next_read_ < count_ && limits::kMoveReads - idle_io_count_ < reads_max_) {
    const uint32_t first = next_read_++;
    const BlockNumber physical = blocks_[first].from.physical;
    while (next_read_ < count_) {
      const BlockNumber next = physical + (next_read_ - first);
      if (blocks_[next_read_].from.physical != next || next % limits::kDataFileBlocks == 0) break;
      ++next_read_;
    }
    submit(engine::DiskOpKind::read, first, next_read_ - first, physical);
  }
  if (idle_io_count_ != limits::kMoveReads) return;
  const bool any =
      std::any_of(blocks_.begin(), blocks_.begin() + count_, [](auto& b) { return b.intact; });
  if (any && may_work() && undisturbed()) {
    write();
  } else {
    end_move(false);
  }
}

// The new blocks lie in few runs, so all writes are started at once. What is written for blocks
// that did not verify does not matter: apply() leaves those out.
void Defragmenter::write() {
  stage_ = Stage::writing;
  written_ = true;
  for (uint32_t first = 0; first < count_;) {
    const BlockNumber physical = blocks_[first].to;
    uint32_t count = 1;
    while (first + count < count_ && blocks_[first + count].to == physical + count &&
           (physical + count) % limits::kDataFileBlocks != 0) {
      ++count;
    }
    submit(engine::DiskOpKind::write, first, count, physical);
    first += count;
  }
}

void Defragmenter::on_io(Io& io) {
  ASSERT(idle_io_count_ < limits::kMoveReads);
  ASSERT(stage_ == Stage::reading || stage_ == Stage::writing);
  idle_ios_[idle_io_count_++] = &io;
  if (stage_ == Stage::reading) {
    verify(io);
    read_more();
    return;
  }
  closed_ = closed_ || io.status.code() == Code::closed;
  written_ = written_ && io.status.ok();
  if (idle_io_count_ == limits::kMoveReads) end_move(written_);
}

// What does not verify stays where it is, for scrub to tell of and a repair to mend.
void Defragmenter::verify(const Io& io) {
  closed_ = closed_ || io.status.code() == Code::closed;
  const bool whole = io.status.ok() && io.transferred == uint64_t{io.count} * kBlockBytes;
  for (uint32_t k = io.first; k < io.first + io.count; ++k) {
    const std::byte* at = memory_.data() + uint64_t{k} * kBlockBytes;
    blocks_[k].intact = whole && crc32c({at, kBlockBytes}) == blocks_[k].from.crc;
    if (!blocks_[k].intact) core_.counters.unmoved_blocks.add();
  }
}

void Defragmenter::give_back(BlockNumber block) {
  core_.allocator.release({block, 1});
}

void Defragmenter::end_move(bool apply_it) {
  if (apply_it && may_work() && undisturbed() && core_.committer.room() &&
      !core_.committer.full()) {
    apply();
  } else {
    for (uint32_t k = 0; k < count_; ++k) give_back(blocks_[k].to);
  }
  // Blocks that the epoch kept may have become free.
  (void)core_.reclaim.leave(epoch_);
  core_.updater.space_changed();
  end_piece();
}

// Within one turn, as every update. A map that still names the old block means the bytes that were
// read: while the epoch lasts, no block is used again.
void Defragmenter::apply() {
  ASSERT(written_ && request_.maps_held == request_.map_count);
  for (uint32_t k = 0; k < count_;) {
    const uint32_t map_index = blocks_[k].index / kMapBlocks;
    CachedMap& map = *request_.maps[map_index];
    const uint32_t before = measure(map);
    bool any = false;
    for (; k < count_ && blocks_[k].index / kMapBlocks == map_index; ++k) {
      const Moved& block = blocks_[k];
      const uint32_t within = block.index % kMapBlocks;
      if (!block.intact || map.blocks[within] != block.from) {
        give_back(block.to);
        continue;
      }
      core_.updater.replace(map, within, {block.to, block.from.crc});
      any = true;
      ++moved_;
      core_.counters.moved_blocks.add();
    }
    if (!any) continue;
    core_.committer.add(map);
    note(before, measure(map));
  }
}

}  // namespace penstock::store
