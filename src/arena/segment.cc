#include "penstock/arena/segment.h"

#include "ghost.h"
#include "limits.h"
#include "slab.h"
#include "slot_pool.h"
#include "table.h"

#include <algorithm>
#include <cstring>

#include "penstock/arena/order.h"

namespace penstock::arena {

Result<std::shared_ptr<Segment>> Segment::make(ReaderClass readers, const Geometry& geometry) {
  TRY_ASSIGN(SealedMemory index, SealedMemory::make("penstock-arena", geometry.index_bytes()));
  geometry.write(*reinterpret_cast<Header*>(index.bytes().data()));
  return std::shared_ptr<Segment>(new Segment(std::move(readers), geometry, std::move(index)));
}

Segment::Segment(ReaderClass readers, const Geometry& geometry, SealedMemory index)
    : readers_(std::move(readers)),
      geometry_(geometry),
      index_(std::make_unique<SealedMemory>(std::move(index))),
      ghost_(std::make_unique<Ghost>(geometry.slots_max)),
      table_(std::make_unique<Table>(
          reinterpret_cast<Entry*>(index_->bytes().data() + kHeaderBytes), geometry.entries)),
      pool_(std::make_unique<SlotPool>()) {}

Segment::~Segment() {
  ASSERT(filling_.empty());
}

int Segment::index_fd() const {
  return index_->fd();
}

void Segment::set_valid_until(uint64_t time) {
  auto& header = *reinterpret_cast<Header*>(index_->bytes().data());
  // Relaxed: see Reader::is_valid_at().
  LongWord(header.valid_until).store(time, std::memory_order_relaxed);
}

int Segment::slab_fd(uint32_t number) const {
  const std::lock_guard lock(mutex_);
  return number < slabs_.size() ? slabs_[number]->fd() : -1;
}

uint32_t Segment::slab_count() const {
  const std::lock_guard lock(mutex_);
  return static_cast<uint32_t>(slabs_.size());
}

// In large pages. Without memory for that the index grows as it is touched.
void Segment::populate_index() {
  const uint32_t slabs = slab_count();
  const uint64_t checksums = uint64_t{geometry_.slab_slots()} * sizeof(Checksums);
  if (slabs == 0) static_cast<void>(index_->populate(0, geometry_.checksums_offset()));
  static_cast<void>(index_->populate(geometry_.checksums_offset() + slabs * checksums, checksums));
}

void Segment::add_slab(std::unique_ptr<Slab> slab) {
  const std::lock_guard lock(mutex_);
  ASSERT(slabs_.size() < geometry_.slabs_max());
  slabs_.push_back(std::move(slab));
  slots_.resize(slabs_.size() * geometry_.slab_slots());
  pool_->add(geometry_.slab_slots());
  auto& header = *reinterpret_cast<Header*>(index_->bytes().data());
  // Relaxed: see Reader::slabs_offered().
  Word(header.slabs).store(static_cast<uint32_t>(slabs_.size()), std::memory_order_relaxed);
}

bool Segment::close(std::vector<std::unique_ptr<Slab>>* slabs) {
  const std::lock_guard lock(mutex_);
  if (!filling_.empty()) return false;
  closed_ = true;
  dirty_.clear();
  inodes_.clear();
  *slabs = std::move(slabs_);
  slabs_.clear();
  return true;
}

std::byte* Segment::bytes_of(uint32_t slot) const {
  ASSERT(slot < slots_.size());
  const Slab& slab = *slabs_[slot / geometry_.slab_slots()];
  return slab.bytes().data() + uint64_t{slot % geometry_.slab_slots()} * kExtentBytes;
}

Checksums* Segment::checksums_of(uint32_t slot) const {
  ASSERT(slot < slots_.size());
  return reinterpret_cast<Checksums*>(index_->bytes().data() + geometry_.checksums_offset()) + slot;
}

// ---- fills ----

Segment::Start Segment::begin_fill(Extent extent, uint32_t following, bool may_evict, Fill* fill) {
  const std::lock_guard lock(mutex_);
  if (closed_) return Start::closed;
  if (const Entry* const here = table_->find(extent)) {
    // Else the rest of a range could take the place of what is there of it already, or, with a run
    // of its own for each part that is missing, of what it has brought in itself.
    pool_->touch(here->slot);
    pool_->pass(extent);
    return Start::resident;
  }
  for (const uint32_t slot : filling_) {
    if (slots_[slot].extent == extent && !slots_[slot].poisoned) return Start::filling;
  }
  if (may_evict && pool_->free_count() == 0 && evictions_to_drain_ == 0) drain_logs();
  const uint32_t slot = pool_->take(extent, following, may_evict);
  if (slot == kNoSlot) return Start::crowded;
  if (slots_[slot].extent.inode != InodeId{}) evict(slot);
  ASSERT(slots_[slot].extent.inode == InodeId{} && pool_->state(slot) == SlotPool::State::filling);
  link(slot, extent);
  filling_.push_back(slot);
  *fill = {extent,
           slot,
           slabs_[slot / geometry_.slab_slots()]->number(),
           {bytes_of(slot), kExtentBytes}};
  return Start::begun;
}

bool Segment::publish(const Fill& fill, uint32_t valid, const Checksums& checksums) {
  const std::lock_guard lock(mutex_);
  const uint32_t slot = fill.slot;
  ASSERT(slots_[slot].extent == fill.extent && valid <= kExtentBytes);
  ASSERT(pool_->state(slot) == SlotPool::State::filling);
  const size_t filled = std::erase(filling_, slot);
  ASSERT(filled == 1);
  const bool partial = valid < kExtentBytes;
  const bool good = valid > 0 && !slots_[slot].poisoned && !(partial && slots_[slot].grew);
  if (!good) {
    free_slot(slot);
    return false;
  }
  std::memset(bytes_of(slot) + valid, 0, kExtentBytes - valid);
  *checksums_of(slot) = checksums;
  // A file has one end.
  if (partial) drop_partial(fill.extent.inode);
  if (!table_->insert(fill.extent, {slot, valid})) {
    free_slot(slot);
    return false;
  }
  if (partial) inodes_.at(fill.extent.inode).partial = slot;
  pool_->fill(slot);
  ++fills_;
  return true;
}

void Segment::abandon(const Fill& fill) {
  const std::lock_guard lock(mutex_);
  ASSERT(slots_[fill.slot].extent == fill.extent);
  const size_t filled = std::erase(filling_, fill.slot);
  ASSERT(filled == 1);
  free_slot(fill.slot);
}

uint32_t Segment::resident(Extent extent) const {
  const std::lock_guard lock(mutex_);
  const Entry* entry = table_->find(extent);
  return entry != nullptr ? entry->valid : 0;
}

bool Segment::touch(Extent extent, uint32_t first_block, uint32_t end_block) {
  return ghost_->touch(extent, {first_block, end_block});
}

// ---- changes ----

void Segment::invalidate(InodeId inode, uint64_t offset, uint64_t length) {
  const std::lock_guard lock(mutex_);
  // The thread that tells of the change may have looked for the segments before this one was
  // closed.
  if (closed_) return;
  const auto found = inodes_.find(inode);
  if (found == inodes_.end() || length == 0) return;
  const uint64_t end = length > UINT64_MAX - offset ? UINT64_MAX : offset + length;
  const uint64_t first = offset / kExtentBytes;
  const uint64_t last = std::min<uint64_t>((end - 1) / kExtentBytes, UINT32_MAX);
  for (const uint32_t slot : filling_) {
    Slot& s = slots_[slot];
    if (s.extent.inode != inode || s.extent.number > last) continue;
    (s.extent.number < first ? s.grew : s.poisoned) = true;
  }
  const uint32_t partial = found->second.partial;
  if (partial != UINT32_MAX && slots_[partial].extent.number < first) drop(partial);
  if (first > last) return;
  // Whichever are fewer are looked at: the extents of the range, or those of the file that are
  // here.
  if (last - first < 64) {
    for (uint64_t number = first; number <= last; ++number) {
      const Entry* entry = table_->find({inode, static_cast<uint32_t>(number)});
      if (entry != nullptr) drop(entry->slot);
    }
    return;
  }
  const auto still = inodes_.find(inode);
  uint32_t slot = still != inodes_.end() ? still->second.first : UINT32_MAX;
  while (slot != UINT32_MAX) {
    const uint32_t next = slots_[slot].next;
    const uint32_t number = slots_[slot].extent.number;
    if (pool_->state(slot) == SlotPool::State::used && number >= first && number <= last) {
      drop(slot);
    }
    slot = next;
  }
}

bool Segment::clean() {
  const std::lock_guard lock(mutex_);
  if (closed_) return false;
  for (uint32_t i = 0; i < limits::kCleanAtOnce && !dirty_.empty(); ++i) {
    const uint32_t slot = dirty_.back();
    dirty_.pop_back();
    if (!slots_[slot].dirty) continue;
    // Readers must not see their bytes go.
    ASSERT(slots_[slot].extent.inode == InodeId{});
    std::memset(bytes_of(slot), 0, kExtentBytes);
    slots_[slot].dirty = false;
  }
  return !dirty_.empty();
}

void Segment::link(uint32_t slot, Extent extent) {
  Inode& inode = inodes_[extent.inode];
  slots_[slot] = {extent, UINT32_MAX, inode.first};
  if (inode.first != UINT32_MAX) slots_[inode.first].previous = slot;
  inode.first = slot;
}

void Segment::unlink(uint32_t slot) {
  Slot& s = slots_[slot];
  const auto inode = inodes_.find(s.extent.inode);
  ASSERT(inode != inodes_.end());
  (s.previous == UINT32_MAX ? inode->second.first : slots_[s.previous].next) = s.next;
  if (s.next != UINT32_MAX) slots_[s.next].previous = s.previous;
  if (inode->second.partial == slot) inode->second.partial = UINT32_MAX;
  if (inode->second.first == UINT32_MAX) {
    released_.push_back(inode->first);
    inodes_.erase(inode);
  }
  s = {};
}

// Readers find it no more; the slot goes to another extent.
void Segment::evict(uint32_t slot) {
  const Entry* entry = table_->find(slots_[slot].extent);
  ASSERT(entry != nullptr && entry->slot == slot);
  table_->erase(entry);
  unlink(slot);
  ++evictions_;
  evictions_to_drain_ = (evictions_to_drain_ + 1) % limits::kEvictionsPerDrain;
}

// Readers find it no more; the slot is free.
void Segment::drop(uint32_t slot) {
  const Entry* entry = table_->find(slots_[slot].extent);
  ASSERT(entry != nullptr && entry->slot == slot);
  // What readers find is in use, and can be evicted: pairs with publish().
  ASSERT(pool_->state(slot) == SlotPool::State::used);
  table_->erase(entry);
  free_slot(slot);
  ++dropped_;
}

void Segment::drop_partial(InodeId inode) {
  const uint32_t partial = inodes_.at(inode).partial;
  if (partial != UINT32_MAX) drop(partial);
}

void Segment::free_slot(uint32_t slot) {
  unlink(slot);
  slots_[slot].dirty = true;
  if (dirty_.size() >= slots_.size()) {
    std::erase_if(dirty_, [this](uint32_t s) { return !slots_[s].dirty; });
  }
  dirty_.push_back(slot);
  pool_->give_back(slot);
}

std::vector<InodeId> Segment::take_released() {
  const std::lock_guard lock(mutex_);
  return std::exchange(released_, {});
}

bool Segment::holds(InodeId inode) const {
  const std::lock_guard lock(mutex_);
  return inodes_.contains(inode);
}

// ---- touch logs ----

Status Segment::add_log(uint64_t id, Bytes memory) {
  const std::lock_guard lock(mutex_);
  if (logs_.size() >= limits::kLogsMax) return Code::busy;
  logs_.push_back({id, TouchLogView(memory)});
  return Code::ok;
}

void Segment::remove_log(uint64_t id) {
  const std::lock_guard lock(mutex_);
  drain_logs();
  std::erase_if(logs_, [id](const Log& log) { return log.id == id; });
}

void Segment::drain_logs() {
  for (Log& log : logs_) {
    hits_ += log.view.drain([this](uint32_t slot) { pool_->touch(slot); });
  }
}

SegmentStatus Segment::status() {
  const std::lock_guard lock(mutex_);
  drain_logs();
  SegmentStatus status;
  status.readers = readers_;
  status.slab_bytes = slabs_.size() * geometry_.slab_bytes;
  status.slots = slots_.size();
  status.slots_used = slots_.size() - pool_->free_count();
  status.hits = hits_;
  status.fills = fills_;
  status.evictions = evictions_;
  status.dropped = dropped_;
  return status;
}

}  // namespace penstock::arena
