#include "own_limits.h"

#include <cerrno>
#include <cstring>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace penstock::job {
namespace {

constexpr int kPassedOn[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};

}  // namespace

FileLimit::~FileLimit() {
  if (before_.rlim_max > 0) ::setrlimit(RLIMIT_NOFILE, &before_);
}

Result<void, Failure> FileLimit::raise(uint64_t wanted, const std::string& what) {
  ::getrlimit(RLIMIT_NOFILE, &before_);
  if (before_.rlim_max < wanted) {
    return Failure{Code::busy, fmt::format("{} take {} open files, and {} are allowed: raise the "
                                           "hard limit (ulimit -Hn, or LimitNOFILE of the service)",
                                           what, wanted, before_.rlim_max)};
  }
  // All there is: ranks bring descriptors, too.
  const rlimit most{before_.rlim_max, before_.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &most);
  return {};
}

CaughtSignals::~CaughtSignals() {
  if (of_children_) ::sigaction(SIGCHLD, &*of_children_, nullptr);
  if (!masked_) return;
  // Those that came meanwhile were for the job.
  const timespec now{};
  while (::sigtimedwait(&blocked_, nullptr, &now) > 0) {
  }
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

Result<void, Failure> CaughtSignals::begin(bool all, std::function<void(int)> caught) {
  caught_ = std::move(caught);
  // Who started this process may not want to hear of children; the launcher does.
  struct sigaction children {};
  ::sigaction(SIGCHLD, nullptr, &children);
  if (children.sa_handler == SIG_IGN || (children.sa_flags & SA_NOCLDWAIT) != 0) {
    of_children_ = children;
    struct sigaction usual {};
    usual.sa_handler = SIG_DFL;
    ::sigaction(SIGCHLD, &usual, nullptr);
  }
  sigset_t passed;
  ::sigemptyset(&passed);
  if (all) {
    for (const int signal : kPassedOn) ::sigaddset(&passed, signal);
  }
  blocked_ = passed;
  ::sigaddset(&blocked_, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &blocked_, &before_);
  masked_ = true;
  signals_.reset(::signalfd(-1, &passed, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_ || !loop_.watch(signals_.get(), EPOLLIN, [this](uint32_t) { take(); })) {
    return Failure{Status::from_errno(errno), std::strerror(errno)};
  }
  return {};
}

void CaughtSignals::take() {
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
    caught_(static_cast<int>(info.ssi_signo));
  }
}

}  // namespace penstock::job
