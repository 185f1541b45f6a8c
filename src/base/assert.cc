#include "penstock/base/assert.h"

#include <cstdio>
#include <cstdlib>

namespace penstock {

void assertion_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "penstock: broken invariant at %s:%d: %s\n", file, line, expression);
  std::abort();
}

}  // namespace penstock
