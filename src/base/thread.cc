#include "penstock/base/thread.h"

#include <csignal>
#include <fmt/format.h>
#include <pthread.h>
#include <system_error>

namespace penstock {

namespace {

// A thread begins with the signal mask of the one that starts it.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

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
