// What the typed puts and gets of the host are made of. They go by copy engines, on a stream of
// this library that waits for none of the program's own: a kernel may be waiting for what they
// bring.
#pragma once

#include "api.h"

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

template <class T>
uint64_t bytes_of(const char* call, size_t count) {
  // Forms for memory count bytes.
  constexpr size_t kEach =
      std::is_void_v<T> ? 1 : sizeof(std::conditional_t<std::is_void_v<T>, char, T>);
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(count, kEach, &bytes))
    fault(call, fmt::format("{} elements of {} bytes", count, kEach));
  return bytes;
}

inline void check_put(const char* call, Status done, const void* address, uint64_t bytes, int pe) {
  if (!done.ok()) [[unlikely]]
    fault_at(call, done, address, bytes, static_cast<uint32_t>(pe));
}

inline void wait_for(const char* call, engine::DeviceStream stream) {
  const Status done = on_device(call).device->synchronize(stream);
  if (!done.ok()) [[unlikely]]
    fault_status(call, done);
}

template <class T>
void put_on(const char* call, T* dest, const T* source, size_t nelems, int pe,
            engine::DeviceStream stream) {
  const uint64_t bytes = bytes_of<T>(call, nelems);
  check_put(call,
            on_device(call).streams->put(dest, source, bytes, static_cast<uint32_t>(pe), stream),
            dest, bytes, pe);
}
template <class T>
void get_on(const char* call, T* dest, const T* source, size_t nelems, int pe,
            engine::DeviceStream stream) {
  const uint64_t bytes = bytes_of<T>(call, nelems);
  check_put(call,
            on_device(call).streams->get(dest, source, bytes, static_cast<uint32_t>(pe), stream),
            source, bytes, pe);
}

// ---- of the host: complete when they return, but for those that say so ----

template <class T>
void put_nbi(const char* call, T* dest, const T* source, size_t nelems, int pe) {
  on_device(call);
  put_on(call, dest, source, nelems, pe, host_stream());
}
template <class T>
void put(const char* call, T* dest, const T* source, size_t nelems, int pe) {
  put_nbi(call, dest, source, nelems, pe);
  wait_for(call, host_stream());
}
template <class T>
void get_nbi(const char* call, T* dest, const T* source, size_t nelems, int pe) {
  on_device(call);
  get_on(call, dest, source, nelems, pe, host_stream());
}
template <class T>
void get(const char* call, T* dest, const T* source, size_t nelems, int pe) {
  get_nbi(call, dest, source, nelems, pe);
  wait_for(call, host_stream());
}
template <class T>
void p(const char* call, T* dest, T value, int pe) {
  put(call, dest, &value, 1, pe);
}
template <class T>
T g(const char* call, const T* source, int pe) {
  T value;
  get(call, &value, source, 1, pe);
  return value;
}

// ---- on the program's streams ----

template <class T>
void put_on_stream(const char* call, T* dest, const T* source, size_t nelems, int pe,
                   cudaStream_t stream) {
  put_on(call, dest, source, nelems, pe, stream);
}
template <class T>
void get_on_stream(const char* call, T* dest, const T* source, size_t nelems, int pe,
                   cudaStream_t stream) {
  get_on(call, dest, source, nelems, pe, stream);
}
template <class T>
void put_nbi_on_stream(const char* call, T* dest, const T* source, size_t nelems, int pe,
                       cudaStream_t stream) {
  put_on(call, dest, source, nelems, pe, stream);
}
template <class T>
void get_nbi_on_stream(const char* call, T* dest, const T* source, size_t nelems, int pe,
                       cudaStream_t stream) {
  get_on(call, dest, source, nelems, pe, stream);
}
template <class T>
void put_signal_on_stream(const char* call, T* dest, const T* source, size_t nelems,
                          uint64_t* sig_addr, uint64_t signal, int sig_op, int pe,
                          cudaStream_t stream) {
  put_on(call, dest, source, nelems, pe, stream);
  const auto op = sig_op == NVSHMEM_SIGNAL_ADD ? symm::SignalOp::add : symm::SignalOp::set;
  check_put(
      call,
      on_device(call).streams->signal(sig_addr, signal, op, static_cast<uint32_t>(pe), stream),
      sig_addr, sizeof *sig_addr, pe);
}

}  // namespace penstock::nvshmem
