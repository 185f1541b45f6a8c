#include "room_thread.h"

#include "sockets.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

namespace penstock::job {
namespace {

// When no descriptor is left for who comes, until it is tried again.
constexpr std::chrono::milliseconds kAcceptAgain{100};

Failure failure_of_errno(const char* what) {
  return {Status::from_errno(errno), fmt::format("{}: {}", what, std::strerror(errno))};
}

}  // namespace

RoomThread::~RoomThread() {
  close(std::chrono::milliseconds(0));
}

Result<void, Failure> RoomThread::open() {
  wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_ || !loop_.open().ok()) return failure_of_errno("a room for the job");
  if (!loop_.watch(wake_.get(), EPOLLIN, [this](uint32_t) {
        uint64_t count = 0;
        (void)!::read(wake_.get(), &count, sizeof count);
      })) {
    return failure_of_errno("a room for the job");
  }
  return {};
}

Result<void, Failure> RoomThread::start(UniqueFd listener, Work work) {
  work_ = std::move(work);
  listener_ = std::move(listener);
  ::fcntl(listener_.get(), F_SETFL, O_NONBLOCK);
  listen_again();
  if (listening_ == 0) return failure_of_errno("a room for the job");
  TRY_ASSIGN(thread_, start_thread("the room of a job", [this] { serve(); }));
  return {};
}

void RoomThread::listen_again() {
  const auto token = loop_.watch(listener_.get(), EPOLLIN, [this](uint32_t) { accept_all(); });
  listening_ = token ? *token : 0;
}

void RoomThread::accept_all() {
  while (true) {
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (socket) {
      if (is_trusted(socket.get())) work_.adopt(std::move(socket));
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      loop_.forget(listening_);
      loop_.at(std::chrono::steady_clock::now() + kAcceptAgain, [this] { listen_again(); });
      return;
    } else if (errno != EINTR && errno != ECONNABORTED) {
      return;
    }
  }
}

void RoomThread::serve() {
  while (closing_ms_.load() < 0) loop_.turn();
  const auto patience = std::chrono::milliseconds(closing_ms_.load());
  const auto end = std::chrono::steady_clock::now() + patience;
  const auto timer = loop_.at(end, [] {});
  while (!work_.is_over() && std::chrono::steady_clock::now() < end) loop_.turn();
  loop_.cancel(timer);
  loop_.forget(listening_);
  listener_.reset();
  std::exchange(work_.end, nullptr)();
}

void RoomThread::close(std::chrono::milliseconds patience) {
  if (!thread_.joinable()) {
    if (const auto end = std::exchange(work_.end, nullptr))
      end();  // it did not start, or has ended
    return;
  }
  ASSERT(::getpid() == process_);
  closing_ms_.store(patience.count());
  const uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
  thread_.join();
}

}  // namespace penstock::job
