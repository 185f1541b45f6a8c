// Threads that a library starts in an application.
#pragma once

#include <csignal>
#include <functional>
#include <thread>

#include "penstock/base/result.h"

namespace penstock {

// While it lives the calling thread takes no signals, nor do threads that it starts, ever: those
// are for the program's own.
class SignalsBlocked {
 public:
  SignalsBlocked();
  ~SignalsBlocked();
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

// Starts a thread that takes no signals. busy when the process may have no thread more, which
// `what` it is for then tells: "the thread of transfers".
Outcome<std::thread> start_thread(const char* what, std::function<void()> body);

}  // namespace penstock
