// Bytes and then a word that tells of them: who sees the signal sees the bytes.
//
// What limits it: the fence waits until the bytes have arrived, a way there and back, and then the
// signal goes one way.
#pragma once

#include "penstock_device/symm/memory.h"

namespace penstock::device {

// Their numbers are NVSHMEM's.
enum class SignalOp : int { set = 9, add = 10 };

// By the address of a PE's instance.
PENSTOCK_DEVICE void tell(uint64_t* there, uint64_t value, SignalOp op) {
  if (op == SignalOp::add) {
    add_system(there, value);
  } else {
    store_system(there, value);
  }
}

PENSTOCK_DEVICE void signal_op(const SymmState& state, uint64_t* signal, uint64_t value,
                               SignalOp op, int pe) {
  if (is_reached(state, signal, sizeof(uint64_t), pe))
    return tell(instance_of(state, signal, pe), value, op);
  // Behind what was asked of that PE before: no fence is needed for it.
  change_far(state, signal, op == SignalOp::add ? FarChange::add : FarChange::set, value, pe);
}

// Of a signal in the own memory.
PENSTOCK_DEVICE uint64_t signal_fetch(const uint64_t* signal) {
  // Pairs with the fence of put_signal(): what came before the signal is seen after this.
  return load_acquire(signal);
}

// The source may be written again after it.
template <Scope kScope>
PENSTOCK_DEVICE void put_signal(const SymmState& state, void* dest, const void* source,
                                uint64_t bytes, uint64_t* signal, uint64_t value, SignalOp op,
                                int pe) {
  // All shares are stored, and seen by the one that signals, when they have met.
  put<kScope>(state, dest, source, bytes, pe);
  if (Company<kScope>::rank() == 0) {
    // Cumulative: it covers what this thread has seen of the others' stores by meeting them, so
    // that one fence is enough for all of them. Pairs with the acquire of whoever waits.
    fence_system();
    signal_op(state, signal, value, op, pe);
  }
}

}  // namespace penstock::device
