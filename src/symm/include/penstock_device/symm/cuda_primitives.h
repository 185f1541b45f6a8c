// primitives.h for CUDA, from sm_70 on. Only primitives.h includes it.
#pragma once

#include "penstock_device/symm/primitives.h"

namespace penstock::device {

// ---- weak accesses: of any memory that the GPU reaches, its shared memory included ----

template <class T>
PENSTOCK_DEVICE T load_weak(const T* from) {
  return *from;
}
PENSTOCK_DEVICE SymmUnit load_weak(const SymmUnit* from) {
  const uint4 got = *reinterpret_cast<const uint4*>(from);
  return {{got.x, got.y, got.z, got.w}};
}
template <class T>
PENSTOCK_DEVICE void store_weak(T* to, T value) {
  *to = value;
}
PENSTOCK_DEVICE void store_weak(SymmUnit* to, SymmUnit value) {
  *reinterpret_cast<uint4*>(to) =
      make_uint4(value.word[0], value.word[1], value.word[2], value.word[3]);
}

PENSTOCK_DEVICE void prefetch_to_l2(const void* from) {
  asm volatile("prefetch.L2 [%0];" : : "l"(from));
}

// ---- system accesses: of global memory, here or of another PE ----

#define PENSTOCK_SYSTEM_WORD(WORD, SUFFIX, REGISTER)          \
  PENSTOCK_DEVICE WORD load_system(const WORD* from) {        \
    WORD out;                                                 \
    asm volatile("ld.relaxed.sys.global." SUFFIX " %0, [%1];" \
                 : "=" REGISTER(out)                          \
                 : "l"(from)                                  \
                 : "memory");                                 \
    return out;                                               \
  }                                                           \
  PENSTOCK_DEVICE WORD load_acquire(const WORD* from) {       \
    WORD out;                                                 \
    asm volatile("ld.acquire.sys.global." SUFFIX " %0, [%1];" \
                 : "=" REGISTER(out)                          \
                 : "l"(from)                                  \
                 : "memory");                                 \
    return out;                                               \
  }                                                           \
  PENSTOCK_DEVICE void store_system(WORD* to, WORD value) {   \
    asm volatile("st.relaxed.sys.global." SUFFIX " [%0], %1;" \
                 :                                            \
                 : "l"(to), REGISTER(value)                   \
                 : "memory");                                 \
  }
PENSTOCK_SYSTEM_WORD(uint16_t, "u16", "h")
PENSTOCK_SYSTEM_WORD(uint32_t, "u32", "r")
PENSTOCK_SYSTEM_WORD(uint64_t, "u64", "l")
#undef PENSTOCK_SYSTEM_WORD

// Bytes travel in wider registers.
PENSTOCK_DEVICE uint8_t load_system(const uint8_t* from) {
  uint16_t out;
  asm volatile("ld.relaxed.sys.global.u8 %0, [%1];" : "=h"(out) : "l"(from) : "memory");
  return static_cast<uint8_t>(out);
}
PENSTOCK_DEVICE void store_system(uint8_t* to, uint8_t value) {
  asm volatile("st.relaxed.sys.global.u8 [%0], %1;"
               :
               : "l"(to), "h"(static_cast<uint16_t>(value))
               : "memory");
}
PENSTOCK_DEVICE SymmUnit load_system(const SymmUnit* from) {
  SymmUnit out;
  asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(out.word[0]), "=r"(out.word[1]), "=r"(out.word[2]), "=r"(out.word[3])
               : "l"(from)
               : "memory");
  return out;
}

// Each word of a pair is whole; the second may be newer than the first, and the other way round.
PENSTOCK_DEVICE SymmPair load_system(const SymmPair* from) {
  SymmPair out;
  asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(out.word[0]), "=l"(out.word[1])
               : "l"(from)
               : "memory");
  return out;
}
PENSTOCK_DEVICE void store_system(SymmPair* to, SymmPair value) {
  asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};"
               :
               : "l"(to), "l"(value.word[0]), "l"(value.word[1])
               : "memory");
}

// Words that change at once for every processor that has access.
#define PENSTOCK_SYSTEM_ATOMIC(NAME, WORD, OPERATION, REGISTER)        \
  PENSTOCK_DEVICE WORD fetch_##NAME##_system(WORD* at, WORD value) {   \
    WORD out;                                                          \
    asm volatile("atom.relaxed.sys.global." OPERATION " %0, [%1], %2;" \
                 : "=" REGISTER(out)                                   \
                 : "l"(at), REGISTER(value)                            \
                 : "memory");                                          \
    return out;                                                        \
  }                                                                    \
  PENSTOCK_DEVICE void NAME##_system(WORD* at, WORD value) {           \
    asm volatile("red.relaxed.sys.global." OPERATION " [%0], %1;"      \
                 :                                                     \
                 : "l"(at), REGISTER(value)                            \
                 : "memory");                                          \
  }
PENSTOCK_SYSTEM_ATOMIC(add, uint32_t, "add.u32", "r")
PENSTOCK_SYSTEM_ATOMIC(add, uint64_t, "add.u64", "l")
PENSTOCK_SYSTEM_ATOMIC(and, uint32_t, "and.b32", "r")
PENSTOCK_SYSTEM_ATOMIC(and, uint64_t, "and.b64", "l")
PENSTOCK_SYSTEM_ATOMIC(or, uint32_t, "or.b32", "r")
PENSTOCK_SYSTEM_ATOMIC(or, uint64_t, "or.b64", "l")
PENSTOCK_SYSTEM_ATOMIC(xor, uint32_t, "xor.b32", "r")
PENSTOCK_SYSTEM_ATOMIC(xor, uint64_t, "xor.b64", "l")
#undef PENSTOCK_SYSTEM_ATOMIC

#define PENSTOCK_SYSTEM_SWAP(WORD, SUFFIX, REGISTER)                              \
  PENSTOCK_DEVICE WORD swap_system(WORD* at, WORD value) {                        \
    WORD out;                                                                     \
    asm volatile("atom.relaxed.sys.global.exch." SUFFIX " %0, [%1], %2;"          \
                 : "=" REGISTER(out)                                              \
                 : "l"(at), REGISTER(value)                                       \
                 : "memory");                                                     \
    return out;                                                                   \
  }                                                                               \
  PENSTOCK_DEVICE WORD compare_swap_system(WORD* at, WORD expected, WORD value) { \
    WORD out;                                                                     \
    asm volatile("atom.relaxed.sys.global.cas." SUFFIX " %0, [%1], %2, %3;"       \
                 : "=" REGISTER(out)                                              \
                 : "l"(at), REGISTER(expected), REGISTER(value)                   \
                 : "memory");                                                     \
    return out;                                                                   \
  }
PENSTOCK_SYSTEM_SWAP(uint32_t, "b32", "r")
PENSTOCK_SYSTEM_SWAP(uint64_t, "b64", "l")
#undef PENSTOCK_SYSTEM_SWAP

// ---- order ----

// What this thread did, or saw by a barrier of its block or warp, is seen by whoever sees what it
// stores after this; and what others did before they stored what it has read is seen after this.
PENSTOCK_DEVICE void fence_system() {
  asm volatile("fence.acq_rel.sys;" : : : "memory");
}
// Also between a store and a later load: of two that store, fence and load, one sees the other.
PENSTOCK_DEVICE void fence_system_total() {
  asm volatile("fence.sc.sys;" : : : "memory");
}

// The same value, of which the compiler knows nothing.
PENSTOCK_DEVICE uint64_t forgotten(uint64_t value) {
  asm volatile("" : "+l"(value));
  return value;
}

// ---- company ----

constexpr uint32_t kSymmLanes = 32;  // of a warp

template <Scope kScope>
struct Company;

template <>
struct Company<Scope::thread> {
  static PENSTOCK_DEVICE uint32_t rank() { return 0; }
  static PENSTOCK_DEVICE uint32_t size() { return 1; }
  static PENSTOCK_DEVICE void meet() {}
  static PENSTOCK_DEVICE bool all(bool vote) { return vote; }
};

// What one did before it is seen by the others after it, in all of these.
template <>
struct Company<Scope::warp> {
  static PENSTOCK_DEVICE uint32_t rank() {
    uint32_t out;
    asm("mov.u32 %0, %%laneid;" : "=r"(out));
    return out;
  }
  static PENSTOCK_DEVICE uint32_t size() { return 32; }
  static PENSTOCK_DEVICE void meet() { __syncwarp(); }
  static PENSTOCK_DEVICE bool all(bool vote) {
    const bool out = __all_sync(0xffffffffu, vote) != 0;
    __syncwarp();  // a vote alone orders no memory
    return out;
  }
};

template <>
struct Company<Scope::block> {
  static PENSTOCK_DEVICE uint32_t rank() {
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  }
  static PENSTOCK_DEVICE uint32_t size() { return blockDim.x * blockDim.y * blockDim.z; }
  static PENSTOCK_DEVICE void meet() { __syncthreads(); }
  static PENSTOCK_DEVICE bool all(bool vote) { return __syncthreads_and(vote) != 0; }
};

[[noreturn]] PENSTOCK_DEVICE void end_kernel() {
  asm volatile("trap;");
  __builtin_unreachable();
}

}  // namespace penstock::device
