#include "penstock/testing/environment.h"

#include <cstdlib>

namespace penstock::test {

uint64_t number_from(const char* variable, uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text != nullptr && *text != 0 ? std::strtoull(text, nullptr, 0) : otherwise;
}

}  // namespace penstock::test
