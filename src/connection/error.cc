#include "penstock/connection/error.h"

#include <cstring>

namespace penstock::connection {
namespace {

thread_local std::string storage;
thread_local const char* message_of_thread = "no error";

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

Failure last_failure(int error) {
  return {Status::from_errno(-error), last_error()};
}

Failure failure_of(const char* what, const std::string& path, int error) {
  return {Status::from_errno(error), fmt::format("{} {}: {}", what, path, std::strerror(error))};
}

}  // namespace penstock::connection
