#include "error.h"

#include <atomic>
#include <pthread.h>

namespace penstock::api {
namespace {

thread_local std::string storage;
thread_local const char* message_of_thread = "no error";

// Relaxed: written only by the one thread of a process just forked.
std::atomic<uint64_t> generation{1};

}  // namespace

int fail(int error, std::string message) {
  storage = std::move(message);
  return fail_with(error, storage.c_str());
}

int fail_with(int error, const char* message) {
  message_of_thread = message;
  return -error;
}

int fail(const Failure& failure) {
  return fail(failure.status.to_errno(), failure.message);
}

const char* last_error() {
  return message_of_thread;
}

uint64_t fork_generation() {
  static const int registered = ::pthread_atfork(
      nullptr, nullptr, [] { generation.fetch_add(1, std::memory_order_relaxed); });
  (void)registered;
  return generation.load(std::memory_order_relaxed);
}

}  // namespace penstock::api
