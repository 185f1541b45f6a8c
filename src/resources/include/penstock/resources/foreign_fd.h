// A descriptor that an application sent. Closing one may call into whatever file system it belongs
// to (FUSE waits for a flush) and never return, so that is left to threads for which no other
// waits: one for each session that has something to close, so that sessions do not wait for each
// other.
#pragma once

#include <chrono>
#include <string>
#include <utility>

#include "penstock/resources/accounts.h"

namespace penstock::resources {

class ForeignFd {
 public:
  ForeignFd() = default;
  // `sender`: whose close it is, however long that takes.
  ForeignFd(int fd, std::shared_ptr<Account> sender) : fd_(fd), sender_(std::move(sender)) {}
  ForeignFd(ForeignFd&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)),
        sender_(std::move(other.sender_)),
        charge_(std::move(other.charge_)) {}
  ForeignFd& operator=(ForeignFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(sender_, other.sender_);
    std::swap(charge_, other.charge_);
    return *this;
  }
  ~ForeignFd();
  int get() const { return fd_; }

  // Counts for the sender until it is closed. busy: that has too many.
  Status charge();

 private:
  int fd_ = -1;
  std::shared_ptr<Account> sender_;
  Charge charge_;
};

// Descriptors whose close has begun a while ago and has not ended, by user: "3 of user 1000".
// Empty when there are none. Waits until there are none, or for `patience`.
std::string descriptors_that_hang(std::chrono::milliseconds patience);

}  // namespace penstock::resources
