#include "sink.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <fcntl.h>
#include <poll.h>
#include <string>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "penstock/job/limits.h"

namespace penstock::job {

Sink::Sink(Loop& loop, int fd, std::function<void()> eased)
    : loop_(loop), eased_(std::move(eased)), fd_(fd) {
  struct stat st {};
  if (::fstat(fd, &st) != 0 || S_ISREG(st.st_mode) || S_ISBLK(st.st_mode)) return;
  is_socket_ = S_ISSOCK(st.st_mode);
  if (is_socket_) return;
  // Terminals and pipes, under a description of our own.
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  own_.reset(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  if (own_) {
    fd_ = own_.get();
  } else {
    may_block_ = true;  // of another user
  }
}

Sink::~Sink() {
  loop_.forget(token_);
}

bool Sink::has_room() const {
  return waiting_.size() < limits::kOutputBytesWaiting;
}

ssize_t Sink::write_once(std::string_view text) const {
  if (is_socket_) return ::send(fd_, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (!may_block_) return ::write(fd_, text.data(), text.size());
  pollfd ready{fd_, POLLOUT, 0};
  if (::poll(&ready, 1, 0) == 0) {
    errno = EAGAIN;
    return -1;
  }
  return ::write(fd_, text.data(), std::min<size_t>(text.size(), PIPE_BUF));
}

void Sink::write(std::string_view text) {
  if (broken_) return;
  waiting_.append(text);
  if (token_ == 0) flush();
  if (!has_room()) was_full_ = true;
}

void Sink::flush() {
  size_t written = 0;
  while (written < waiting_.size()) {
    const ssize_t took = write_once(std::string_view(waiting_).substr(written));
    if (took >= 0) {
      written += static_cast<size_t>(took);
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      broken_ = true;
      written = waiting_.size();
    }
  }
  waiting_.erase(0, written);
  if (waiting_.empty()) {
    loop_.forget(token_);
    token_ = 0;
  } else if (token_ == 0) {
    wait_for_room();
  }
  if (has_room() && was_full_) {
    was_full_ = false;
    eased_();
  }
}

void Sink::wait_for_room() {
  const auto token = loop_.watch(fd_, EPOLLOUT, [this](uint32_t) { flush(); });
  if (token) {
    token_ = *token;
    return;
  }
  broken_ = true;
  waiting_.clear();
}

}  // namespace penstock::job
