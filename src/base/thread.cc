#include "penstock/base/thread.h"

#include <fmt/format.h>
#include <pthread.h>
#include <system_error>

namespace penstock {

// A thread begins with the signal mask of the one that starts it.
SignalsBlocked::SignalsBlocked() {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before_);
}

SignalsBlocked::~SignalsBlocked() {
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

Outcome<std::thread> start_thread(const char* what, std::function<void()> body) {
  const SignalsBlocked scope;
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& error) {
    return Failure{Code::busy,
                   fmt::format("start {}: {} (allow more threads: 'ulimit -u', or the container's "
                               "limit of processes)",
                               what, error.code().message())};
  }
}

}  // namespace penstock
