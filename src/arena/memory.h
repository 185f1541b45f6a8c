// Shared memory of the agent's making, and what the other side must know of it before mapping it.
#pragma once

#include "penstock/base.h"

namespace penstock::arena {

// A memfd, mapped for writing here and sealed so that nobody else can map it for writing, and
// nobody can change its size.
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
  // Makes its pages now, large ones where the system has them.
  Status populate();

 private:
  SealedMemory(UniqueFd fd, MutableBytes bytes) : fd_(std::move(fd)), bytes_(bytes) {}
  UniqueFd fd_;
  MutableBytes bytes_;
};

// The size of shared memory that cannot shrink; bad_message for anything else.
Result<uint64_t> sealed_size(int fd);

}  // namespace penstock::arena
