// Kernels of a module that a program loads by the driver (modules_main.cu), in one unit, or in two
// that are linked: with MORE the other one.
#include <nvshmem.h>

#ifdef MORE
__device__ int right_of_me() {
  return (nvshmem_my_pe() + 1) % nvshmem_n_pes();
}
#else
#ifdef LINKED
__device__ int right_of_me();
#else
__device__ int right_of_me() {
  return (nvshmem_my_pe() + 1) % nvshmem_n_pes();
}
#endif

// Puts what it is told, and this PE's number, into the right neighbour's word.
extern "C" __global__ void put_number(int* destination, int tens) {
  nvshmem_int_p(destination, tens * 10 + nvshmem_my_pe(), right_of_me());
}
// What the state is after nvshmemx_cumodule_finalize().
extern "C" __global__ void tell_number(int* number) {
  *number = nvshmem_my_pe();
}
#endif
