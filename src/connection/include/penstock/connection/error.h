// The calling thread's last error, for penstock_last_error().
#pragma once

#include <string>

#include "penstock/base.h"

namespace penstock::connection {

// Remembers `message` for the calling thread and returns -`error`.
int fail(int error, std::string message);
int fail(const Failure& failure);
// The same for a message that lives for ever; allocates nothing.
int fail_with(int error, const char* message);
const char* last_error();

// Of a call of penstock.h that has failed with `error` in this thread.
Failure last_failure(int error);
// Of a system call: "open /a: permission denied".
Failure failure_of(const char* what, const std::string& path, int error);

}  // namespace penstock::connection
