// What each element of each PE holds in the programs that call every function (programs.py), in
// kernels and on the host alike.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define EVERY_ANYWHERE __host__ __device__
#else
#define EVERY_ANYWHERE
#endif

struct alignas(16) Bits128 {
  uint64_t low;
  uint64_t high;
};

template <class T>
EVERY_ANYWHERE inline T value_of(int pe, int i) {
  return static_cast<T>(static_cast<float>(pe % 5 * 7 + i + 1));
}
template <>
EVERY_ANYWHERE inline Bits128 value_of(int pe, int i) {
  return {static_cast<uint64_t>(pe), static_cast<uint64_t>(i) + 1};
}
template <class T>
EVERY_ANYWHERE inline bool equal(T a, T b) {
  return static_cast<float>(a) == static_cast<float>(b);
}
template <>
EVERY_ANYWHERE inline bool equal(Bits128 a, Bits128 b) {
  return a.low == b.low && a.high == b.high;
}

// What is reduced: 1 and 2 in turn, so that products of 8 PEs fit a byte.
template <class T>
EVERY_ANYWHERE inline T small(int pe, int i) {
  return static_cast<T>(static_cast<float>((pe + i) % 2 + 1));
}

constexpr int kElements = 5;
