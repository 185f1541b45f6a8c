#include "penstock/chain/buffers.h"

#include "limits.h"

#include <algorithm>
#include <bit>
#include <new>
#include <sys/mman.h>

namespace penstock::chain {

std::shared_ptr<Buffers> Buffers::make(uint64_t idle_bytes_max) {
  const uint64_t idle = idle_bytes_max > 0 ? idle_bytes_max : limits::kIdleBufferBytesMax;
  return std::shared_ptr<Buffers>(new Buffers(idle));
}

// Each buffer holds on to it.
Buffers::~Buffers() {
  ASSERT(idle_ == mapped_);
  while (!slabs_.empty()) unmap(slabs_.begin());
}

void Buffers::tell(Told made, Told gone) {
  ASSERT(!made_ && !gone_);
  made_ = std::move(made);
  gone_ = std::move(gone);
  for (const auto& [address, slab] : slabs_) made_(slab.memory);
}

void Buffers::tell_nobody() {
  made_ = gone_ = nullptr;
}

Buffers::Slab& Buffers::make_slab(size_t size) {
  const size_t length = std::max<size_t>(size, limits::kBufferSlabBytes);
  void* const address =
      ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  // As any other allocation that fails.
  if (address == MAP_FAILED) throw std::bad_alloc();
  const MutableBytes memory(static_cast<std::byte*>(address), length);
  Slab& slab = slabs_[memory.data()];
  slab.memory = memory;
  slab.size = size;
  // The first in memory is taken first.
  for (size_t i = slab.count(); i > 0; --i) slab.free.push_back(memory.data() + (i - 1) * size);
  with_room_[size].push_back(&slab);
  mapped_ += length;
  idle_ += length;
  if (made_) made_(memory);
  return slab;
}

Buffers::Buffer Buffers::take(size_t length) {
  if (length == 0) return nullptr;
  const size_t size = std::bit_ceil(std::max<size_t>(length, limits::kBlockBytes));
  std::vector<Slab*>& with_room = with_room_[size];
  Slab& slab = with_room.empty() ? make_slab(size) : *with_room.back();
  std::byte* const buffer = slab.free.back();
  slab.free.pop_back();
  if (slab.free.empty()) with_room.pop_back();
  ASSERT(idle_ >= size);
  idle_ -= size;
  return {buffer, [self = shared_from_this()](std::byte* done) { self->give_back(done); }};
}

void Buffers::give_back(std::byte* buffer) {
  const auto found = std::prev(slabs_.upper_bound(buffer));
  Slab& slab = found->second;
  if (slab.free.empty()) with_room_[slab.size].push_back(&slab);
  slab.free.push_back(buffer);
  slab.last_use = ++uses_;
  idle_ += slab.size;
  while (idle_ > idle_max_ && unmap_longest_idle()) {
  }
}

// Of whatever size, so that those of one do not stay while others come and go. False: in each is
// something in use.
bool Buffers::unmap_longest_idle() {
  auto oldest = slabs_.end();
  for (auto slab = slabs_.begin(); slab != slabs_.end(); ++slab) {
    const bool is_older = oldest == slabs_.end() || slab->second.last_use < oldest->second.last_use;
    if (slab->second.is_idle() && is_older) oldest = slab;
  }
  if (oldest == slabs_.end()) return false;
  unmap(oldest);
  return true;
}

void Buffers::unmap(Slabs::iterator found) {
  const Slab& slab = found->second;
  ASSERT(slab.is_idle());
  std::erase(with_room_[slab.size], &slab);
  mapped_ -= slab.memory.size();
  idle_ -= slab.memory.size();
  if (gone_) gone_(slab.memory);
  ::munmap(slab.memory.data(), slab.memory.size());
  slabs_.erase(found);
}

}  // namespace penstock::chain
