// Memory of a segment that somebody else writes as he likes; for tests and fuzzing.
#pragma once

#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "penstock/arena.h"

namespace penstock::arena {

constexpr uint64_t kHostileSlab = 4 * uint64_t{kExtentBytes};

class HostileMemory {
 public:
  explicit HostileMemory(uint64_t size, bool seal = true) {
    fd_.reset(::memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    require(::ftruncate(fd_.get(), static_cast<off_t>(size)) == 0);
    if (seal) require(::fcntl(fd_.get(), F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    if (size == 0) return;
    void* base = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
    require(base != MAP_FAILED);
    bytes_ = {static_cast<std::byte*>(base), size};
  }
  ~HostileMemory() {
    if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
  }
  HostileMemory(const HostileMemory&) = delete;
  HostileMemory& operator=(const HostileMemory&) = delete;

  UniqueFd descriptor() const { return UniqueFd(::dup(fd_.get())); }
  MutableBytes bytes() const { return bytes_; }

  static void require(bool expected) {
    if (!expected) std::abort();
  }

 private:
  UniqueFd fd_;
  MutableBytes bytes_;
};

// Two slabs there can be, one that is mapped.
class HostileSegment {
 public:
  HostileSegment()
      : geometry_(*Geometry::make(2 * kHostileSlab, kHostileSlab)),
        index_(geometry_.index_bytes()),
        slab_(kHostileSlab) {
    geometry_.write(*reinterpret_cast<Header*>(index_.bytes().data()));
    reader_ = std::move(*Reader::open(index_.descriptor()));
    HostileMemory::require(reader_->add_slab(slab_.descriptor()).ok());
  }

  MutableBytes index() { return index_.bytes(); }
  // Random words, some of them small, as numbers of slots are.
  void scribble(uint64_t seed) {
    auto* words = reinterpret_cast<uint32_t*>(index_.bytes().data());
    for (size_t i = 0; i < index_.bytes().size() / sizeof *words; ++i) {
      seed = mix64(seed);
      words[i] = static_cast<uint32_t>(seed >> (seed % 3 == 0 ? 61 : 32));
    }
  }
  // What some entry says that it is.
  Extent claimed(uint64_t random) const {
    const auto* entries = reinterpret_cast<const Entry*>(index_.bytes().data() + kHeaderBytes);
    const Entry& entry = entries[random % geometry_.entries];
    return {InodeId(entry.inode), entry.extent};
  }
  // True if something was found; the program ends where that leads out of the memory.
  bool look_up(Extent extent) const {
    reader_->prefetch(extent);
    HostileMemory::require(reader_->slabs_offered() <= geometry_.slabs_max());
    const Found found = reader_->find(extent);
    if (!found) return false;
    const Bytes mapped = reader_->slots().first(kHostileSlab);
    HostileMemory::require(found.data >= mapped.data() && found.valid <= kExtentBytes &&
                           found.data + kExtentBytes <= mapped.data() + mapped.size());
    volatile uint32_t sum = found.checksums->block[kBlocks - 1];
    sum = sum + static_cast<uint32_t>(found.data[found.valid - 1]);
    (void)reader_->still(found.ticket);
    return true;
  }

 private:
  const Geometry geometry_;
  HostileMemory index_;
  HostileMemory slab_;
  std::unique_ptr<Reader> reader_;
};

}  // namespace penstock::arena
