#include "penstock/arena/reader.h"

#include "memory.h"

#include <algorithm>
#include <cerrno>
#include <sys/mman.h>

#include "penstock/arena/order.h"

namespace penstock::arena {

Result<std::unique_ptr<Reader>> Reader::open(UniqueFd index) {
  TRY_ASSIGN(const uint64_t bytes, sealed_size(index.get()));
  if (bytes < kHeaderBytes) return Code::bad_message;
  std::byte* const base = reserve_addresses(bytes);
  if (base == nullptr) return Code::no_memory;
  if (::mmap(base, bytes, PROT_READ, MAP_SHARED | MAP_FIXED, index.get(), 0) == MAP_FAILED) {
    const Status failed = Status::from_errno(errno);
    ::munmap(base, bytes);
    return failed;
  }
  const Result<Geometry> geometry = Geometry::read(*reinterpret_cast<const Header*>(base), bytes);
  if (!geometry) {
    ::munmap(base, bytes);
    return geometry.error();
  }
  // As much as the geometry says stays mapped, so that the destructor knows what to unmap.
  if (bytes > geometry->index_bytes()) {
    ::munmap(base + geometry->index_bytes(), bytes - geometry->index_bytes());
  }
  std::byte* const slots =
      reserve_addresses(uint64_t{geometry->slots_max} * kExtentBytes, geometry->slab_bytes);
  if (slots == nullptr) {
    ::munmap(base, geometry->index_bytes());
    return Code::no_memory;
  }
  return std::unique_ptr<Reader>(new Reader(*geometry, base, slots));
}

Reader::Reader(const Geometry& geometry, const std::byte* index, std::byte* slots)
    : geometry_(geometry),
      index_(index),
      entries_(reinterpret_cast<const Entry*>(index + kHeaderBytes)),
      checksums_(reinterpret_cast<const Checksums*>(index + geometry.checksums_offset())),
      slots_(slots) {}

Reader::~Reader() {
  ::munmap(const_cast<std::byte*>(index_), geometry_.index_bytes());
  ::munmap(slots_, uint64_t{geometry_.slots_max} * kExtentBytes);
}

Status Reader::add_slab(const UniqueFd& slab) {
  const uint32_t number = slabs_.load(std::memory_order_relaxed);
  if (number == geometry_.slabs_max()) return Code::invalid_argument;
  TRY_ASSIGN(const uint64_t bytes, sealed_size(slab.get()));
  if (bytes < geometry_.slab_bytes) return Code::bad_message;
  void* slot_memory = slots_ + number * geometry_.slab_bytes;
  if (::mmap(slot_memory, geometry_.slab_bytes, PROT_READ, MAP_SHARED | MAP_FIXED, slab.get(), 0) ==
      MAP_FAILED) {
    return Status::from_errno(errno);
  }
  slabs_.store(number + 1, std::memory_order_release);
  return Code::ok;
}

uint32_t Reader::slabs_offered() const {
  const auto& header = *reinterpret_cast<const Header*>(index_);
  // Relaxed: a slab that it counts is asked for over the session, which orders the rest.
  return std::min(load_word(header.slabs, std::memory_order_relaxed), geometry_.slabs_max());
}

bool Reader::is_valid_at(uint64_t now) const {
  const auto& header = *reinterpret_cast<const Header*>(index_);
  // Relaxed: an older value is an earlier time.
  return now < load_word(header.valid_until, std::memory_order_relaxed);
}

Found Reader::find(Extent extent) const {
  const uint32_t mask = geometry_.entries - 1;
  auto at = home_of(extent, mask);
  for (uint32_t i = 0; i < kProbesMax; ++i, at = (at + 1) & mask) {
    const Entry& entry = entries_[at];
    // Acquire pairs with the release at the end of Table::write(): the fields belong to it, or to a
    // change that the second look at the sequence sees.
    const uint64_t sequence = load_word(entry.sequence, std::memory_order_acquire);
    const uint64_t inode = load_word(entry.inode, std::memory_order_relaxed);
    if (inode == 0) return {};
    if (inode != extent.inode.value ||
        load_word(entry.extent, std::memory_order_relaxed) != extent.number) {
      continue;
    }
    Found found;
    found.slot = load_word(entry.slot, std::memory_order_relaxed);
    found.valid = load_word(entry.valid, std::memory_order_relaxed);
    found.ticket = {sequence, at};
    // Acquire pairs with the release in add_slab(), perhaps of another thread.
    const uint32_t mapped = slabs_.load(std::memory_order_acquire) * geometry_.slab_slots();
    if ((sequence & 1) != 0 || found.slot >= mapped || found.valid == 0 ||
        found.valid > kExtentBytes || !still(found.ticket)) {
      return {};
    }
    found.data = slots_ + uint64_t{found.slot} * kExtentBytes;
    found.checksums = &checksums_[found.slot];
    return found;
  }
  return {};
}

bool Reader::still(const Ticket& ticket) const {
  order_loads();
  return load_word(entries_[ticket.entry].sequence, std::memory_order_relaxed) == ticket.sequence;
}

}  // namespace penstock::arena
