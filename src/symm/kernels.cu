// What symmetric memory does on streams: kernels of this library, launched behind the program's own
// work.
#include "kernel_strided.h"
#include "kernel_words.h"
#include "penstock_device/symm/signal.h"
#include "penstock_device/symm/sync.h"

namespace {

using namespace penstock::device;

constexpr int kLanes = 32;
constexpr unsigned kWholeWarp = 0xffffffff;

}  // namespace

// One warp: each lane has some of the other PEs. Without a fence: what the stream did before, by
// kernels or copy engines, was complete when this kernel began, and what it does after begins when
// this has ended. So a PE tells the others first, and looks for its own count while that is on its
// way.
extern "C" __global__ void penstock_symm_barrier(const __grid_constant__ SymmState state,
                                                 int team) {
  const Members members = members_of(state, team);
  SymmTeamControl& own = control_of(state, team);
  const auto lane = static_cast<int>(threadIdx.x);
  // What went to PEs that are not near is done there before others are told.
  bool come = state.far == nullptr || quiet<Scope::warp>(state);
  for (int i = lane; i < members.size; i += kLanes) {
    if (i == members.index) continue;
    const int pe = members.pe(i);
    if (is_near(state, pe)) {
      add_system(&control_at(state, team, pe).arrived_on_streams[members.index].value, uint64_t{1});
    } else {
      tell_far(state, &own.arrived_on_streams[members.index].value, FarChange::add, 1, pe);
    }
  }
  const uint64_t number = own.arrived_on_streams[members.index].value + 1;
  for (int i = lane; i < members.size && come; i += kLanes) {
    if (i == members.index) continue;
    const uint64_t* const word = &own.arrived_on_streams[i].value;
    come = wait(state, [&] { return load_acquire(word) >= number; });
  }
  // All have read the count before it changes.
  come = __all_sync(kWholeWarp, come);
  if (lane != 0) return;
  own.arrived_on_streams[members.index].value = number;
  if (!come) tell_trouble(state);
}

// One thread. What the stream did before it is complete where it went.
extern "C" __global__ void penstock_symm_signal(const __grid_constant__ SymmState state,
                                                uint64_t* signal, uint64_t value, int op, int pe) {
  fence_system();
  signal_op(state, signal, value, static_cast<SignalOp>(op), pe);
}

// One thread: the value came with the launch.
extern "C" __global__ void penstock_symm_store(void* at, uint64_t value, int bytes) {
  store(at, value, bytes);
}

// One warp at most.
extern "C" __global__ void penstock_symm_wait_for_words(const __grid_constant__ SymmState state,
                                                        WaitForWords wanted) {
  if (!wait_for(state, wanted)) tell_trouble(state);
}

extern "C" __global__ void __launch_bounds__(256) penstock_symm_copy_strided(StridedElements all) {
  copy_elements(all, blockIdx.x);
}

// One thread.
extern "C" __global__ void penstock_symm_change(ChangeWord word) {
  change_and_answer(word);
}

extern "C" __global__ void __launch_bounds__(512) penstock_symm_put_with_signal(PutWithSignal put) {
  put_with_signal(put);
}

// One block: what PEs that are not near have asked of words here, and copies of the proxy.
extern "C" __global__ void __launch_bounds__(256)
    penstock_symm_far_changes(const __grid_constant__ SymmState state, uint64_t* launches) {
  serve_changes<Scope::block>(state);
  // Of launches that follow one another.
  if (threadIdx.x == 0) store_system(launches, load_system(launches) + 1);
}

// One thread, where the PE is not near.
extern "C" __global__ void penstock_symm_put_far(const __grid_constant__ SymmState state,
                                                 void* dest, const void* source, uint64_t bytes,
                                                 int pe) {
  fence_system();
  tell_failure(state, tried_put_far(state, dest, source, bytes, pe), pe, source);
}
extern "C" __global__ void penstock_symm_get_far(const __grid_constant__ SymmState state,
                                                 void* dest, const void* source, uint64_t bytes,
                                                 int pe) {
  tell_failure(state, tried_get_far(state, dest, source, bytes, pe), pe, dest);
}
extern "C" __global__ void penstock_symm_row_far(const __grid_constant__ SymmState state,
                                                 RowFar row, int pe) {
  fence_system();
  const FarRow elements = {row.count, row.element_bytes, row.stride_there, row.stride_here};
  char* const here = const_cast<char*>(static_cast<const char*>(row.here));
  const uint64_t there = offset_of(state, row.there);
  tell_failure(state, move_far_row(state, row.is_get == 0, there, here, elements, pe), pe, here);
}
extern "C" __global__ void penstock_symm_store_far(const __grid_constant__ SymmState state,
                                                   void* dest, uint64_t value, int bytes, int pe) {
  FarCall call = call_of({static_cast<uint32_t>(bytes), FarChange::set, value, 0},
                         offset_of(state, dest), false, pe);
  if (!ask_far(state, call)) tell_trouble(state);
}
// One thread. Where its answer is wanted: it comes with the word's number.
extern "C" __global__ void penstock_symm_change_far(const __grid_constant__ SymmState state,
                                                    ChangeWord word, int pe) {
  static_assert(static_cast<int>(ChangeBy::swap) + 2 == static_cast<int>(FarChange::swap) &&
                static_cast<int>(ChangeBy::bit_xor) + 2 == static_cast<int>(FarChange::bit_xor));
  const auto change = static_cast<FarChange>(static_cast<int>(word.by) + 2);
  FarCall call = call_of({static_cast<uint32_t>(word.bytes), change, word.value, word.expected},
                         offset_of(state, word.at), word.seen != nullptr, pe);
  if (!ask_far(state, call)) return tell_trouble(state);
  if (word.seen == nullptr) return;
  store_system(word.seen, call.answer);
  fence_system();  // as in change_and_answer()
  store_system(word.done, word.number);
}

// One thread.
extern "C" __global__ void penstock_symm_quiet_far(const __grid_constant__ SymmState state) {
  if (!quiet_far(state)) tell_trouble(state);
}
