#include "environment.h"

#include <cstdlib>

#include "penstock/symm.h"

namespace penstock::nvshmem {

Outcome<Environment> read_environment() {
  Environment found;
  found.wants_version = std::getenv("NVSHMEM_VERSION") != nullptr;
  found.wants_info = std::getenv("NVSHMEM_INFO") != nullptr;
  if (const char* const size = std::getenv("NVSHMEM_SYMMETRIC_SIZE")) {
    auto bytes = symm::parse_size(size);
    if (!bytes)
      return Failure{bytes.error().status, "NVSHMEM_SYMMETRIC_SIZE: " + bytes.error().message};
    found.heap_bytes = *bytes;
  }
  return found;
}

}  // namespace penstock::nvshmem
