// Begin, end, and who is there.
#include "contexts.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <unistd.h>

namespace shmem = penstock::shmem;

SHMEM_DEFINE void pshmem_init(void) {
  shmem::begin("shmem_init", SHMEM_THREAD_SINGLE);
}
SHMEM_ALIAS(shmem_init);

SHMEM_DEFINE int pshmem_init_thread(int requested, int* provided) {
  if (requested < SHMEM_THREAD_SINGLE || requested > SHMEM_THREAD_MULTIPLE) return 1;
  shmem::begin("shmem_init_thread", requested);
  if (provided != nullptr) *provided = shmem::process().thread_level;
  return 0;
}
SHMEM_ALIAS(shmem_init_thread);

SHMEM_DEFINE void pshmem_query_thread(int* provided) {
  shmem::group("shmem_query_thread");
  *provided = shmem::process().thread_level;
}
SHMEM_ALIAS(shmem_query_thread);

SHMEM_DEFINE void pshmem_query_initialized(int* initialized) {
  *initialized = shmem::current_group.load() != nullptr ? 1 : 0;
}
SHMEM_ALIAS(shmem_query_initialized);

SHMEM_DEFINE void pshmem_finalize(void) {
  shmem::finish("shmem_finalize");
}
SHMEM_ALIAS(shmem_finalize);

SHMEM_DEFINE void pshmem_global_exit(int status) {
  shmem::group("shmem_global_exit");
  std::fflush(nullptr);
  shmem::process().member->abort(status, "shmem_global_exit");
  ::_exit(status);
}
SHMEM_ALIAS(shmem_global_exit);

SHMEM_DEFINE int pshmem_my_pe(void) {
  return static_cast<int>(shmem::group("shmem_my_pe").me());
}
SHMEM_ALIAS(shmem_my_pe);

SHMEM_DEFINE int pshmem_n_pes(void) {
  return static_cast<int>(shmem::group("shmem_n_pes").size());
}
SHMEM_ALIAS(shmem_n_pes);

// This library knows nothing of an MPI beside it.
SHMEM_DEFINE int pshmem_query_interoperability(int /*property*/) {
  shmem::group("shmem_query_interoperability");
  return 0;
}
SHMEM_ALIAS(shmem_query_interoperability);

SHMEM_DEFINE void pshmem_info_get_version(int* major, int* minor) {
  *major = SHMEM_MAJOR_VERSION;
  *minor = SHMEM_MINOR_VERSION;
}
SHMEM_ALIAS(shmem_info_get_version);

static_assert(sizeof SHMEM_VENDOR_STRING <= SHMEM_MAX_NAME_LEN);
SHMEM_DEFINE void pshmem_info_get_name(char* name) {
  std::memcpy(name, SHMEM_VENDOR_STRING, sizeof SHMEM_VENDOR_STRING);
}
SHMEM_ALIAS(shmem_info_get_name);

SHMEM_DEFINE void pstart_pes(int /*npes*/) {
  shmem::begin("start_pes", SHMEM_THREAD_SINGLE);
}
SHMEM_ALIAS(start_pes);

SHMEM_DEFINE int p_my_pe(void) {
  return static_cast<int>(shmem::group("_my_pe").me());
}
SHMEM_ALIAS(_my_pe);

SHMEM_DEFINE int p_num_pes(void) {
  return static_cast<int>(shmem::group("_num_pes").size());
}
SHMEM_ALIAS(_num_pes);

// For profiling libraries to define.
SHMEM_DEFINE void pshmem_pcontrol(int /*level*/, ...) {}
SHMEM_ALIAS(shmem_pcontrol);
