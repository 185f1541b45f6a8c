#include "environment.h"

#include <cstdlib>

#include "penstock/symm.h"

namespace penstock::shmem {
namespace {

// The newer name counts where both are set.
const char* variable(const char* name) {
  const char* const value = std::getenv(("SHMEM_" + std::string(name)).c_str());
  return value != nullptr ? value : std::getenv(("SMA_" + std::string(name)).c_str());
}

}  // namespace

Outcome<Environment> read_environment() {
  Environment found;
  found.wants_version = variable("VERSION") != nullptr;
  found.wants_info = variable("INFO") != nullptr;
  found.is_debugging = variable("DEBUG") != nullptr;
  // Scripts empty what they do not want to set.
  if (const char* const size = variable("SYMMETRIC_SIZE"); size != nullptr && *size != 0) {
    auto bytes = symm::parse_size(size);
    if (!bytes)
      return Failure{bytes.error().status, "SHMEM_SYMMETRIC_SIZE: " + bytes.error().message};
    found.heap_bytes = *bytes;
  }
  if (const char* const interface = std::getenv("PENSTOCK_INTERFACE")) found.interface = interface;
  TRY_ASSIGN(found.rdma, symm::rdma_from_environment());
  return found;
}

std::string info_text() {
  return R"(Environment variables of OpenSHMEM programs:
  SHMEM_SYMMETRIC_SIZE  size of each PE's symmetric heap: a number, and k, m, g or t after it (512m, 1.5g).
                        Memory is taken as it is touched. Default: the machine's memory, divided by its PEs.
  SHMEM_VERSION         set to anything: PE 0 prints the library's version at the start
  SHMEM_INFO            set to anything: PE 0 prints this text at the start
  SHMEM_DEBUG           set to anything: each PE tells on standard error what it does at start and end
  PENSTOCK_CHECK        1: PEs compare what they are about to do together; one that does something else, or
                        nothing for PENSTOCK_CHECK_SECONDS (60), ends the job with both places in the program
  PENSTOCK_INTERFACE    where PEs are on several nodes: by which network interfaces they reach this one: how
                        their names begin, with commas between; =eth0: whole names; ^docker,lo: all but these.
                        Default: all
  PENSTOCK_RDMA         there: auto (RDMA where both have it, else TCP), off, or required (who is not reached
                        by it is not reached). Default: auto. PENSTOCK_RDMA_DEVICE: by which device
SMA_... of SHMEM_... works, too, where that is not set.
)";
}

}  // namespace penstock::shmem
