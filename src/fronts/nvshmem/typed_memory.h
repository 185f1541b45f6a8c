// Puts and gets of the host and on streams with their types.
#pragma once

#include "calls.h"

#include <cstring>
#include <type_traits>

namespace penstock::nvshmem {

// What calls count that name a number of bits.
template <int kBits>
struct Block {
  std::byte bytes[kBits / 8];
};
template <int kBits>
Block<kBits>* as(void* address) {
  return static_cast<Block<kBits>*>(address);
}
template <int kBits>
const Block<kBits>* as(const void* address) {
  return static_cast<const Block<kBits>*>(address);
}

// Forms for memory count bytes.
template <class T>
Elements elements(size_t count) {
  return {count, std::is_void_v<T> ? 1 : sizeof(std::conditional_t<std::is_void_v<T>, char, T>)};
}

// The bits of a word, from the lowest on.
template <class T>
uint64_t bits_of(T value) {
  static_assert(sizeof value <= sizeof(uint64_t), "a word");
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}
template <class T>
T from_bits(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// ---- of the host: complete when they return, but for those that say so ----

template <class T>
void put_nbi(const char* call, T* dest, const T* source, size_t nelems, int pe) {
  put_on(call, dest, source, elements<T>(nelems), pe, own_stream(call));
  leave_for_quiet(call);
}
template <class T>
void put(const char* call, T* dest, const T* source, size_t nelems, int pe) {
  put_on(call, dest, source, elements<T>(nelems), pe, own_stream(call));
  if (nelems != 0) finish_own(call);
}
template <class T>
void get_nbi(const char* call, T* dest, const T* source, size_t nelems, int pe) {
  get_on(call, dest, source, elements<T>(nelems), pe, own_stream(call));
  leave_for_quiet(call);
}
template <class T>
void get(const char* call, T* dest, const T* source, size_t nelems, int pe) {
  get_on(call, dest, source, elements<T>(nelems), pe, own_stream(call));
  if (nelems != 0) finish_own(call);
}
template <class T>
void iput(const char* call, T* dest, const T* source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems,
          int pe) {
  iput_on(call, dest, source, {dst, sst}, elements<T>(nelems), pe, own_stream(call),
          symm::By::copy_engines);
  if (nelems != 0) finish_own(call);
}
template <class T>
void iget(const char* call, T* dest, const T* source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems,
          int pe) {
  iget_on(call, dest, source, {dst, sst}, elements<T>(nelems), pe, own_stream(call),
          symm::By::copy_engines);
  if (nelems != 0) finish_own(call);
}
template <class T>
void p(const char* call, T* dest, T value, int pe) {
  put_word(call, dest, &value, sizeof value, pe);
}
template <class T>
T g(const char* call, const T* source, int pe) {
  T value;
  get_word(call, &value, source, sizeof value, pe);
  return value;
}

// ---- on the program's streams ----

template <class T>
void put_on_stream(const char* call, T* dest, const T* source, size_t nelems, int pe,
                   cudaStream_t stream) {
  put_on(call, dest, source, elements<T>(nelems), pe, stream);
}
template <class T>
void get_on_stream(const char* call, T* dest, const T* source, size_t nelems, int pe,
                   cudaStream_t stream) {
  get_on(call, dest, source, elements<T>(nelems), pe, stream);
}
template <class T>
void put_nbi_on_stream(const char* call, T* dest, const T* source, size_t nelems, int pe,
                       cudaStream_t stream) {
  put_on(call, dest, source, elements<T>(nelems), pe, stream);
}
template <class T>
void get_nbi_on_stream(const char* call, T* dest, const T* source, size_t nelems, int pe,
                       cudaStream_t stream) {
  get_on(call, dest, source, elements<T>(nelems), pe, stream);
}
template <class T>
void iput_on_stream(const char* call, T* dest, const T* source, ptrdiff_t dst, ptrdiff_t sst,
                    size_t nelems, int pe, cudaStream_t stream) {
  iput_on(call, dest, source, {dst, sst}, elements<T>(nelems), pe, stream, symm::By::kernels);
}
template <class T>
void iget_on_stream(const char* call, T* dest, const T* source, ptrdiff_t dst, ptrdiff_t sst,
                    size_t nelems, int pe, cudaStream_t stream) {
  iget_on(call, dest, source, {dst, sst}, elements<T>(nelems), pe, stream, symm::By::kernels);
}
template <class T>
void p_on_stream(const char* call, T* dest, T value, int pe, cudaStream_t stream) {
  put_word_on(call, dest, bits_of(value), sizeof value, pe, stream);
}
// Waits for the stream: it has a value to return.
template <class T>
T g_on_stream(const char* call, const T* source, int pe, cudaStream_t stream) {
  T value;
  get_word_on(call, &value, source, sizeof value, pe, stream);
  return value;
}
template <class T>
void put_signal_on_stream(const char* call, T* dest, const T* source, size_t nelems,
                          uint64_t* sig_addr, uint64_t signal, int sig_op, int pe,
                          cudaStream_t stream) {
  put_signal_on(call, dest, source, elements<T>(nelems), {sig_addr, signal, sig_op}, pe, stream);
}

}  // namespace penstock::nvshmem
