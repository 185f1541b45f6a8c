// What the source of programs.py that names every collective operation of the host is made of: for
// each one how it is called, and what has to come out.
#pragma once

#include <cstdint>
#include <cstring>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <nvshmem.h>
#include <nvshmemx.h>
#include <type_traits>

enum class Does { broadcast, fcollect, alltoall, reduce, reducescatter };

struct Call {
  nvshmem_team_t team;
  void* dest;
  const void* source;
  size_t count;
  int root;
  cudaStream_t stream;
};

struct TriedCollective {
  const char* name;
  Does does;
  size_t element;
  int (*on_stream)(const Call&);
  int (*by_host)(const Call&);
  // The i-th element that a PE gives, and what becomes of those of all, in their order.
  void (*make)(void* to, int pe, size_t i);
  void (*combine)(void* to, const void* all, int count);
};

extern const TriedCollective tried_collectives[];
extern const int tried_collectives_count;

inline uint64_t scrambled(uint64_t pe, uint64_t i) {
  uint64_t value = pe * 0x9e3779b97f4a7c15u + i * 0xbf58476d1ce4e5b9u + 0x94d049bb133111ebu;
  value ^= value >> 29;
  value *= 0xbf58476d1ce4e5b9u;
  return value ^ value >> 32;
}

// Floating-point numbers from 0.5 to 2, so that products of many stay in range and sums have to be
// made in one order to have one value.
template <class T>
void make_element(void* to, int pe, size_t i) {
  const uint64_t bits = scrambled(static_cast<uint64_t>(pe), i);
  T value;
  if constexpr (std::is_integral_v<T>) {
    value = static_cast<T>(bits);
  } else {
    value = static_cast<T>(0.5f + 1.5f * static_cast<float>(bits >> 40) / 16777216.0f);
  }
  std::memcpy(to, &value, sizeof value);
}
template <>
inline void make_element<void>(void* to, int pe, size_t i) {
  make_element<unsigned char>(to, pe, i);
}

// Narrow ones are combined in float and rounded once; integers without overflow of signs.
template <class T>
struct Accumulated {
  using type = T;
};
template <>
struct Accumulated<half> {
  using type = float;
};
template <>
struct Accumulated<__nv_bfloat16> {
  using type = float;
};

template <class T, class Combine>
void combine_elements(void* to, const void* all, int count) {
  using Wide = typename Accumulated<T>::type;
  T one;
  std::memcpy(&one, all, sizeof one);
  Wide value = static_cast<Wide>(one);
  for (int i = 1; i < count; ++i) {
    std::memcpy(&one, static_cast<const char*>(all) + sizeof(T) * static_cast<size_t>(i),
                sizeof one);
    value = Combine::template of<Wide>(value, static_cast<Wide>(one));
  }
  const T out = static_cast<T>(value);
  std::memcpy(to, &out, sizeof out);
}

// Sums and products of integers wrap.
template <class T, bool kIsInteger>
struct WrappingOf {
  using type = unsigned long long;
};
template <class T>
struct WrappingOf<T, false> {
  using type = T;
};
template <class T>
using Wrapping = typename WrappingOf<T, std::is_integral<T>::value>::type;

#define COMBINE(NAME, EXPRESSION)        \
  struct Combine_##NAME {                \
    template <class T>                   \
    static T of(T a, T b) {              \
      return static_cast<T>(EXPRESSION); \
    }                                    \
  };
COMBINE(sum, static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b))
COMBINE(prod, static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b))
COMBINE(min, b < a ? b : a)
COMBINE(max, a < b ? b : a)
COMBINE(and, a& b)
COMBINE(or, a | b)
COMBINE(xor, a ^ b)
#undef COMBINE

#define COLLECTIVE(DOES, ON_STREAM, BY_HOST, TYPE, ELEMENT, COMBINED, ...)                    \
  TriedCollective {                                                                           \
#ON_STREAM, Does::DOES, ELEMENT,                                                            \
        [](const Call& call) {                                                                  \
          return ON_STREAM(call.team, static_cast<TYPE*>(call.dest),                            \
                           static_cast<const TYPE*>(call.source), call.count, __VA_ARGS__       \
                           call.stream);                                                        \
        },                                                                                      \
        [](const Call& call) {                                                                  \
          auto* const dest = static_cast<TYPE*>(call.dest);                                     \
          auto* const source = static_cast<const TYPE*>(call.source);                           \
          return BY_HOST;                                                                       \
        },                                                                                      \
        make_element<TYPE>, COMBINED \
  }
#define TRY_BROADCAST(ON_STREAM, BY_HOST, TYPE, ELEMENT)                                          \
  COLLECTIVE(broadcast, ON_STREAM, BY_HOST(call.team, dest, source, call.count, call.root), TYPE, \
             ELEMENT, nullptr, call.root, )
#define TRY_COLLECT(DOES, ON_STREAM, BY_HOST, TYPE, ELEMENT)                               \
  COLLECTIVE(DOES, ON_STREAM, BY_HOST(call.team, dest, source, call.count), TYPE, ELEMENT, \
             nullptr, )
#define TRY_REDUCTION(DOES, ON_STREAM, BY_HOST, TYPE, NAME)                                     \
  COLLECTIVE(DOES, ON_STREAM, BY_HOST(call.team, dest, source, call.count), TYPE, sizeof(TYPE), \
             (combine_elements<TYPE, Combine_##NAME>), )
