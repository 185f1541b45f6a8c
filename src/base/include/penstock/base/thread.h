// Threads that a library starts in somebody else's program.
#pragma once

#include <functional>
#include <thread>

#include "penstock/base/result.h"

namespace penstock {

// Starts a thread that takes no signals: those are for the program's own threads. busy when the
// process may have no thread more, which `what` it is for then tells: "the thread of transfers".
Outcome<std::thread> start_thread(const char* what, std::function<void()> body);

}  // namespace penstock
