// Shared memory of this library's making: sealed, so that an agent may rely on its size.
#pragma once

#include "penstock/base.h"

namespace penstock::connection {

// A mapping with the descriptor behind it.
class SharedMemory {
 public:
  // `size` is rounded up to the page size; the memory has all its pages, is zeroed and can neither
  // shrink nor grow.
  static Outcome<SharedMemory> make(const char* name, uint64_t size);
  SharedMemory() = default;
  SharedMemory(SharedMemory&& other) noexcept
      : fd_(std::move(other.fd_)), bytes_(std::exchange(other.bytes_, {})) {}
  SharedMemory& operator=(SharedMemory&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~SharedMemory();

  // Once no process is to be given it any more: the mapping is enough.
  void close_fd() { fd_.reset(); }
  int fd() const { return fd_.get(); }
  MutableBytes bytes() const { return bytes_; }

 private:
  SharedMemory(UniqueFd fd, MutableBytes bytes) : fd_(std::move(fd)), bytes_(bytes) {}
  UniqueFd fd_;
  MutableBytes bytes_;
};

// Makes the pages of mapped memory that is to be shared with an agent, which makes none itself:
// they are this process's. Where that cannot be done for all of them (the file system behind them
// is full), operations that meet a missing one end with EFAULT.
void make_resident(MutableBytes memory);

}  // namespace penstock::connection
