// What kernels do with single words: stores, waits, and changes at once (kernels.cu).
#pragma once

#include "kernel_arguments.h"
#include "penstock_device/symm/atomics.h"
#include "penstock_device/symm/copy.h"
#include "penstock_device/symm/signal.h"
#include "penstock_device/symm/wait.h"

namespace penstock::device {

// The host tells it and ends what has to end; the stream goes on.
PENSTOCK_DEVICE void tell_trouble(const SymmState& state) {
  auto* const report = reinterpret_cast<SymmReport*>(state.failure);
  store_system(&report->why, static_cast<uint32_t>(kSymmPeerGone));
}

// The same of a put or get whose own side is at `here`, unless it went well.
PENSTOCK_DEVICE void tell_failure(const SymmState& state, SymmFailure why, int pe,
                                  const void* here) {
  if (why == kSymmNothing) return;
  auto* const report = reinterpret_cast<SymmReport*>(state.failure);
  store_system(reinterpret_cast<uint32_t*>(&report->pe), static_cast<uint32_t>(pe));
  store_system(&report->address, static_cast<uint64_t>(reinterpret_cast<uintptr_t>(here)));
  fence_system();  // the host that sees `why` sees the rest
  store_system(&report->why, static_cast<uint32_t>(why));
}

// Of one block: each thread waits for some of the words.
template <class T>
PENSTOCK_DEVICE bool wait_for(const SymmState& state, const WaitForWords& wanted) {
  const Words<T> words = {static_cast<const T*>(wanted.at),
                          wanted.count,
                          wanted.status,
                          static_cast<Comparison>(wanted.comparison),
                          static_cast<const T*>(wanted.values),
                          static_cast<T>(wanted.value)};
  for (uint64_t i = Company<Scope::block>::rank(); i < words.count;
       i += Company<Scope::block>::size()) {
    if (words.counts(i) && !wait(state, [&] { return words.is_ready(i); })) return false;
  }
  return true;
}

PENSTOCK_DEVICE bool wait_for(const SymmState& state, const WaitForWords& wanted) {
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
PENSTOCK_DEVICE T change(T* at, const ChangeWord& word) {
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

// Whoever runs behind this in the stream finds the value there.
PENSTOCK_DEVICE void store(void* at, uint64_t value, int bytes) {
  switch (bytes) {
    case 1:
      return store_system(static_cast<uint8_t*>(at), static_cast<uint8_t>(value));
    case 2:
      return store_system(static_cast<uint16_t*>(at), static_cast<uint16_t>(value));
    case 4:
      return store_system(static_cast<uint32_t*>(at), static_cast<uint32_t>(value));
    default:
      return store_system(static_cast<uint64_t*>(at), value);
  }
}

// One block. Who sees the signal sees the bytes.
PENSTOCK_DEVICE void put_with_signal(const PutWithSignal& put) {
  copy<Source::near, Scope::block>(put.to, put.from, put.bytes);
  Company<Scope::block>::meet();
  if (Company<Scope::block>::rank() != 0) return;
  // Cumulative (signal.h): it covers what the others have stored, too.
  fence_system();
  tell(put.signal, put.value, static_cast<SignalOp>(put.op));
}

// The host may be looking for the answer already.
PENSTOCK_DEVICE void change_and_answer(const ChangeWord& word) {
  const uint64_t before = word.bytes == 4 ? change(static_cast<uint32_t*>(word.at), word)
                                          : change(static_cast<uint64_t*>(word.at), word);
  if (word.seen == nullptr) return;
  store_system(word.seen, before);
  // The host that sees `number` sees the answer.
  fence_system();
  store_system(word.done, word.number);
}

}  // namespace penstock::device
