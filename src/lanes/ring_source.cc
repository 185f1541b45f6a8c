#include "ring_source.h"

#include <cerrno>

#include "penstock/lanes/limits.h"
#include "penstock/lanes/session.h"

namespace penstock::lanes {

RingSource::RingSource(engine::Loop& loop, Ring& ring, connection::Region& slots)
    : loop_(loop),
      slots_(slots),
      lane_(*ring.claim()),
      session_(ring.session()),
      cache_(session_.cache()) {}

void RingSource::submit(route::HostIo& io) {
  io.transferred = 0;
  if (!waiting_.empty() || !start(io)) waiting_.push_back(io);
}

// False when the lane is full.
bool RingSource::start(route::HostIo& io) {
  Io entry{};
  entry.operation = io.write ? ring::kOperationWrite : ring::kOperationRead;
  entry.flags = io.durable ? uint8_t{ring::kFlagDurable} : uint8_t{0};
  if (io.wants_checksums) entry.flags |= ring::kFlagChecksums;
  entry.file = static_cast<int32_t>(io.file);
  entry.offset = io.offset;
  entry.length = io.memory.length;
  entry.region = &region_of(io);
  entry.region_offset = static_cast<uint64_t>(io.memory.data - entry.region->base);
  if (io.deadline != engine::kNever) {
    entry.deadline = static_cast<uint64_t>(io.deadline.time_since_epoch().count());
  }
  entry.user_data = reinterpret_cast<uint64_t>(&io);
  ChecksumPlace place;
  if (io.checksum_place != nullptr) {
    place = {&slots_, static_cast<uint64_t>(io.checksum_place - slots_.base)};
  }
  const int error = lane_.prepare(entry, place);
  if (error == -EAGAIN) return false;
  if (error == 0) {
    prepared_ = true;
  } else {
    loop_.complete(io, Status::from_errno(-error));
  }
  return true;
}

connection::Region& RingSource::region_of(const route::HostIo& io) {
  if (io.keeper != nullptr) return *static_cast<connection::Region*>(io.keeper.get());
  ASSERT(io.memory.data >= slots_.base && io.memory.data < slots_.base + slots_.size);
  return slots_;
}

std::optional<route::Reached> RingSource::reach(uint32_t file, const engine::DeviceSpan& memory) {
  auto region = session_.regions().shown_around(memory);
  if (region == nullptr) return std::nullopt;
  const auto failed = not_by_cards_.find(file);
  if (failed != not_by_cards_.end()) {
    if (loop_.now() < failed->second) return std::nullopt;
    not_by_cards_.erase(failed);
  }
  return route::Reached{{memory.data, memory.length, engine::kNoBuffer, engine::MemoryKind::device},
                        std::move(region)};
}

void RingSource::note_failure(const route::HostIo& io, int64_t result) {
  if (not_by_cards_.size() >= limits::kFilesNotByCards) not_by_cards_.clear();
  not_by_cards_[io.file] = loop_.now() + limits::kNotByCards;
  failures_.add();
  // These two say that there is no way at the moment, which is nothing to be told of.
  if (result == -EOPNOTSUPP || result == -EINVAL) return;
  log::warning(
      "bytes between a file and GPU memory go by way of host memory: by a network card: {}",
      Status::from_errno(static_cast<int>(-result)).name());
}

bool RingSource::poll() {
  // Also when there is nothing to do: a view of a dead agent keeps its memory as long as it is
  // held.
  (void)cache_.newest();
  // Few at a time: the copies of these begin while the next are taken.
  Completion completions[limits::kSourceTake];
  const int count = lane_.take_ready(completions, limits::kSourceTake);
  for (int i = 0; i < count; ++i) {
    auto& io = *reinterpret_cast<route::HostIo*>(completions[i].user_data);
    const int64_t result = completions[i].result;
    io.transferred = result > 0 ? static_cast<uint64_t>(result) : 0;
    io.route = static_cast<engine::Route>(completions[i].route);
    if (result < 0 && io.keeper != nullptr) note_failure(io, result);
    if (io.wants_checksums) {
      const std::byte* const behind = io.memory.data + io.memory.length;
      io.checksums = reinterpret_cast<const uint32_t*>(
          io.checksum_place != nullptr ? io.checksum_place : behind);
    }
    loop_.complete(io, result < 0 ? Status::from_errno(static_cast<int>(-result)) : Status());
  }
  while (!waiting_.empty() && start(waiting_.front())) waiting_.pop_front();
  if (prepared_) lane_.submit(UINT32_MAX);
  const bool worked = count > 0 || prepared_;
  prepared_ = false;
  return worked;
}

void RingSource::sleep(engine::Time deadline) {
  lane_.sleep(deadline == engine::kNever
                  ? ring::kForever
                  : static_cast<uint64_t>(deadline.time_since_epoch().count()));
}

namespace {

// Joins the sequences of several extents' entries into one number.
uint64_t add_ticket(uint64_t before, const arena::Ticket& ticket) {
  return mix64(before ^ mix64(ticket.sequence ^ mix64(ticket.entry)));
}

}  // namespace

bool RingSource::find(uint32_t file, uint64_t offset, uint64_t length, route::Resident* resident) {
  cache_view::CacheView* const cache = cache_.newest();
  const bool may_read =
      (session_.files().access_of(static_cast<int32_t>(file)) & wire::kOpenRead) != 0;
  if (cache == nullptr || !may_read) return false;
  const InodeId inode = session_.files().inode_of(file);
  const auto number = static_cast<uint32_t>(offset / arena::kExtentBytes);
  const auto within = static_cast<uint32_t>(offset % arena::kExtentBytes);
  const arena::Found first = cache->reader().find({inode, number});
  if (!first || !cache->is_pinned(first.slot) || within >= first.valid) {
    if (cache->wants_more()) cache_.map().want();
    return false;
  }
  // Further extents, as long as they follow in memory, within one slab: it was pinned as a whole.
  const uint32_t slab_slots = cache->reader().geometry().slab_slots();
  uint32_t count = 1;
  uint32_t valid = first.valid;
  // For a single extent the ticket is that of its entry, which spares looking for it again.
  uint64_t ticket = first.ticket.sequence;
  cache->note_hit(first.slot, &cache_.hits());
  while (valid == arena::kExtentBytes && uint64_t{count} * arena::kExtentBytes < within + length &&
         (first.slot + count) % slab_slots != 0) {
    const arena::Found next = cache->reader().find({inode, number + count});
    if (!next || next.slot != first.slot + count) break;
    cache->note_hit(next.slot, &cache_.hits());
    ticket = add_ticket(count == 1 ? add_ticket(0, first.ticket) : ticket, next.ticket);
    valid = next.valid;
    ++count;
  }
  resident->data = first.data + within;
  resident->length = uint64_t{count - 1} * arena::kExtentBytes + valid - within;
  resident->ends_file = valid < arena::kExtentBytes;
  resident->checksums = &first.checksums->block[within / arena::kBlockBytes];
  resident->route = engine::Route::device_cache;
  resident->ticket[0] = ticket;
  resident->ticket[1] = inode.value;
  resident->ticket[2] = uint64_t{count == 1 ? first.ticket.entry : number} << 32 | count;
  resident->ticket[3] = reinterpret_cast<uint64_t>(cache_.use());
  return true;
}

void RingSource::prefetch(uint32_t file, uint64_t offset) {
  if (const cache_view::CacheView* const cache = cache_.newest())
    cache->prefetch_entry(session_.files().inode_of(file), offset);
}

// Each extent's entry must be as it was, which one number over all of them tells.
bool RingSource::still_there(const route::Resident& resident) {
  auto& held = *reinterpret_cast<cache_view::ViewHold::Held*>(resident.ticket[3]);
  const arena::Reader& reader = held.view().reader();
  const auto number = static_cast<uint32_t>(resident.ticket[2] >> 32);
  const auto count = static_cast<uint32_t>(resident.ticket[2]);
  DASSERT(count > 0);
  if (count == 1) return reader.still({resident.ticket[0], number}) && !held.has_ended(loop_.now());
  uint64_t ticket = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const arena::Found found = reader.find({InodeId(resident.ticket[1]), number + i});
    if (!found) return false;
    ticket = add_ticket(ticket, found.ticket);
  }
  return ticket == resident.ticket[0] && !held.has_ended(loop_.now());
}

void RingSource::release(const route::Resident& resident) {
  cache_.let_go(reinterpret_cast<cache_view::ViewHold::Held*>(resident.ticket[3]));
}

}  // namespace penstock::lanes
