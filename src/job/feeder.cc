#include "feeder.h"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

namespace penstock::job {
namespace {

// How often one in the background looks whether it came to the foreground.
constexpr std::chrono::milliseconds kForegroundAgain{500};

}  // namespace

Feeder::~Feeder() {
  stop();
}

Result<UniqueFd> Feeder::open() {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return Status::from_errno(errno);
  UniqueFd theirs(ends[0]);
  to_.reset(ends[1]);
  if (::fcntl(ends[1], F_SETFL, O_NONBLOCK) != 0) return Status::from_errno(errno);
  wait_for_input();
  return theirs;
}

void Feeder::wait_for_input() {
  const auto token = loop_.watch(terminal_, EPOLLIN, [this](uint32_t) { take_input(); });
  if (!token) return stop();
  from_token_ = *token;
}

void Feeder::take_input() {
  loop_.forget(from_token_);
  from_token_ = 0;
  // To read it from the background would stop this process.
  if (::tcgetpgrp(terminal_) != ::getpgrp()) {
    again_ = loop_.at(std::chrono::steady_clock::now() + kForegroundAgain, [this] {
      again_ = 0;
      wait_for_input();
    });
    return;
  }
  std::array<char, 4096> buffer;
  const ssize_t got = ::read(terminal_, buffer.data(), buffer.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return wait_for_input();
  if (got <= 0) return stop();
  typed_.assign(buffer.data(), static_cast<size_t>(got));
  give();
}

void Feeder::give() {
  while (!typed_.empty()) {
    const ssize_t took = ::write(to_.get(), typed_.data(), typed_.size());
    if (took > 0) {
      typed_.erase(0, static_cast<size_t>(took));
    } else if (errno == EAGAIN && to_token_ == 0) {
      const auto token = loop_.watch(to_.get(), EPOLLOUT, [this](uint32_t) { give(); });
      if (!token) return stop();
      to_token_ = *token;
      return;
    } else if (errno == EAGAIN) {
      return;
    } else if (errno != EINTR) {
      return stop();
    }
  }
  loop_.forget(to_token_);
  to_token_ = 0;
  wait_for_input();
}

void Feeder::stop() {
  loop_.forget(from_token_);
  loop_.forget(to_token_);
  loop_.cancel(again_);
  from_token_ = to_token_ = again_ = 0;
  to_.reset();
}

}  // namespace penstock::job
