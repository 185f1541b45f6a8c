/* Launching kernels that sync with other PEs' kernels: all their blocks have to run at the same
 * time.
 *
 * Here, and not in the library, as a kernel is named by a host function, which only the CUDA
 * runtime that the program is linked with knows. */
#ifndef PENSTOCK_NVSHMEM_LAUNCH_H
#define PENSTOCK_NVSHMEM_LAUNCH_H

#include <cuda_runtime.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of the library: fills the states of all units on the current device; 0 when that is done. */
int penstock_nvshmem_ready(void);

#ifdef __cplusplus
}
#endif

/* Puts into *gridsize how many blocks of this kernel run at the same time. */
static inline int nvshmemx_collective_launch_query_gridsize(const void* func, dim3 blockDims,
                                                            void** args, size_t sharedMem,
                                                            int* gridsize) {
  int device = 0, processors = 0, each = 0;
  const int threads = (int)(blockDims.x * blockDims.y * blockDims.z);
  (void)args;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device) != cudaSuccess ||
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, func, threads, sharedMem) !=
          cudaSuccess) {
    return NVSHMEMX_ERROR_INTERNAL;
  }
  *gridsize = each * processors;
  return NVSHMEMX_SUCCESS;
}

/* Called by all PEs. A grid of 0 is as many blocks as run at the same time; one of more is refused.
 */
static inline int nvshmemx_collective_launch(const void* func, dim3 gridDims, dim3 blockDims,
                                             void** args, size_t sharedMem, cudaStream_t stream) {
  int most = 0;
  int status = penstock_nvshmem_ready();
  if (status != 0) return status;
  status = nvshmemx_collective_launch_query_gridsize(func, blockDims, args, sharedMem, &most);
  if (status != NVSHMEMX_SUCCESS) return status;
  if (gridDims.x * gridDims.y * gridDims.z == 0) {
    gridDims.x = (unsigned)most;
    gridDims.y = 1;
    gridDims.z = 1;
  }
  if (most == 0 || gridDims.x * gridDims.y * gridDims.z > (unsigned)most)
    return NVSHMEMX_ERROR_INVALID_VALUE;
  return cudaLaunchCooperativeKernel(func, gridDims, blockDims, args, sharedMem, stream) ==
                 cudaSuccess
             ? NVSHMEMX_SUCCESS
             : NVSHMEMX_ERROR_COLLECTIVE_LAUNCH_FAILED;
}

#endif /* PENSTOCK_NVSHMEM_LAUNCH_H */
