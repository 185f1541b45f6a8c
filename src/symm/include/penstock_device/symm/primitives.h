// The few things that symmetric memory's device code does to memory and to its company, for CUDA
// and for host code that plays a kernel in tests. C++14, as programs are compiled with what they
// choose.
//
// Memory is of two kinds here. "Weak" accesses are bytes that nobody else touches at the time; only
// a fence or an acquire makes them seen elsewhere. "System" accesses are of single words that
// several processors read and write at once; they are never torn, but order nothing by themselves.
#pragma once

#include "penstock_device/symm/state.h"

#if defined(__CUDACC__)
#include <cuda_runtime.h>
#if !defined(PENSTOCK_DEVICE)
#define PENSTOCK_DEVICE __device__ inline
#endif
// Code that is worth a call: it is long, and inlining it everywhere makes programs longer still.
#define PENSTOCK_DEVICE_CALL __device__ __noinline__ inline
#define PENSTOCK_UNROLL _Pragma("unroll")
#define PENSTOCK_NOT_UNROLLED _Pragma("unroll 1")
#else
#if !defined(PENSTOCK_DEVICE)
#define PENSTOCK_DEVICE inline
#endif
#define PENSTOCK_DEVICE_CALL inline
#define PENSTOCK_UNROLL
#define PENSTOCK_NOT_UNROLLED
#endif

namespace penstock::device {

// Who does one operation together: all of them call it, with the same arguments.
enum class Scope { thread, warp, block };

// 16 bytes, moved at once.
struct alignas(16) SymmUnit {
  uint32_t word[4];
};

// The unsigned word of a size, or the unit, in which the bits of any type of that size are moved.
template <int kBytes>
struct WordOf;
template <>
struct WordOf<1> {
  using type = uint8_t;
};
template <>
struct WordOf<2> {
  using type = uint16_t;
};
template <>
struct WordOf<4> {
  using type = uint32_t;
};
template <>
struct WordOf<8> {
  using type = uint64_t;
};
template <>
struct WordOf<16> {
  using type = SymmUnit;
};
template <class T>
using Word = typename WordOf<sizeof(T)>::type;

template <class To, class From>
PENSTOCK_DEVICE To bits_as(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "the same bits");
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

}  // namespace penstock::device

#if defined(__CUDACC__)
#include "penstock_device/symm/cuda_primitives.h"
#else
#include "penstock_device/symm/host_primitives.h"
#endif
