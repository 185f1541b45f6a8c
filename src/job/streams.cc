#include "streams.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "penstock/job/limits.h"

namespace penstock::job {
namespace {

// A terminal's input goes to who is in the foreground.
constexpr std::chrono::milliseconds kAgainInForeground{500};
// A line and its label.
constexpr size_t kBegunMax = limits::kLineBytesMax + 256;

}  // namespace

OutputStream::~OutputStream() {
  loop_.forget(token_);
}

Result<UniqueFd> OutputStream::open() {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return Status::from_errno(errno);
  UniqueFd theirs(ends[1]);
  from_.reset(ends[0]);
  // The end of who writes blocks, as a program expects.
  if (::fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0) return Status::from_errno(errno);
  watch();
  if (token_ == 0) return Code::busy;
  return theirs;
}

void OutputStream::watch() {
  ASSERT(token_ == 0 && from_);
  const auto token = loop_.watch(from_.get(), EPOLLIN, [this](uint32_t) { take(); });
  token_ = token ? *token : 0;
}

void OutputStream::take() {
  while (from_ && under_way_ < limits::kStreamBytesUnderWay) {
    const size_t wanted =
        std::min({limits::kStreamBytesUnderWay - under_way_, kBegunMax - begun_.size(), left_});
    std::array<char, limits::kStreamBytesUnderWay> buffer;
    const ssize_t got = wanted == 0 ? 0 : ::read(from_.get(), buffer.data(), wanted);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN && !finishing_) return;
    if (got <= 0) {
      finished_ = true;
      give(true);
      return close();
    }
    begun_.append(buffer.data(), static_cast<size_t>(got));
    if (left_ != SIZE_MAX) left_ -= static_cast<size_t>(got);
    give(!whole_lines_);
    // Nothing that is labelled has such lines.
    if (begun_.size() == kBegunMax) give(true);
  }
  // A pipe that is watched for nothing would still tell its end.
  loop_.forget(std::exchange(token_, 0));
}

void OutputStream::give(bool all) {
  const size_t end = all ? begun_.size() : begun_.rfind('\n') + 1;
  if (end == 0) return;
  under_way_ += end;
  give_(std::string_view(begun_).substr(0, end));
  begun_.erase(0, end);
}

void OutputStream::took(size_t bytes) {
  under_way_ -= std::min(bytes, under_way_);
  if (!from_ || token_ != 0 || under_way_ >= limits::kStreamBytesUnderWay) return;
  watch();
  if (token_ == 0) return close();
  take();
}

void OutputStream::close() {
  loop_.forget(std::exchange(token_, 0));
  from_.reset();
  begun_.clear();
  finished_ = true;
}

void OutputStream::finish() {
  if (finishing_ || finished_) return;
  finishing_ = true;
  const int size = ::fcntl(from_.get(), F_GETPIPE_SZ);
  left_ = size > 0 ? static_cast<size_t>(size) : 0;
  if (under_way_ < limits::kStreamBytesUnderWay) take();
}

InputStream::~InputStream() {
  loop_.forget(token_);
}

Result<UniqueFd> InputStream::open() {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return Status::from_errno(errno);
  UniqueFd theirs(ends[0]);
  to_.reset(ends[1]);
  if (::fcntl(ends[1], F_SETFL, O_NONBLOCK) != 0) return Status::from_errno(errno);
  return theirs;
}

bool InputStream::take(std::string_view bytes) {
  if (at_end_ || waiting_.size() + bytes.size() > limits::kStreamBytesUnderWay) return false;
  at_end_ = bytes.empty();
  if (!to_) return true;  // what came before it was told that nobody reads
  waiting_.append(bytes);
  if (token_ == 0) flush();
  return true;
}

void InputStream::flush() {
  size_t written = 0;
  while (written < waiting_.size()) {
    const ssize_t took = ::write(to_.get(), waiting_.data() + written, waiting_.size() - written);
    if (took >= 0) {
      written += static_cast<size_t>(took);
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      close();
      return took_(0);
    }
  }
  waiting_.erase(0, written);
  if (!waiting_.empty() && token_ == 0) {
    const auto token = loop_.watch(to_.get(), EPOLLOUT, [this](uint32_t) { flush(); });
    if (!token) {
      close();
      return took_(0);
    }
    token_ = *token;
  } else if (waiting_.empty()) {
    loop_.forget(std::exchange(token_, 0));
    if (at_end_) close();
  }
  if (written > 0) took_(written);
}

void InputStream::close() {
  loop_.forget(std::exchange(token_, 0));
  to_.reset();
  waiting_.clear();
}

InputSource::InputSource(Loop& loop, int fd, Give give)
    : loop_(loop), fd_(fd), give_(std::move(give)), is_terminal_(::isatty(fd) == 1) {}

InputSource::~InputSource() {
  stop();
}

void InputSource::begin() {
  over_ = false;
  watch();
}

void InputSource::stop() {
  over_ = true;
  loop_.forget(std::exchange(token_, 0));
  loop_.cancel(std::exchange(again_, 0));
}

void InputSource::watch() {
  ASSERT(token_ == 0 && again_ == 0);
  if (over_ || under_way_ >= limits::kStreamBytesUnderWay) return;
  if (!always_ready_) {
    const auto token = loop_.watch(fd_, EPOLLIN, [this](uint32_t) { read(); });
    if (token) {
      token_ = *token;
      return;
    }
    always_ready_ = true;
  }
  while (!over_ && under_way_ < limits::kStreamBytesUnderWay && read_once()) {
  }
}

void InputSource::read() {
  loop_.forget(std::exchange(token_, 0));
  // To read it from the background would stop this process.
  if (is_terminal_ && ::tcgetpgrp(fd_) != ::getpgrp()) {
    again_ = loop_.at(std::chrono::steady_clock::now() + kAgainInForeground, [this] {
      again_ = 0;
      watch();
    });
    return;
  }
  if (read_once()) watch();
}

bool InputSource::read_once() {
  std::array<char, limits::kStreamBytesUnderWay> buffer;
  const ssize_t got = ::read(fd_, buffer.data(), limits::kStreamBytesUnderWay - under_way_);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return true;
  if (got <= 0) {
    stop();
    give_({});
    return false;
  }
  under_way_ += static_cast<size_t>(got);
  give_({buffer.data(), static_cast<size_t>(got)});
  return true;
}

void InputSource::took(size_t bytes) {
  under_way_ -= std::min(bytes, under_way_);
  if (!over_ && token_ == 0 && again_ == 0) watch();
}

}  // namespace penstock::job
