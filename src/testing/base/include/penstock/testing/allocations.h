// How often this program has asked for memory with operator new. A program that calls these links
// penstock_testing_allocations, which replaces operator new for all of it; any thread may call.
#pragma once

#include <cstdint>

namespace penstock::test {

// By all threads, since the program began.
uint64_t allocations();
// By the calling thread.
uint64_t allocations_of_this_thread();

}  // namespace penstock::test
