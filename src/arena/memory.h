// Shared memory of the agent's making, and what the other side must know of it before mapping it.
#pragma once

#include "penstock/base.h"

namespace penstock::arena {

// A memfd, mapped for writing here and sealed so that no other process can map it for writing, and
// none can change its size.
class SealedMemory {
 public:
  static Result<SealedMemory> make(const char* name, uint64_t bytes);
  SealedMemory() = default;
  SealedMemory(SealedMemory&& other) noexcept
      : fd_(std::move(other.fd_)), bytes_(std::exchange(other.bytes_, {})) {}
  SealedMemory& operator=(SealedMemory&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~SealedMemory();

  int fd() const { return fd_.get(); }
  MutableBytes bytes() const { return bytes_; }
  // Makes the pages of [offset, offset + length) now, and those of the large pages around them.
  // Large ones are made where the system can: they are populated in half the time of small ones,
  // and faster to look things up in and to pin.
  Status populate(uint64_t offset, uint64_t length);

 private:
  SealedMemory(UniqueFd fd, MutableBytes bytes) : fd_(std::move(fd)), bytes_(bytes) {}
  UniqueFd fd_;
  MutableBytes bytes_;
};

inline constexpr uint64_t kLargePage = 2 * kMiB;

// Address space for a mapping that can have large pages: it begins at one, or at a multiple of
// `alignment`, a power of two. Null: there is none left.
std::byte* reserve_addresses(uint64_t bytes, uint64_t alignment = kLargePage);

// The size of shared memory that cannot shrink; bad_message for anything else.
Result<uint64_t> sealed_size(int fd);

}  // namespace penstock::arena
