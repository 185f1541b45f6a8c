// What the typed puts, gets and atomic operations are made of. Each takes the name of the call that
// the program made, for messages, and the context, SHMEM_CTX_DEFAULT where the call has none.
#pragma once

#include "checking.h"
#include "contexts.h"

namespace penstock::shmem {

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

[[noreturn]] void fault_length(const char* call, uint64_t count, uint64_t bytes_of_each);
[[noreturn]] void fault_stride(const char* call, ptrdiff_t stride);

template <class T>
uint64_t bytes_of(const char* call, size_t count) {
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(count, sizeof(T), &bytes)) [[unlikely]]
    fault_length(call, count, sizeof(T));
  return bytes;
}

template <class T>
void put(const char* call, shmem_ctx_t ctx, T* dest, const T* source, size_t nelems, int pe) {
  symm::Group& all = group(call);
  const uint32_t target = pe_on(call, ctx, pe);
  const uint64_t bytes = bytes_of<T>(call, nelems);
  check_within(call, all, {dest, bytes, target});
  const Status done = all.put(dest, source, bytes, target);
  if (!done.ok()) [[unlikely]]
    check_asked(call, done, {dest, bytes, target});
}

template <class T>
void get(const char* call, shmem_ctx_t ctx, T* dest, const T* source, size_t nelems, int pe) {
  symm::Group& all = group(call);
  const uint32_t target = pe_on(call, ctx, pe);
  const uint64_t bytes = bytes_of<T>(call, nelems);
  check_within(call, all, {source, bytes, target});
  const Status done = all.get(dest, source, bytes, target);
  if (!done.ok()) [[unlikely]]
    check_asked(call, done, {source, bytes, target});
}

template <class T>
void get_later(const char* call, shmem_ctx_t ctx, T* dest, const T* source, size_t nelems, int pe) {
  symm::Group& all = group(call);
  const uint32_t target = pe_on(call, ctx, pe);
  const uint64_t bytes = bytes_of<T>(call, nelems);
  check_within(call, all, {source, bytes, target});
  const Status done = all.get_later(dest, source, bytes, target);
  if (!done.ok()) [[unlikely]]
    check_asked(call, done, {source, bytes, target});
}

template <class T>
void put_one(const char* call, shmem_ctx_t ctx, T* dest, T value, int pe) {
  put(call, ctx, dest, &value, 1, pe);
}

template <class T>
T get_one(const char* call, shmem_ctx_t ctx, const T* source, int pe) {
  T value;
  get(call, ctx, &value, source, 1, pe);
  return value;
}

// From the first element's begin to the last one's end.
template <class T>
uint64_t reach_of(const char* call, ptrdiff_t stride, size_t count, size_t block = 1) {
  if (count == 0 || block == 0) return 0;
  if (stride < 1 && count > 1) [[unlikely]]
    fault_stride(call, stride);
  uint64_t elements = 0;
  if (__builtin_mul_overflow(count - 1, static_cast<uint64_t>(stride), &elements) ||
      __builtin_add_overflow(elements, block, &elements)) [[unlikely]] {
    fault_length(call, count, sizeof(T));
  }
  return bytes_of<T>(call, elements);
}

template <class T>
void put_strided(const char* call, shmem_ctx_t ctx, T* dest, const T* source, ptrdiff_t dst,
                 ptrdiff_t sst, size_t nelems, int pe) {
  symm::Group& all = group(call);
  const uint32_t target = pe_on(call, ctx, pe);
  const uint64_t reach = reach_of<T>(call, dst, nelems);
  reach_of<T>(call, sst, nelems);
  check_within(call, all, {dest, reach, target});
  const Status done = symm::iput(all, dest, source, {dst, sst}, nelems, target);
  if (!done.ok()) [[unlikely]]
    check_asked(call, done, {dest, reach, target});
}

template <class T>
void get_strided(const char* call, shmem_ctx_t ctx, T* dest, const T* source, ptrdiff_t dst,
                 ptrdiff_t sst, size_t nelems, int pe) {
  symm::Group& all = group(call);
  const uint32_t target = pe_on(call, ctx, pe);
  const uint64_t reach = reach_of<T>(call, sst, nelems);
  reach_of<T>(call, dst, nelems);
  check_within(call, all, {source, reach, target});
  const Status done = symm::iget(all, dest, source, {dst, sst}, nelems, target);
  if (!done.ok()) [[unlikely]]
    check_asked(call, done, {source, reach, target});
}

template <class T>
void put_blocks(const char* call, shmem_ctx_t ctx, T* dest, const T* source, ptrdiff_t dst,
                ptrdiff_t sst, size_t bsize, size_t nblocks, int pe) {
  symm::Group& all = group(call);
  const uint32_t target = pe_on(call, ctx, pe);
  const uint64_t reach = reach_of<T>(call, dst, nblocks, bsize);
  reach_of<T>(call, sst, nblocks, bsize);
  if (all.fault_of(dest, reach, target) != symm::Fault::none) [[unlikely]] {
    return check_asked(call, Code::invalid_argument, {dest, reach, target});
  }
  if (bsize == 0) return;
  for (size_t block = 0; block < nblocks; ++block, dest += dst, source += sst) {
    put(call, ctx, dest, source, bsize, pe);
  }
}

template <class T>
void get_blocks(const char* call, shmem_ctx_t ctx, T* dest, const T* source, ptrdiff_t dst,
                ptrdiff_t sst, size_t bsize, size_t nblocks, int pe) {
  symm::Group& all = group(call);
  const uint32_t target = pe_on(call, ctx, pe);
  const uint64_t reach = reach_of<T>(call, sst, nblocks, bsize);
  reach_of<T>(call, dst, nblocks, bsize);
  if (all.fault_of(source, reach, target) != symm::Fault::none) [[unlikely]] {
    return check_asked(call, Code::invalid_argument, {source, reach, target});
  }
  if (bsize == 0) return;
  for (size_t block = 0; block < nblocks; ++block, dest += dst, source += sst) {
    get(call, ctx, dest, source, bsize, pe);
  }
}

symm::SignalOp signal_operation(const char* call, int sig_op);
// Finds which of the two addresses cannot be reached.
void check_put_signal(const char* call, Status status, const Asked& data, const Asked& signal);

template <class T>
void put_signal(const char* call, shmem_ctx_t ctx, T* dest, const T* source, size_t nelems,
                uint64_t* sig_addr, uint64_t signal, int sig_op, int pe) {
  symm::Group& all = group(call);
  const uint32_t target = pe_on(call, ctx, pe);
  const uint64_t bytes = bytes_of<T>(call, nelems);
  check_within(call, all, {dest, bytes, target});
  const Status done =
      all.put_signal(dest, source, bytes, sig_addr, signal, signal_operation(call, sig_op), target);
  if (!done.ok()) [[unlikely]] {
    check_put_signal(call, done, {dest, bytes, target},
                     {sig_addr, sizeof *sig_addr, target, sizeof *sig_addr});
  }
}

// The value of an atomic operation on `word`, or the end.
template <class T>
T value_of(const char* call, const Result<T>& result, const T* word, uint32_t pe) {
  if (!result) [[unlikely]]
    check_asked(call, result.error(), {word, sizeof(T), pe, sizeof(T)});
  return *result;
}

template <class T>
T atomic_fetch(const char* call, shmem_ctx_t ctx, const T* source, int pe) {
  symm::Group& all = group(call);
  const uint32_t target = pe_on(call, ctx, pe);
  return value_of(call, symm::atomic_fetch(all, source, target), source, target);
}

template <class T>
void atomic_set(const char* call, shmem_ctx_t ctx, T* dest, T value, int pe) {
  symm::Group& all = group(call);
  const uint32_t target = pe_on(call, ctx, pe);
  const Status done = symm::atomic_set(all, dest, value, target);
  if (!done.ok()) [[unlikely]]
    check_asked(call, done, {dest, sizeof(T), target, sizeof(T)});
}

template <class T>
T atomic_swap(const char* call, shmem_ctx_t ctx, T* dest, T value, int pe) {
  symm::Group& all = group(call);
  const uint32_t target = pe_on(call, ctx, pe);
  return value_of(call, symm::atomic_swap(all, dest, value, target), dest, target);
}

template <class T>
T atomic_compare_swap(const char* call, shmem_ctx_t ctx, T* dest, T cond, T value, int pe) {
  symm::Group& all = group(call);
  const uint32_t target = pe_on(call, ctx, pe);
  return value_of(call, symm::atomic_compare_swap(all, dest, cond, value, target), dest, target);
}

template <class T>
T atomic_fetch_add(const char* call, shmem_ctx_t ctx, T* dest, T value, int pe) {
  symm::Group& all = group(call);
  const uint32_t target = pe_on(call, ctx, pe);
  return value_of(call, symm::atomic_fetch_add(all, dest, value, target), dest, target);
}

template <class T>
void atomic_add(const char* call, shmem_ctx_t ctx, T* dest, T value, int pe) {
  symm::Group& all = group(call);
  const uint32_t target = pe_on(call, ctx, pe);
  const Status done = symm::atomic_add(all, dest, value, target);
  if (!done.ok()) [[unlikely]]
    check_asked(call, done, {dest, sizeof(T), target, sizeof(T)});
}

template <class T>
void atomic_inc(const char* call, shmem_ctx_t ctx, T* dest, int pe) {
  atomic_add(call, ctx, dest, T{1}, pe);
}

template <class T>
T atomic_fetch_inc(const char* call, shmem_ctx_t ctx, T* dest, int pe) {
  return atomic_fetch_add(call, ctx, dest, T{1}, pe);
}

template <class T>
T atomic_fetch_and(const char* call, shmem_ctx_t ctx, T* dest, T value, int pe) {
  symm::Group& all = group(call);
  const uint32_t target = pe_on(call, ctx, pe);
  return value_of(call, symm::atomic_fetch_and(all, dest, value, target), dest, target);
}

template <class T>
T atomic_fetch_or(const char* call, shmem_ctx_t ctx, T* dest, T value, int pe) {
  symm::Group& all = group(call);
  const uint32_t target = pe_on(call, ctx, pe);
  return value_of(call, symm::atomic_fetch_or(all, dest, value, target), dest, target);
}

template <class T>
T atomic_fetch_xor(const char* call, shmem_ctx_t ctx, T* dest, T value, int pe) {
  symm::Group& all = group(call);
  const uint32_t target = pe_on(call, ctx, pe);
  return value_of(call, symm::atomic_fetch_xor(all, dest, value, target), dest, target);
}

template <class T>
void atomic_and(const char* call, shmem_ctx_t ctx, T* dest, T value, int pe) {
  symm::Group& all = group(call);
  const uint32_t target = pe_on(call, ctx, pe);
  const Status done = symm::atomic_and(all, dest, value, target);
  if (!done.ok()) [[unlikely]]
    check_asked(call, done, {dest, sizeof(T), target, sizeof(T)});
}

template <class T>
void atomic_or(const char* call, shmem_ctx_t ctx, T* dest, T value, int pe) {
  symm::Group& all = group(call);
  const uint32_t target = pe_on(call, ctx, pe);
  const Status done = symm::atomic_or(all, dest, value, target);
  if (!done.ok()) [[unlikely]]
    check_asked(call, done, {dest, sizeof(T), target, sizeof(T)});
}

template <class T>
void atomic_xor(const char* call, shmem_ctx_t ctx, T* dest, T value, int pe) {
  symm::Group& all = group(call);
  const uint32_t target = pe_on(call, ctx, pe);
  const Status done = symm::atomic_xor(all, dest, value, target);
  if (!done.ok()) [[unlikely]]
    check_asked(call, done, {dest, sizeof(T), target, sizeof(T)});
}

// Those whose result comes later, before a quiet ends: from PEs of other nodes. False: this
// one is near, and nothing was done.
template <class T>
bool fetches_later(const char* call, shmem_ctx_t ctx, T* fetch, const T* word, symm::Change change,
                   int pe) {
  symm::Group& all = group(call);
  const uint32_t target = pe_on(call, ctx, pe);
  if (target >= all.size() || all.is_near(target)) [[likely]]
    return false;
  change.width = sizeof(T);
  const Status done = all.fetch_later_far(fetch, word, change, target);
  if (!done.ok()) [[unlikely]]
    check_asked(call, done, {word, sizeof(T), target, sizeof(T)});
  return true;
}

template <class T>
uint64_t bits_of(T value) {
  return std::bit_cast<symm::Bits<T>>(value);
}

template <class T>
void atomic_fetch_later(const char* call, shmem_ctx_t ctx, T* fetch, const T* source, int pe) {
  if (!fetches_later<T>(call, ctx, fetch, source, {symm::AtomicOp::fetch, 0, 0, 0}, pe))
    *fetch = atomic_fetch(call, ctx, source, pe);
}

template <class T>
void atomic_swap_later(const char* call, shmem_ctx_t ctx, T* fetch, T* dest, T value, int pe) {
  if (!fetches_later<T>(call, ctx, fetch, dest, {symm::AtomicOp::swap, 0, bits_of(value), 0}, pe))
    *fetch = atomic_swap(call, ctx, dest, value, pe);
}

template <class T>
void atomic_compare_swap_later(const char* call, shmem_ctx_t ctx, T* fetch, T* dest, T cond,
                               T value, int pe) {
  if (!fetches_later<T>(call, ctx, fetch, dest,
                        {symm::AtomicOp::compare_swap, 0, bits_of(value), bits_of(cond)}, pe))
    *fetch = atomic_compare_swap(call, ctx, dest, cond, value, pe);
}

template <class T>
void atomic_fetch_inc_later(const char* call, shmem_ctx_t ctx, T* fetch, T* dest, int pe) {
  if (!fetches_later<T>(call, ctx, fetch, dest, {symm::AtomicOp::add, 0, 1, 0}, pe))
    *fetch = atomic_fetch_inc(call, ctx, dest, pe);
}

template <class T>
void atomic_fetch_add_later(const char* call, shmem_ctx_t ctx, T* fetch, T* dest, T value, int pe) {
  if (!fetches_later<T>(call, ctx, fetch, dest, {symm::AtomicOp::add, 0, bits_of(value), 0}, pe))
    *fetch = atomic_fetch_add(call, ctx, dest, value, pe);
}

template <class T>
void atomic_fetch_and_later(const char* call, shmem_ctx_t ctx, T* fetch, T* dest, T value, int pe) {
  if (!fetches_later<T>(call, ctx, fetch, dest, {symm::AtomicOp::bit_and, 0, bits_of(value), 0},
                        pe))
    *fetch = atomic_fetch_and(call, ctx, dest, value, pe);
}

template <class T>
void atomic_fetch_or_later(const char* call, shmem_ctx_t ctx, T* fetch, T* dest, T value, int pe) {
  if (!fetches_later<T>(call, ctx, fetch, dest, {symm::AtomicOp::bit_or, 0, bits_of(value), 0}, pe))
    *fetch = atomic_fetch_or(call, ctx, dest, value, pe);
}

template <class T>
void atomic_fetch_xor_later(const char* call, shmem_ctx_t ctx, T* fetch, T* dest, T value, int pe) {
  if (!fetches_later<T>(call, ctx, fetch, dest, {symm::AtomicOp::bit_xor, 0, bits_of(value), 0},
                        pe))
    *fetch = atomic_fetch_xor(call, ctx, dest, value, pe);
}

}  // namespace penstock::shmem
