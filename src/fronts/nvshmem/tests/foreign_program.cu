// What programs written for NVSHMEM expect of its headers beyond the functions: that each may be
// included by its place, in any order, that assert() comes with them, that attributes need no
// initialiser where a call fills them, and that functions may be declared again, as weak ones.
#include <bootstrap_device_host/nvshmem_uniqueid.h>
#include <device/nvshmem_coll_defines.cuh>
#include <device/nvshmem_defines.h>
#include <device/nvshmem_device_macros.h>
#include <device/nvshmemx_coll_defines.cuh>
#include <device/nvshmemx_collective_launch_apis.h>
#include <device/nvshmemx_defines.h>
#include <device_host/nvshmem_common.cuh>
#include <device_host/nvshmem_proxy_channel.h>
#include <device_host/nvshmem_tensor.h>
#include <device_host/nvshmem_types.h>
#include <device_host_transport/nvshmem_common_ibgda.h>
#include <device_host_transport/nvshmem_common_transport.h>
#include <device_host_transport/nvshmem_constants.h>
#include <host/nvshmem_api.h>
#include <host/nvshmem_coll_api.h>
#include <host/nvshmem_macros.h>
#include <host/nvshmemx_api.h>
#include <host/nvshmemx_coll_api.h>
#include <non_abi/nvshmem_build_options.h>
#include <non_abi/nvshmem_version.h>
#include <non_abi/nvshmemx_error.h>
#include <nvshmem.h>
#include <nvshmem_host.h>
#include <nvshmemx.h>

namespace program {

extern "C" void nvshmem_init() __attribute__((weak));

// Under the library's name, with another argument.
int nvshmemx_cumodule_init(uintptr_t module) {
  return ::nvshmemx_cumodule_init(reinterpret_cast<CUmodule>(module));
}

__global__ void tell_neighbour(int64_t* words, int pe) {
  const int pes = nvshmem_n_pes();
  if (threadIdx.x == 0) nvshmem_int64_p(words, pe, (pe + 1) % pes);
  nvshmemx_barrier_all_block();
  assert(*words == (pe + pes - 1) % pes);
}

int begin(int pe, int pes) {
  assert(nvshmem_init != nullptr);
  nvshmemx_uniqueid_t id;
  nvshmemx_init_attr_t attributes;
  int status = nvshmemx_get_uniqueid(&id);
  status += nvshmemx_set_attr_uniqueid_args(pe, pes, &id, &attributes);
  status += nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attributes);
  auto* words = static_cast<int64_t*>(nvshmem_calloc(1, sizeof(int64_t)));
  void* arguments[] = {&words, &pe};
  status += nvshmemx_collective_launch(reinterpret_cast<const void*>(tell_neighbour), dim3(1),
                                       dim3(32), arguments, 0, nullptr);
  return status + nvshmemx_cumodule_init(uintptr_t{0});
}

}  // namespace program
