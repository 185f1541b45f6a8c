#include "penstock/proxy/file_service.h"

#include "file_service_batch.h"

#include <cerrno>
#include <span>
#include <thread>
#include <utility>

#include "penstock/proxy/device_rings.h"

namespace penstock::proxy {

FileService::FileService(lanes::Session& session, DeviceRing& ring)
    : session_(session),
      ring_(ring),
      queue_(ring.queue()),
      region_(ring.region()),
      transfers_(ring.rings().transfers()),
      positions_(std::make_unique<Position[]>(queue_.geometry().entries)),
      slots_(std::make_unique<Slot[]>(queue_.geometry().entries)),
      batch_(std::make_unique<Batch>()),
      cache_(session.cache()) {
  for (auto& file : files_) file.store(-1, std::memory_order_relaxed);
  for (uint32_t i = 0; i < queue_.geometry().entries; ++i) {
    slots_[i].service = this;
    slots_[i].ended = transfer_ended;
  }
}

FileService::~FileService() = default;

Result<uint8_t> FileService::add_file(int32_t file) {
  // The search begins after the last number given: a number that was removed is given again as late
  // as possible, since a kernel that still uses it, or asks again for what did not verify, would
  // get another file's bytes.
  const uint32_t first = next_file_.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i < device::kFilesMax; ++i) {
    const uint32_t number = (first + i) % device::kFilesMax;
    int32_t none = -1;
    if (!files_[number].compare_exchange_strong(none, file, std::memory_order_relaxed)) continue;
    next_file_.store(number + 1, std::memory_order_relaxed);
    return static_cast<uint8_t>(number);
  }
  return Code::busy;
}

bool FileService::remove_file(uint32_t number) {
  return number < files_.size() && files_[number].exchange(-1, std::memory_order_relaxed) >= 0;
}

FileServiceStats FileService::stats() const {
  const auto of = [](const std::atomic<uint64_t>& count) {
    return count.load(std::memory_order_relaxed);
  };
  return {of(addresses_), of(copies_), of(writes_), of(failed_)};
}

void FileService::end() {
  for (uint32_t i = 0; i < queue_.geometry().entries; ++i) {
    if (positions_[i].busy.load(std::memory_order_acquire)) transfers_.cancel(slots_[i]);
  }
  while (in_flight_.load(std::memory_order_acquire) > 0) {
    transfers_.help();
    std::this_thread::yield();
  }
  transfers_.leave_alone();
  // The thread that drives may still be on its way out of the last one's end.
  transfers_.quiesce();
}

void FileService::serve(std::span<const Taken> asked) {
  cache_view::CacheView* const view = cache_.newest();
  if (asked.empty()) return;
  Batch& batch = *batch_;
  DASSERT(asked.size() <= batch.reads.size());
  batch.read_count = batch.transfer_count = 0;
  for (const Taken& taken : asked) sort_out(batch, taken, view);
  if (batch.read_count > 0) answer_addresses(batch, view);
  // Last, as this may take a while: no other kernel's bytes wait for it.
  for (uint32_t i = 0; i < batch.transfer_count; ++i) {
    transfer(*batch.transfers[i].taken, batch.transfers[i].file);
  }
}

// The position has been used again: no kernel copies from the address of its last answer any more.
void FileService::let_go(uint32_t index) {
  cache_view::ViewHold::Held* const held = std::exchange(positions_[index].held, nullptr);
  if (held != nullptr) cache_.let_go(held);
}

// 0, or the errno of a request that cannot be made. Kernels are not trusted.
int FileService::check(const Taken& taken, int32_t file) const {
  const device::Descriptor& asks = taken.descriptor;
  if (asks.spare != 0 || asks.operation < device::kRead || asks.operation > device::kDurableWrite ||
      asks.length == 0 || asks.length > device::kRequestBytesMax ||
      !range_within(asks.destination, asks.length, region_.size) ||
      !range_within(asks.offset, asks.length, limits::kFileBytesMax)) {
    return EINVAL;
  }
  const bool writes = asks.operation != device::kRead;
  const uint8_t needed = writes ? wire::kOpenWrite : wire::kOpenRead;
  return (session_.files().access_of(file) & needed) != 0 ? 0 : EBADF;
}

void FileService::sort_out(Batch& batch, const Taken& taken, cache_view::CacheView* view) {
  // Its answer is still to come, so this is no request of a correct kernel: the memory was written
  // over.
  if (positions_[taken.index].busy.load(std::memory_order_acquire)) return;
  let_go(taken.index);
  const device::Descriptor& asks = taken.descriptor;
  const int32_t file = files_[asks.file].load(std::memory_order_relaxed);
  const int error = check(taken, file);
  if (error != 0) return fail(taken, error);
  const Batch::One one{&taken, static_cast<uint32_t>(file)};
  if (asks.operation != device::kRead || asks.by_copy || taken.by_copy || view == nullptr ||
      asks.length > device::kAddressBytesMax) {
    return batch.by_copy(one);
  }
  Batch::Read& read = batch.reads[batch.read_count++];
  static_cast<Batch::One&>(read) = one;
  read.range =
      cache_view::CachedRange(*view, session_.files().inode_of(one.file), asks.offset, asks.length);
}

void FileService::answer_addresses(Batch& batch, cache_view::CacheView* view) {
  const std::span<Batch::Read> reads(batch.reads.data(), batch.read_count);
  for (Batch::Read& read : reads) read.found = read.range.find();
  uint32_t found = 0;
  for (Batch::Read& read : reads) {
    read.found = read.found && read.range.verify();
    found += read.found ? 1 : 0;
  }
  // After all look-ups: what was found is what the file holds only if the agent still lives.
  const bool vouched = found > 0 && !view->ended();
  for (const Batch::Read& read : reads) {
    if (!read.found || !vouched) {
      batch.by_copy(read);
      continue;
    }
    const auto address = reinterpret_cast<uint64_t>(read.range.data());
    const bool any = read.range.length() > 0;
    queue_.answer(*read.taken, any ? device::Answer{device::kAddress, address, read.range.length(),
                                                    read.range.remainder(), read.range.span_log2()}
                                   : device::Answer{device::kDone, 0, 0, 0});
    // After the answer, so that the kernel need not wait for it: only this thread lets go of the
    // view.
    ASSERT(positions_[read.taken->index].held == nullptr);
    positions_[read.taken->index].held = cache_.use();
    read.range.note_hits(&cache_.hits());
  }
  if (vouched) addresses_.fetch_add(found, std::memory_order_relaxed);
  if (found < reads.size() && view->wants_more()) cache_.map().want();
}

void FileService::fail(const Taken& taken, int error) {
  failed_.fetch_add(1, std::memory_order_relaxed);
  queue_.answer(taken, {device::kFailed, static_cast<uint64_t>(error), 0, 0});
}

void FileService::transfer(const Taken& taken, uint32_t file) {
  const device::Descriptor& asks = taken.descriptor;
  Slot& slot = slots_[taken.index];
  slot.taken = taken;
  slot.file = file;
  slot.write = asks.operation != device::kRead;
  slot.durable = asks.operation == device::kDurableWrite;
  slot.offset = asks.offset;
  slot.memory = *region_.device;
  slot.memory.data += asks.destination;
  slot.memory.length = asks.length;
  // The kernel that asks may fill the GPU, so that no other kernel could begin.
  slot.without_kernels = true;
  ASSERT(!positions_[taken.index].busy.load(std::memory_order_relaxed));
  positions_[taken.index].busy.store(true, std::memory_order_relaxed);
  in_flight_.fetch_add(1, std::memory_order_relaxed);
  transfers_.post(slot);
}

// In the thread that drives the transfers.
void FileService::transfer_ended(route::Transfer& transfer) {
  auto& slot = static_cast<Slot&>(transfer);
  FileService& self = *slot.service;
  const auto length = static_cast<uint32_t>(slot.transferred);
  const Taken taken = slot.taken;
  // The answer frees the position for the next request, so that everything else comes before it.
  (slot.write ? self.writes_ : self.copies_).fetch_add(1, std::memory_order_relaxed);
  const bool writes = slot.write;
  const uint32_t remainder = ring::remainder_from(slot.crc32c, length);
  // Cancelled by end() alone.
  const int error = slot.status == Code::cancelled ? ESHUTDOWN : slot.status.to_errno();
  ASSERT(self.positions_[taken.index].busy.load(std::memory_order_relaxed));
  self.positions_[taken.index].busy.store(false, std::memory_order_release);
  if (error != 0) {
    self.fail(taken, error);
  } else if (writes || length == 0) {
    self.queue_.answer(taken, {device::kDone, 0, length, 0});
  } else {
    self.queue_.answer(taken, {device::kLanded, 0, length, remainder});
  }
  const uint32_t before = self.in_flight_.fetch_sub(1, std::memory_order_release);
  ASSERT(before > 0);
}

}  // namespace penstock::proxy
