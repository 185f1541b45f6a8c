// Kernels for single words: stores, waits, and changes at once.
#pragma once

#include "kernel_arguments.h"
#include "penstock_device/symm/atomics.h"
#include "penstock_device/symm/wait.h"

namespace penstock::device {

// The host tells it and ends what has to end; the stream goes on.
__device__ inline void tell_trouble(const SymmState& state) {
  auto* const report = reinterpret_cast<SymmReport*>(state.failure);
  store_system(&report->why, static_cast<uint32_t>(kSymmPeerGone));
}

// Of one warp, or of one thread.
template <class T>
__device__ bool wait_for(const SymmState& state, const WaitForWords& wanted) {
  const Words<T> words = {static_cast<const T*>(wanted.at),
                          wanted.count,
                          wanted.status,
                          static_cast<Comparison>(wanted.comparison),
                          static_cast<const T*>(wanted.values),
                          static_cast<T>(wanted.value)};
  for (uint64_t i = threadIdx.x; i < words.count; i += blockDim.x) {
    if (words.counts(i) && !wait(state, [&] { return words.is_ready(i); })) return false;
  }
  return true;
}

__device__ inline bool wait_for(const SymmState& state, const WaitForWords& wanted) {
  switch (wanted.type) {
    case WordType::i16:
      return wait_for<int16_t>(state, wanted);
    case WordType::u16:
      return wait_for<uint16_t>(state, wanted);
    case WordType::i32:
      return wait_for<int32_t>(state, wanted);
    case WordType::u32:
      return wait_for<uint32_t>(state, wanted);
    case WordType::i64:
      return wait_for<int64_t>(state, wanted);
    case WordType::u64:
      return wait_for<uint64_t>(state, wanted);
  }
  return false;
}

// Gives what was there before.
template <class T>
__device__ T change(T* at, const ChangeWord& word) {
  const T value = static_cast<T>(word.value);
  switch (word.by) {
    case ChangeBy::swap:
      return swap_system(at, value);
    case ChangeBy::compare_swap:
      return compare_swap_system(at, static_cast<T>(word.expected), value);
    case ChangeBy::add:
      return fetch_add_system(at, value);
    case ChangeBy::bit_and:
      return fetch_and_system(at, value);
    case ChangeBy::bit_or:
      return fetch_or_system(at, value);
    case ChangeBy::bit_xor:
      return fetch_xor_system(at, value);
  }
  return 0;
}

}  // namespace penstock::device

// One thread: the value came with the launch. Whoever runs behind this in the stream finds it
// there.
extern "C" __global__ void penstock_symm_store(void* at, uint64_t value, int bytes) {
  using namespace penstock::device;
  switch (bytes) {
    case 1:
      store_system(static_cast<uint8_t*>(at), static_cast<uint8_t>(value));
      break;
    case 2:
      store_system(static_cast<uint16_t*>(at), static_cast<uint16_t>(value));
      break;
    case 4:
      store_system(static_cast<uint32_t*>(at), static_cast<uint32_t>(value));
      break;
    default:
      store_system(static_cast<uint64_t*>(at), value);
      break;
  }
}

// One warp: each lane waits for some of the words.
extern "C" __global__ void penstock_symm_wait_for_words(penstock::device::SymmState state,
                                                        penstock::device::WaitForWords wanted) {
  if (!penstock::device::wait_for(state, wanted)) penstock::device::tell_trouble(state);
}

// One thread. The host may be looking for the answer already.
extern "C" __global__ void penstock_symm_change(penstock::device::ChangeWord word) {
  using namespace penstock::device;
  const uint64_t before = word.bytes == 4 ? change(static_cast<uint32_t*>(word.at), word)
                                          : change(static_cast<uint64_t*>(word.at), word);
  if (word.seen == nullptr) return;
  store_system(word.seen, before);
  // The host that sees `number` sees the answer.
  fence_system();
  store_system(word.done, word.number);
}
