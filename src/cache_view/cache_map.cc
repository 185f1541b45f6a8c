#include "penstock/cache_view/cache_map.h"

#include "limits.h"

#include <algorithm>
#include <cstring>

namespace penstock::cache_view {

using arena::kExtentBytes;

std::optional<uint64_t> CacheView::read(InodeId inode, uint64_t offset, MutableBytes to,
                                        Hits* hits) {
  uint64_t done = 0;
  while (done < to.size()) {
    const arena::Extent extent{inode, static_cast<uint32_t>((offset + done) / kExtentBytes)};
    const auto begin = static_cast<uint32_t>((offset + done) % kExtentBytes);
    const arena::Found found = reader_->find(extent);
    if (!found) return std::nullopt;
    const std::optional<uint64_t> copied = copy(found, begin, to.subspan(done));
    if (!copied) return std::nullopt;
    done += *copied;
    note_hit(found.slot, hits);
    if (found.valid < kExtentBytes) break;
  }
  if (ended()) return std::nullopt;
  return done;
}

bool CacheView::ended() const {
  const auto now = engine::system_clock().now().time_since_epoch().count();
  return ended_.load(std::memory_order_acquire) ||
         !reader_->is_valid_at(static_cast<uint64_t>(now));
}

void CacheView::note_hit(uint32_t slot, Hits* hits) {
  if (++hits->untold < limits::kHitsPerTouch) return;
  log_.touch(slot, hits->untold);
  hits->untold = 0;
}

CacheView::~CacheView() {
  for (uint32_t slab = 0; slab < pinned_slabs_; ++slab) devices_->unpin(slab_of(slab));
}

Status CacheView::pin(engine::DeviceMemory& devices) {
  devices_ = &devices;
  // Not of an agent that is gone: its successor's memory comes sooner.
  while (pinned_slabs_ < reader_->slabs_mapped() && !ended_.load(std::memory_order_acquire)) {
    const Outcome<void> pinned = devices.pin(slab_of(pinned_slabs_), true);
    if (!pinned) {
      log::warning("the node cache cannot be read by GPUs: {}", pinned.error().message);
      return pinned.error().status;
    }
    ++pinned_slabs_;
    pinned_slots_.store(pinned_slabs_ * reader_->geometry().slab_slots(),
                        std::memory_order_release);
  }
  return Code::ok;
}

// Devices only read it, as all threads of this process.
MutableBytes CacheView::slab_of(uint32_t slab) const {
  const uint64_t bytes = reader_->geometry().slab_bytes;
  const std::byte* const first = reader_->slots().data() + slab * bytes;
  return {const_cast<std::byte*>(first), static_cast<size_t>(bytes)};
}

void CacheView::prefetch_bytes(InodeId inode, uint64_t offset) const {
  const arena::Found found = reader_->find({inode, static_cast<uint32_t>(offset / kExtentBytes)});
  if (!found) return;
  __builtin_prefetch(found.checksums);
  // The processor goes on by itself from there.
  const std::byte* const bytes = found.data + offset % kExtentBytes;
  for (size_t line = 0; line < limits::kPrefetchLines; ++line)
    __builtin_prefetch(bytes + line * 64);
}

// Each block is verified as it lands: where the copy has all of it in the copy, else in the slot.
std::optional<uint64_t> CacheView::copy(const arena::Found& found, uint32_t begin,
                                        MutableBytes to) const {
  if (begin >= found.valid)
    return reader_->still(found.ticket) ? std::optional<uint64_t>(0) : std::nullopt;
  const auto length = static_cast<uint32_t>(std::min<uint64_t>(found.valid - begin, to.size()));
  std::memcpy(to.data(), found.data + begin, length);
  const uint32_t end = begin + length;
  bool good = true;
  for (uint32_t block = begin / arena::kBlockBytes; block * arena::kBlockBytes < end; ++block) {
    const uint32_t first = block * arena::kBlockBytes;
    const uint32_t last = std::min(first + arena::kBlockBytes, found.valid);
    const bool whole = first >= begin && last <= end;
    const std::byte* bytes = whole ? to.data() + (first - begin) : found.data + first;
    good = good && crc32c(Bytes(bytes, last - first)) == found.checksums->block[block];
  }
  // What was taken away meanwhile does not match either, mostly.
  if (!reader_->still(found.ticket) || !good) return std::nullopt;
  return length;
}

// ---- the map ----

void CacheMap::want() {
  if (given_up_.load(std::memory_order_relaxed) || wanted_.exchange(true)) return;
  const std::lock_guard lock(mutex_);
  if (stop_.load()) return;
  if (thread_.joinable()) return wanted_.notify_one();
  Outcome<std::thread> started =
      start_thread("the thread that maps the node cache", [this] { run(); });
  if (started) {
    thread_ = std::move(*started);
  } else {
    // Reads go by the agent until want() is called again.
    wanted_.store(false);
    log::warning("{}", started.error().message);
  }
}

void CacheMap::use_devices(engine::DeviceMemory& devices) {
  devices_.store(&devices, std::memory_order_release);
  want();
}

void CacheMap::connection_lost() {
  std::shared_ptr<CacheView> dropped;  // without the lock
  const std::lock_guard lock(mutex_);
  if (view_ != nullptr) view_->end();
  dropped = std::move(view_);
  ++drops_;
  given_up_.store(false, std::memory_order_relaxed);
  serial_.fetch_add(1, std::memory_order_release);
}

void CacheMap::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_.store(true);
    wanted_.store(true);
    wanted_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<CacheView> CacheMap::view() {
  const std::lock_guard lock(mutex_);
  return view_;
}

void CacheMap::run() {
  while (true) {
    wanted_.wait(false);
    wanted_.store(false);
    if (stop_.load()) return;
    const Status mapped = map();
    // A connection that is lost comes back by itself, and connection_lost() says so.
    if (!mapped.ok() && mapped != Code::peer_gone) given_up_.store(true, std::memory_order_relaxed);
  }
}

Status CacheMap::map() {
  uint64_t drops = 0;
  std::shared_ptr<CacheView> view;
  {
    const std::lock_guard lock(mutex_);
    drops = drops_;
    view = view_;
  }
  if (view == nullptr) {
    TRY_ASSIGN(view, map_index());
  }
  while (view->wants_more()) {
    UniqueFd slab;
    const connection::Connection::Answer answer =
        connection_.call_for(wire::MapSlab{view->reader().slabs_mapped()}, &slab);
    if (!answer) return answer.error().status;
    TRY(view->reader().add_slab(slab));
  }
  {
    const std::lock_guard lock(mutex_);
    // Of a connection that was lost in between: want() was called again by then.
    if (drops != drops_) return Code::ok;
    if (view != view_) {
      view_ = view;
      serial_.fetch_add(1, std::memory_order_release);
    }
  }
  // Afterwards, as it takes long: what is pinned already can be used meanwhile.
  engine::DeviceMemory* const devices = devices_.load(std::memory_order_acquire);
  // Where GPUs cannot read it, programs still can.
  if (devices != nullptr && !view->pin(*devices).ok()) {
    devices_.store(nullptr, std::memory_order_release);
  }
  return Code::ok;
}

Result<std::shared_ptr<CacheView>> CacheMap::map_index() {
  UniqueFd index;
  connection::Connection::Answer answer = connection_.call_for(wire::MapCache{}, &index);
  if (!answer) return answer.error().status;
  TRY_ASSIGN(std::unique_ptr<arena::Reader> reader, arena::Reader::open(std::move(index)));
  if (touch_log_.bytes().empty()) {
    auto made = connection::SharedMemory::make("penstock-touches", sizeof(arena::TouchLogMemory));
    if (!made) return made.error().status;
    touch_log_ = std::move(*made);
  }
  // Without it hits are not counted; already_exists: a try before this one got so far.
  answer = connection_.call(wire::KeepTouchLog{}, false, {touch_log_.fd()});
  if (!answer && answer.error().status != Code::already_exists) {
    log::debug("the node does not take a log of cache hits: {}", answer.error().message);
  }
  return reaper_.keep(std::make_unique<CacheView>(std::move(reader), touch_log_.bytes()));
}

}  // namespace penstock::cache_view
