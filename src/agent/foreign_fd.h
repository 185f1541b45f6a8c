// A descriptor that an application sent. Closing one may call into whatever file system it belongs
// to (FUSE waits for a flush), so that is left to a thread that nobody waits for.
#pragma once

#include <utility>

namespace penstock::agent {

class ForeignFd {
 public:
  ForeignFd() = default;
  explicit ForeignFd(int fd) : fd_(fd) {}
  ForeignFd(ForeignFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ForeignFd& operator=(ForeignFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~ForeignFd();
  int get() const { return fd_; }

  // How many wait to be closed: a file system that hangs lets them pile up, and whoever receives
  // descriptors stops at limits::kClosingMax.
  static unsigned waiting();

 private:
  int fd_ = -1;
};

}  // namespace penstock::agent
