// What the typed collective operations of the host are made of: on the program's streams, or
// complete when they return, on a stream of this library that waits for none of the program's own,
// nor for any other call of the host but those of the same team.
#pragma once

#include "typed_memory.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace penstock::nvshmem {

// Where an operation is made: on a stream, or on the team's own until it is complete.
struct Where {
  engine::DeviceStream stream = nullptr;
  bool is_awaited = false;
};
constexpr Where kAwaited = {nullptr, true};

// dest and source, and what the operation counts: bytes, or elements.
struct Buffers {
  void* dest;
  const void* source;
  uint64_t count;
};

int do_broadcast(const char* call, int32_t team, const Buffers& bytes, int root, Where where);
int do_fcollect(const char* call, int32_t team, const Buffers& bytes, Where where);
int do_alltoall(const char* call, int32_t team, const Buffers& bytes, Where where);
int do_reduce(const char* call, int32_t team, symm::DeviceCollectives::Reduction reduction,
              const Buffers& elements, Where where);
int do_reducescatter(const char* call, int32_t team, symm::DeviceCollectives::Reduction reduction,
                     const Buffers& elements, Where where);

template <class T>
constexpr symm::Element element_of() {
  using symm::Element;
  if (std::is_same_v<T, half>) return Element::f16;
  if (std::is_same_v<T, __nv_bfloat16>) return Element::bf16;
  if (std::is_same_v<T, float>) return Element::f32;
  if (std::is_same_v<T, double>) return Element::f64;
  constexpr Element kSigned[] = {Element::s8, Element::s16, Element::s32, Element::s64};
  constexpr Element kUnsigned[] = {Element::u8, Element::u16, Element::u32, Element::u64};
  constexpr int kSize = std::countr_zero(sizeof(T));
  return std::is_signed_v<T> ? kSigned[kSize] : kUnsigned[kSize];
}

template <class T>
Buffers in_bytes(const char* call, T* dest, const T* source, size_t nelems) {
  return {dest, source, bytes_of(call, elements<T>(nelems))};
}

// ---- on the program's streams ----

template <class T>
int broadcast_on_stream(const char* call, nvshmem_team_t team, T* dest, const T* source,
                        size_t nelems, int root, cudaStream_t stream) {
  return do_broadcast(call, team, in_bytes(call, dest, source, nelems), root, {stream});
}
template <class T>
int fcollect_on_stream(const char* call, nvshmem_team_t team, T* dest, const T* source,
                       size_t nelems, cudaStream_t stream) {
  return do_fcollect(call, team, in_bytes(call, dest, source, nelems), {stream});
}
template <class T>
int alltoall_on_stream(const char* call, nvshmem_team_t team, T* dest, const T* source,
                       size_t nelems, cudaStream_t stream) {
  return do_alltoall(call, team, in_bytes(call, dest, source, nelems), {stream});
}
template <symm::Combine kCombine, class T>
int reduce_on_stream(const char* call, nvshmem_team_t team, T* dest, const T* source,
                     size_t nreduce, cudaStream_t stream) {
  return do_reduce(call, team, {kCombine, element_of<T>()}, {dest, source, nreduce}, {stream});
}
template <symm::Combine kCombine, class T>
int reducescatter_on_stream(const char* call, nvshmem_team_t team, T* dest, const T* source,
                            size_t nreduce, cudaStream_t stream) {
  return do_reducescatter(call, team, {kCombine, element_of<T>()}, {dest, source, nreduce},
                          {stream});
}

// ---- complete when they return ----

template <class T>
int broadcast(const char* call, nvshmem_team_t team, T* dest, const T* source, size_t nelems,
              int root) {
  return do_broadcast(call, team, in_bytes(call, dest, source, nelems), root, kAwaited);
}
template <class T>
int fcollect(const char* call, nvshmem_team_t team, T* dest, const T* source, size_t nelems) {
  return do_fcollect(call, team, in_bytes(call, dest, source, nelems), kAwaited);
}
template <class T>
int alltoall(const char* call, nvshmem_team_t team, T* dest, const T* source, size_t nelems) {
  return do_alltoall(call, team, in_bytes(call, dest, source, nelems), kAwaited);
}
template <symm::Combine kCombine, class T>
int reduce(const char* call, nvshmem_team_t team, T* dest, const T* source, size_t nreduce) {
  return do_reduce(call, team, {kCombine, element_of<T>()}, {dest, source, nreduce}, kAwaited);
}
template <symm::Combine kCombine, class T>
int reducescatter(const char* call, nvshmem_team_t team, T* dest, const T* source, size_t nreduce) {
  return do_reducescatter(call, team, {kCombine, element_of<T>()}, {dest, source, nreduce},
                          kAwaited);
}

}  // namespace penstock::nvshmem
