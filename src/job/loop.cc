#include "loop.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <sys/epoll.h>

namespace penstock::job {

Status Loop::open() {
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  return epoll_ ? Status() : Status::from_errno(errno);
}

Result<Loop::Token> Loop::watch(int fd, uint32_t events, Ready ready) {
  const Token token = next_++;
  epoll_event event{};
  event.events = events;
  event.data.u64 = token;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return Status::from_errno(errno);
  watched_[token] = {fd, events, std::make_shared<Ready>(std::move(ready))};
  return token;
}

void Loop::change(Token token, uint32_t events) {
  const auto at = watched_.find(token);
  if (at == watched_.end() || at->second.events == events) return;
  epoll_event event{};
  event.events = events;
  event.data.u64 = token;
  ASSERT(::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, at->second.fd, &event) == 0);
  at->second.events = events;
}

void Loop::forget(Token token) {
  const auto at = watched_.find(token);
  if (at == watched_.end()) return;
  // A descriptor of which another process has a duplicate stays in the set when it is closed.
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, at->second.fd, nullptr);
  watched_.erase(at);
}

Loop::Token Loop::at(Moment moment, std::function<void()> what) {
  const Token token = next_++;
  times_.emplace(moment, Timed{token, std::move(what)});
  return token;
}

void Loop::cancel(Token token) {
  const auto at = std::find_if(times_.begin(), times_.end(),
                               [&](const auto& each) { return each.second.token == token; });
  if (at != times_.end()) times_.erase(at);
}

void Loop::run_times() {
  const Moment now = std::chrono::steady_clock::now();
  while (!times_.empty() && times_.begin()->first <= now) {
    const auto what = std::move(times_.begin()->second.what);
    times_.erase(times_.begin());
    what();
  }
}

void Loop::turn() {
  int wait_ms = -1;
  if (!times_.empty()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(
        times_.begin()->first - std::chrono::steady_clock::now());
    wait_ms = static_cast<int>(std::clamp<int64_t>(left.count(), 0, 60'000));
  }
  std::array<epoll_event, 256> events{};
  const int ready = ::epoll_wait(epoll_.get(), events.data(), events.size(), wait_ms);
  ASSERT(ready >= 0 || errno == EINTR);
  for (int i = 0; i < ready; ++i) {
    const auto& event = events[static_cast<size_t>(i)];
    // One before it may have forgotten it.
    const auto at = watched_.find(event.data.u64);
    if (at == watched_.end()) continue;
    const std::shared_ptr<Ready> call = at->second.ready;
    (*call)(event.events);
  }
  run_times();
}

}  // namespace penstock::job
