// Begin, end, and who is there.
#include "api.h"

#include <atomic>
#include <cstring>
#include <unistd.h>

namespace front = penstock::nvshmem;

namespace {

// What the program has asked nvshmem_init_thread() for last: programs insist on getting that, not
// more. Calls may come from many threads whatever it is.
std::atomic<int> thread_level{NVSHMEM_THREAD_MULTIPLE};

}  // namespace

NVSHMEM_DEFINE void nvshmem_init(void) {
  front::begin("nvshmem_init", nullptr);
}

NVSHMEM_DEFINE int nvshmem_init_thread(int requested, int* provided) {
  if (requested < NVSHMEM_THREAD_SINGLE || requested > NVSHMEM_THREAD_MULTIPLE)
    return NVSHMEMX_ERROR_INVALID_VALUE;
  front::begin("nvshmem_init_thread", nullptr);
  thread_level = requested;
  if (provided != nullptr) *provided = requested;
  return 0;
}

NVSHMEM_DEFINE void nvshmem_query_thread(int* provided) {
  *provided = thread_level;
}

NVSHMEM_DEFINE void nvshmem_finalize(void) {
  front::finish("nvshmem_finalize");
}

NVSHMEM_DEFINE void nvshmem_global_exit(int status) {
  front::group("nvshmem_global_exit");
  std::fflush(nullptr);
  front::process().member->abort(status, "nvshmem_global_exit");
  ::_exit(status);
}

NVSHMEM_DEFINE int nvshmemx_init_status(void) {
  if (front::current_group.load() == nullptr) {
    return front::has_been_finalized() ? NVSHMEM_STATUS_IS_BOOTSTRAPPED
                                       : NVSHMEM_STATUS_NOT_INITIALIZED;
  }
  return front::current_device.load() == nullptr ? NVSHMEM_STATUS_IS_BOOTSTRAPPED
                                                 : NVSHMEM_STATUS_IS_INITIALIZED;
}

NVSHMEM_DEFINE int nvshmem_my_pe(void) {
  return static_cast<int>(front::group("nvshmem_my_pe").me());
}
NVSHMEM_DEFINE int nvshmem_n_pes(void) {
  return static_cast<int>(front::group("nvshmem_n_pes").size());
}

NVSHMEM_DEFINE void nvshmem_info_get_version(int* major, int* minor) {
  *major = NVSHMEM_MAJOR_VERSION;
  *minor = NVSHMEM_MINOR_VERSION;
}

NVSHMEM_DEFINE void nvshmem_info_get_name(char* name) {
  std::strncpy(name, NVSHMEM_VENDOR_STRING, NVSHMEM_MAX_NAME_LEN);
}

NVSHMEM_DEFINE void nvshmemx_vendor_get_version_info(int* major, int* minor, int* patch) {
  *major = NVSHMEM_VENDOR_MAJOR_VERSION;
  *minor = NVSHMEM_VENDOR_MINOR_VERSION;
  *patch = NVSHMEM_VENDOR_PATCH_VERSION;
}
