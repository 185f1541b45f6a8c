// What symmetric memory does on streams: kernels of this library, launched behind the program's own
// work.
#include "penstock_device/symm/signal.h"
#include "penstock_device/symm/sync.h"

namespace {

using namespace penstock::device;

// The host tells it and ends what has to end; the stream goes on.
__device__ void tell_trouble(const SymmState& state) {
  auto* const report = reinterpret_cast<SymmReport*>(state.failure);
  store_system(&report->why, static_cast<uint32_t>(kSymmPeerGone));
}

}  // namespace

// One warp: each lane has some of the other PEs.
extern "C" __global__ void penstock_symm_barrier(SymmState state, int team) {
  if (!barrier<Scope::warp>(state, team) && threadIdx.x == 0) tell_trouble(state);
}

// One thread. What the stream did before it is complete where it went.
extern "C" __global__ void penstock_symm_signal(SymmState state, uint64_t* signal, uint64_t value,
                                                int op, int pe) {
  fence_system();
  signal_op(state, signal, value, static_cast<SignalOp>(op), pe);
}

extern "C" __global__ void penstock_symm_wait(SymmState state, const uint64_t* signal,
                                              int comparison, uint64_t value) {
  uint64_t seen = 0;
  if (!signal_wait_until(state, signal, static_cast<Comparison>(comparison), value, seen))
    tell_trouble(state);
}
