#include "labels.h"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "penstock/job/limits.h"

namespace penstock::job {

void Labeller::take(std::string_view text, std::string* lines) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view part = text.substr(0, end);
    const size_t room = limits::kLineBytesMax - begun_.size();
    begun_.append(part.substr(0, room));
    if (part.size() > room) {
      *lines += label_ + begun_ + '\n';
      begun_.clear();
      text.remove_prefix(room);
    } else if (end == std::string_view::npos) {
      return;
    } else {
      *lines += label_ + begun_ + '\n';
      begun_.clear();
      text.remove_prefix(end + 1);
    }
  }
}

void Labeller::finish(std::string* lines) {
  if (!begun_.empty()) *lines += label_ + begun_ + '\n';
  begun_.clear();
}

LabelledOutput::LabelledOutput(Loop& loop, int fd)
    : loop_(loop), sink_(loop, fd, [this] { go_on(); }) {}

LabelledOutput::~LabelledOutput() {
  for (const auto& [rank, source] : sources_) loop_.forget(source.token);
}

Result<UniqueFd> LabelledOutput::open(uint32_t rank) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return Status::from_errno(errno);
  UniqueFd theirs(ends[1]);
  Source source{UniqueFd(ends[0]), Labeller(rank)};
  // The rank's end blocks, as a program expects.
  if (::fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0) return Status::from_errno(errno);
  if (!paused_ && !watch(rank, source)) return Code::busy;
  ASSERT(sources_.emplace(rank, std::move(source)).second);
  return theirs;
}

bool LabelledOutput::watch(uint32_t rank, Source& source) {
  const auto token =
      loop_.watch(source.from.get(), EPOLLIN, [this, rank](uint32_t) { take(rank); });
  source.token = token ? *token : 0;
  return static_cast<bool>(token);
}

bool LabelledOutput::read(Source& source) {
  std::array<char, 64 * kKiB> buffer;
  const ssize_t got = ::read(source.from.get(), buffer.data(), buffer.size());
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (got == 0) return false;
  std::string lines;
  source.labeller.take({buffer.data(), static_cast<size_t>(got)}, &lines);
  sink_.write(lines);
  return true;
}

void LabelledOutput::take(uint32_t rank) {
  const auto at = sources_.find(rank);
  ASSERT(at != sources_.end());
  if (!read(at->second)) return close(rank);
  if (sink_.is_broken()) {
    // So that ranks hear what they would if they wrote there themselves.
    while (!sources_.empty()) close(sources_.begin()->first);
    return;
  }
  if (sink_.has_room()) return;
  // Who prints waits until it is read. A pipe that is watched for nothing would still tell its end.
  paused_ = true;
  for (auto& [other, source] : sources_) {
    loop_.forget(source.token);
    source.token = 0;
  }
}

void LabelledOutput::close(uint32_t rank) {
  const auto at = sources_.find(rank);
  std::string lines;
  at->second.labeller.finish(&lines);
  loop_.forget(at->second.token);
  sources_.erase(at);
  sink_.write(lines);
}

void LabelledOutput::go_on() {
  if (!paused_) return;
  paused_ = false;
  for (auto& [rank, source] : sources_) {
    if (source.token == 0) ASSERT(watch(rank, source));
  }
}

void LabelledOutput::finish() {
  for (auto& [rank, source] : sources_) {
    // A pipe has so much; what a process of a rank's goes on to print is its own business.
    for (uint64_t turn = 0; turn < 16 && read(source); ++turn) {
    }
  }
  while (!sources_.empty()) close(sources_.begin()->first);
}

}  // namespace penstock::job
