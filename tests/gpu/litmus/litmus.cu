// The kernels of the litmus tests. Each PE's blocks play one role of a pattern, again and again; in
// half of them a window of slots lets the writer run ahead of the reader.
//
// A reader looks at a slot by plain loads before its turn, so that its first-level cache holds what
// was there before; then it waits, and looks again by plain loads: it must see what was put, all of
// it, and nothing older.
#include "instance.cuh"

namespace penstock::litmus {
namespace {

constexpr uint32_t kBlockThreads = 128;

// ---- push: bytes and a word into the reader's memory ----

template <Scope kScope>
__device__ void push(const Work& work, const Place& place, uint64_t i, const Shape& shape) {
  constexpr int kReader = 1;
  const SymmState& state = work.state;
  uint64_t* const dest = place.slot(i, shape.offset);
  const uint64_t* const source = place.source();
  const uint64_t bytes = shape.words * sizeof(uint64_t);
  uint64_t* const flag = place.word(kFlag);
  switch (work.way) {
    case kPutSignalSet:
      return put_signal<kScope>(state, dest, source, bytes, flag, i, SignalOp::set, kReader);
    case kPutSignalAdd:
      return put_signal<kScope>(state, dest, source, bytes, flag, 1, SignalOp::add, kReader);
    case kIputFenceP:
      iput<kScope>(state, dest, source, {1, 1}, shape.words, kReader);
      break;
    case kWordsFenceP:
      device::Company<kScope>::meet();
      for (uint32_t w = device::Company<kScope>::rank(); w < shape.words;
           w += device::Company<kScope>::size()) {
        p(state, dest + w, source[w], kReader);
      }
      device::Company<kScope>::meet();
      break;
    default:
      put<kScope>(state, dest, source, bytes, kReader);
      break;
  }
  if (work.way == kPutFencePut) {
    if (leads<kScope>()) {
      store_weak(place.word(kHere), i);
      fence();
    }
    put<kScope>(state, flag, place.word(kHere), sizeof(uint64_t), kReader);
    return;
  }
  if (!leads<kScope>()) return;
  if (work.way == kPutQuietP) {
    quiet();
  } else if (work.way != kUnordered) {
    fence();
  }
  switch (work.way) {
    case kPutFenceAdd:
      return atomic_add(state, flag, uint64_t{1}, kReader);
    case kPutFenceFetchAdd:
      if (atomic_fetch_add(state, flag, uint64_t{1}, kReader) != i - 1) tell(work, i, 0, 1);
      return;
    case kPutFenceSet:
      return atomic_set(state, flag, i, kReader);
    case kPutFenceSwap:
      if (atomic_swap(state, flag, i, kReader) != i - 1) tell(work, i, 0, 2);
      return;
    case kPutFenceCompareSwap:
      if (atomic_compare_swap(state, flag, i - 1, i, kReader) != i - 1) tell(work, i, 0, 3);
      return;
    default:
      return p(state, flag, i, kReader);
  }
}

template <Scope kScope>
__global__ void push_writer(const __grid_constant__ Work work) {
  const Place place = place_of(work);
  for (uint64_t i = 1; i <= work.iterations; ++i) {
    if (i > window()) {
      bool go_on = true;
      if (leads<kScope>()) {
        go_on =
            wait_until(work.state, place.word(kAck), Comparison::greater_or_equal, i - window());
      }
      if (!device::Company<kScope>::all(go_on)) return;
    }
    const Shape shape = shape_of(work, i);
    // What was put before may change once put has returned.
    for (uint32_t w = device::Company<kScope>::rank(); w < shape.words;
         w += device::Company<kScope>::size()) {
      store_weak(place.source() + w, value_of(i, w));
    }
    push<kScope>(work, place, i, shape);
    pause(i, work.role);
  }
  if (leads<kScope>()) end(work);
}

// By a word of the own memory, in the ways that programs wait.
__device__ bool wait_for_flag(const Work& work, const uint64_t* flag, uint64_t i) {
  switch (i % 4) {
    case 0: {
      uint64_t seen = 0;
      return signal_wait_until(work.state, flag, Comparison::greater_or_equal, i, seen);
    }
    case 1:
      return wait(work.state, [&] { return test(flag, Comparison::greater_or_equal, i); });
    case 2: {  // by a word that does not acquire, and a fence
      const bool come = wait(work.state, [&] { return g(work.state, flag, work.state.me) >= i; });
      fence();
      return come;
    }
    default:
      return wait_until(work.state, flag, Comparison::greater_or_equal, i);
  }
}

template <Scope kScope>
__global__ void push_reader(const __grid_constant__ Work work) {
  constexpr int kWriter = 0;
  const Place place = place_of(work);
  const uint32_t rank = device::Company<kScope>::rank();
  const uint32_t size = device::Company<kScope>::size();
  uint64_t early = 0;
  for (uint64_t i = 1; i <= work.iterations; ++i) {
    const Shape shape = shape_of(work, i);
    const uint64_t* const data = place.slot(i, shape.offset);
    // After the acknowledgement, so that no fence stands between this and the wait.
    for (uint32_t w = rank; w < shape.words; w += size) {
      const uint64_t seen = look(data + w);
      if (seen != value_of(i, w)) ++early;
      // p stores whole words.
      if (work.way == kWordsFenceP && seen >> 32 != (seen & 0xffffffff)) tell(work, i, seen, 4);
    }
    pause(i, work.role);
    // By one for all, or by each.
    bool come = true;
    if (i % 8 < 4 || rank == 0) come = wait_for_flag(work, place.word(kFlag), i);
    if (!device::Company<kScope>::all(come)) return;
    for (uint32_t w = rank; w < shape.words; w += size) {
      const uint64_t seen = look(data + w);
      if (seen != value_of(i, w)) tell(work, i, seen, value_of(i, w));
    }
    device::Company<kScope>::meet();
    if (rank == 0) {
      fence();
      p(work.state, place.word(kAck), i, kWriter);
    }
  }
  count_early(work, early);
  if (rank == 0) end(work);
}

// ---- pull: the writer stores into its own memory, the reader polls it there and gets ----

template <Scope kScope>
__global__ void pull_writer(const __grid_constant__ Work work) {
  const Place place = place_of(work);
  for (uint64_t i = 1; i <= work.iterations; ++i) {
    if (i > window()) {
      bool go_on = true;
      if (leads<kScope>()) {
        go_on =
            wait_until(work.state, place.word(kAck), Comparison::greater_or_equal, i - window());
      }
      if (!device::Company<kScope>::all(go_on)) return;
    }
    const Shape shape = shape_of(work, i);
    for (uint32_t w = device::Company<kScope>::rank(); w < shape.words;
         w += device::Company<kScope>::size()) {
      store_weak(place.slot(i, shape.offset) + w, value_of(i, w));
    }
    device::Company<kScope>::meet();
    if (leads<kScope>()) {
      fence();
      if (work.way == kPollFetch) {
        atomic_set(work.state, place.word(kFlag), i, work.state.me);
      } else if (work.way == kPollOwnAndGet) {
        p(work.state, place.word(kFlag), i, 1);
      } else {
        p(work.state, place.word(kFlag), i, work.state.me);
      }
    }
    pause(i, work.role);
  }
  if (leads<kScope>()) end(work);
}

template <Scope kScope>
__global__ void pull_reader(const __grid_constant__ Work work) {
  constexpr int kWriter = 0;
  const Place place = place_of(work);
  const uint32_t rank = device::Company<kScope>::rank();
  const uint32_t size = device::Company<kScope>::size();
  uint64_t before = 0;
  for (uint64_t i = 1; i <= work.iterations; ++i) {
    const Shape shape = shape_of(work, i);
    uint64_t* const here = place.source();
    const uint64_t bytes = shape.words * sizeof(uint64_t);
    // What is there before, so that the cache has it.
    get<kScope>(work.state, here, place.slot(i, shape.offset), bytes, kWriter);
    pause(i, work.role);
    bool come = true;
    if (rank == 0) {
      const uint64_t* const flag = place.word(kFlag);
      come = wait(work.state, [&] {
        const uint64_t seen = work.way == kPollFetch       ? atomic_fetch(work.state, flag, kWriter)
                              : work.way == kPollOwnAndGet ? load_acquire(flag)
                                                           : g(work.state, flag, kWriter);
        if (seen < before) tell(work, i, seen, before);  // it went back
        before = seen;
        return seen >= i;
      });
      fence();
    }
    if (!device::Company<kScope>::all(come)) return;
    get<kScope>(work.state, here, place.slot(i, shape.offset), bytes, kWriter);
    for (uint32_t w = rank; w < shape.words; w += size) {
      if (here[w] != value_of(i, w)) tell(work, i, here[w], value_of(i, w));
    }
    device::Company<kScope>::meet();
    if (rank == 0) {
      fence();
      p(work.state, place.word(kAck), i, kWriter);
    }
  }
  if (rank == 0) end(work);
}

// ---- store buffering: both put, quiet and look; one of them sees the other's ----

__global__ void store_buffering(const __grid_constant__ Work work) {
  const Place place = place_of(work);
  const SymmState& state = work.state;
  const auto me = static_cast<int>(work.role);
  const int other = 1 - me;
  uint64_t* const mine = place.word(me == 0 ? kX : kY);
  const uint64_t* const others = place.word(me == 0 ? kY : kX);
  for (uint64_t i = 1; i <= work.iterations; ++i) {
    pause(i, work.role);
    // Into the other's memory, and a look at the own; or the other way round.
    const int to = work.way == kIntoOwn ? me : other;
    if (work.way == kByAtomics) {
      (void)atomic_fetch_add(state, mine, uint64_t{1}, to);
    } else {
      p(state, mine, i, to);
    }
    if (work.way != kBufferingUnordered) quiet();
    const uint64_t seen = g(state, others, 1 - to);
    const uint64_t is_old = seen < i ? 1 : 0;
    // The other learns what this one has seen; and nobody begins again before both have looked.
    fence();
    p(state, place.word(kResult), i << 1 | is_old, other);
    uint64_t result = 0;
    const bool come = wait(state, [&] {
      result = load_acquire(place.word(kResult));
      return result >> 1 >= i;
    });
    if (!come) return;
    if (is_old != 0 && (result & 1) != 0 && result >> 1 == i) tell(work, i, seen, i);
  }
  end(work);
}

// ---- chain: what PE 0 put into PE 2's memory is there once PE 1 has passed the word on ----

__global__ void chain(const __grid_constant__ Work work) {
  const Place place = place_of(work);
  const SymmState& state = work.state;
  for (uint64_t i = 1; i <= work.iterations; ++i) {
    const Shape shape = shape_of(work, i);
    if (work.role == 0) {
      if (i > window() &&
          !wait_until(state, place.word(kAck), Comparison::greater_or_equal, i - window())) {
        return;
      }
      for (uint32_t w = 0; w < shape.words; ++w) store_weak(place.source() + w, value_of(i, w));
      put<Scope::thread>(state, place.slot(i, shape.offset), place.source(),
                         shape.words * sizeof(uint64_t), 2);
      fence();
      p(state, place.word(kFlag), i, 1);
    } else if (work.role == 1) {
      if (!wait_until(state, place.word(kFlag), Comparison::greater_or_equal, i)) return;
      fence();
      p(state, place.word(kSecondFlag), i, 2);
    } else {
      const uint64_t* const data = place.slot(i, shape.offset);
      for (uint32_t w = 0; w < shape.words; ++w) (void)look(data + w);
      if (!wait_until(state, place.word(kSecondFlag), Comparison::greater_or_equal, i)) return;
      for (uint32_t w = 0; w < shape.words; ++w) {
        const uint64_t seen = look(data + w);
        if (seen != value_of(i, w)) tell(work, i, seen, value_of(i, w));
      }
      fence();
      p(state, place.word(kAck), i, 0);
    }
    pause(i, work.role);
  }
  end(work);
}

// ---- barrier: what each put before it is there for the other after it ----

template <Scope kScope>
__global__ void barriers(const __grid_constant__ Work work) {
  const Place place = place_of(work);
  const int team = work.teams[blockIdx.x];
  const int other = 1 - static_cast<int>(work.role);
  const uint32_t rank = device::Company<kScope>::rank();
  const uint32_t size = device::Company<kScope>::size();
  // The other one's next put into a slot comes after this one's look: a barrier lies between.
  const uint64_t slots = window() + 1;
  for (uint64_t i = 1; i <= work.iterations; ++i) {
    const Shape shape = shape_of(work, i);
    const uint64_t* const data = place.slot(i, shape.offset, slots);
    for (uint32_t w = rank; w < shape.words; w += size) {
      (void)look(data + w);
      store_weak(place.source() + w, value_of(i * 2 + work.role, w));
    }
    pause(i, work.role);
    put<kScope>(work.state, place.slot(i, shape.offset, slots), place.source(),
                shape.words * sizeof(uint64_t), other);
    if (!barrier<kScope>(work.state, team)) return;
    for (uint32_t w = rank; w < shape.words; w += size) {
      const uint64_t seen = look(data + w);
      const uint64_t wanted = value_of(i * 2 + static_cast<uint64_t>(other), w);
      if (seen != wanted) tell(work, i, seen, wanted);
    }
  }
  if (rank == 0) end(work);
}

// ---- atomics ----

// Each thread of each PE draws numbers from one counter: each number once.
__global__ void tickets(const __grid_constant__ Work work) {
  uint64_t* const counter = reinterpret_cast<uint64_t*>(work.memory);
  for (uint64_t i = 0; i < work.iterations; ++i) {
    const uint64_t ticket = atomic_fetch_inc(work.state, counter, 0);
    if (atomic_fetch_add(work.state, work.marks + ticket, uint32_t{1}, 0) != 0) {
      tell(work, i, ticket, 0);
    }
  }
  if (threadIdx.x == 0) end(work);
}

// A lock by compare_swap around words that belong together, in PE 0's memory.
__global__ void locks(const __grid_constant__ Work work) {
  constexpr int kHome = 0;
  constexpr uint32_t kWords = 8;
  const Place place = place_of(work);
  const SymmState& state = work.state;
  uint64_t* const here = place.source();
  for (uint64_t i = 1; i <= work.iterations; ++i) {
    const bool locked = wait(state, [&] {
      return atomic_compare_swap(state, place.word(kLock), uint64_t{0}, uint64_t{1} + work.role,
                                 kHome) == 0;
    });
    if (!locked) return;
    fence();
    get<Scope::thread>(state, here, place.slot(0, 0), kWords * sizeof(uint64_t), kHome);
    for (uint32_t w = 0; w < kWords; ++w) {
      if (here[w] != here[0]) tell(work, i, here[w], here[0]);
    }
    const uint64_t next = here[0] + 1;
    for (uint32_t w = 0; w < kWords; ++w) store_weak(here + w, next);
    put<Scope::thread>(state, place.slot(0, 0), here, kWords * sizeof(uint64_t), kHome);
    fence();
    if (atomic_swap(state, place.word(kLock), uint64_t{0}, kHome) != 1 + work.role) {
      tell(work, i, 0, 5);
    }
    pause(i, work.role);
  }
  // The last one of this instance finds that nothing was lost.
  quiet();
  if (atomic_fetch_inc(state, place.word(kCounter), kHome) == 1) {
    fence();
    get<Scope::thread>(state, here, place.slot(0, 0), sizeof(uint64_t), kHome);
    if (here[0] != work.iterations * 2) tell(work, work.iterations, here[0], work.iterations * 2);
  }
  end(work);
}

using Kernel = void (*)(Work);

template <Scope kScope>
Kernel of_scope(Pattern pattern, bool writes) {
  switch (pattern) {
    case Pattern::push:
      return writes ? push_writer<kScope> : push_reader<kScope>;
    case Pattern::pull:
      return writes ? pull_writer<kScope> : pull_reader<kScope>;
    case Pattern::store_buffering:
      return store_buffering;
    case Pattern::chain:
      return chain;
    case Pattern::barrier:
      return barriers<kScope>;
    case Pattern::tickets:
      return tickets;
    case Pattern::lock:
      return locks;
  }
  return nullptr;
}

// The kernel of a role; those of a pattern wait for each other.
Kernel kernel_of(Pattern pattern, litmus::Company company, bool writes) {
  switch (company) {
    case litmus::Company::thread:
      return of_scope<Scope::thread>(pattern, writes);
    case litmus::Company::warp:
      return of_scope<Scope::warp>(pattern, writes);
    case litmus::Company::block:
      return of_scope<Scope::block>(pattern, writes);
  }
  return nullptr;
}

}  // namespace

int launch(const Work& work, void* stream) {
  const bool writes = work.role == 0;
  // By its full name, as the device layer has a Company, too.
  const litmus::Company company = writes ? work.writes : work.reads;
  const Kernel kernel = kernel_of(work.pattern, company, writes);
  const uint32_t threads = company == litmus::Company::thread ? 1
                           : company == litmus::Company::warp ? 32
                                                              : kBlockThreads;
  Work copy = work;
  void* arguments[] = {&copy};
  const cudaError_t launched =
      cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(kInstances), dim3(threads),
                       arguments, 0, static_cast<cudaStream_t>(stream));
  return static_cast<int>(launched);
}

int use_device(uint32_t device) {
  return static_cast<int>(cudaSetDevice(static_cast<int>(device)));
}

bool has_ended(void* stream, int* error) {
  const cudaError_t state = cudaStreamQuery(static_cast<cudaStream_t>(stream));
  *error = state == cudaErrorNotReady ? 0 : static_cast<int>(state);
  return state != cudaErrorNotReady;
}

const char* text_of(int error) {
  return cudaGetErrorString(static_cast<cudaError_t>(error));
}

}  // namespace penstock::litmus
