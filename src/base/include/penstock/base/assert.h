// Assertions on our own invariants. They stay on in release builds: a wrong invariant next to other
// people's data is worth a crash. Never assert on what came from a peer, a disk or shared memory:
// validate that and return a Status.
#pragma once

namespace penstock {

// Prints the failed expression with file and line on standard error, then aborts.
[[noreturn]] void assertion_failed(const char* expression, const char* file, int line);

}  // namespace penstock

#define ASSERT(expression)                                           \
  do {                                                               \
    if (!(expression)) [[unlikely]] {                                \
      ::penstock::assertion_failed(#expression, __FILE__, __LINE__); \
    }                                                                \
  } while (false)

// For checks too costly for release builds.
#ifdef PENSTOCK_DASSERT
#define DASSERT(expression) ASSERT(expression)
#else
#define DASSERT(expression) \
  do {                      \
  } while (false)
#endif
