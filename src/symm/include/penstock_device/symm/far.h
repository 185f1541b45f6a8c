// Memory of PEs that loads and stores do not reach: asked for in a ring, which a thread of the host
// serves (decision 0077). Nobody calls these but the functions for all PEs, where a PE is not near;
// they are calls, so that those stay as they are for near ones.
//
// What limits it: 1.3 us from the GPU to the host's memory and as long back, and what the host's
// thread and the network need.
#pragma once

#include "penstock_device/symm/wait.h"

namespace penstock::device {

// An answer is polled over PCIe, a word of trouble, too.
constexpr uint32_t kFarPollsPerLook = 64;
// Elements that one request may have in rows; more are asked for piece by piece.
constexpr uint64_t kFarRowAtOnce = uint64_t{1} << 24;

#if defined(__CUDACC__)
PENSTOCK_DEVICE void store_entry(FarEntry* to, const FarEntry& entry) {
  asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};"
               :
               : "l"(to), "l"(entry.word[0]), "l"(entry.word[1])
               : "memory");
}
PENSTOCK_DEVICE FarEntry load_entry(const FarEntry* from) {
  FarEntry out;
  asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(out.word[0]), "=l"(out.word[1])
               : "l"(from)
               : "memory");
  return out;
}
// Whether copy engines reach it: neither shared nor local memory of threads.
PENSTOCK_DEVICE bool is_for_engines(const void* address) {
  return __isGlobal(address) != 0;
}
#else
inline void store_entry(FarEntry* to, const FarEntry& entry) {
  store_system(&to->word[1], entry.word[1]);
  store_system(&to->word[0], entry.word[0]);
}
inline FarEntry load_entry(const FarEntry* from) {
  FarEntry out;
  for (int i = 0; i < 2; ++i) out.word[i] = load_system(&from->word[i]);
  return out;
}
PENSTOCK_DEVICE bool is_for_engines(const void* address) {
  return host_lane->is_for_engines(address);
}
#endif

// Whether the PE is there, but not near.
PENSTOCK_DEVICE bool is_far(const SymmState& state, int pe) {
  return state.far != nullptr && pe >= 0 && pe < state.size && pe < static_cast<int>(kFarPesMax) &&
         !is_near(state, pe);
}

// Ends the kernel unless the far PE has all of it.
PENSTOCK_DEVICE void require_far(const SymmState& state, const void* address, uint64_t bytes,
                                 int pe) {
  if (!is_symmetric(state, address, bytes) || !is_far(state, pe)) refuse(state, address, bytes, pe);
}

// ---- requests ----
//
// What is asked for stands in the stack's memory, not in registers: where the compiler knows whole
// programs, registers of a call come on top of its caller's, and a kernel of 1,024 threads may have
// 64 in all, whether it ever asks or not.

struct FarCall {
  FarAsk asked;
  uint64_t position;
  uint64_t answer;  // what was there before; or why it failed
  uint64_t left;    // bytes or elements that are not asked for yet
};

PENSTOCK_DEVICE uint64_t far_index(const SymmFar& far, uint64_t position) {
  return position & ((uint64_t{1} << far.entries_log2) - 1);
}

// Until the proxy has taken what is in the way of so many entries from `position` on. False:
// somebody has ended before.
PENSTOCK_DEVICE bool wait_for_room(const SymmState& state, uint64_t end) {
  const SymmFar& far = *state.far;
  PENSTOCK_NOT_UNROLLED
  for (uint32_t looks = 1; load_system(&far.control->room) < end; ++looks) {
    // An older count may follow a newer one here: then somebody looks once more.
    store_system(&far.control->room,
                 load_acquire(&far.header->taken) + (uint64_t{1} << far.entries_log2));
    if (looks % kFarPollsPerLook == 0 && !may_wait_on(state)) return false;
  }
  return true;
}

// Positions for so many entries, in which they may be written when it returns.
PENSTOCK_DEVICE bool reserve_entries(const SymmState& state, uint32_t count, uint64_t& position) {
  position = fetch_add_system(&state.far->control->tail, uint64_t{count});
  return wait_for_room(state, position + count);
}

PENSTOCK_DEVICE void write_entry(const SymmFar& far, uint64_t position, const FarEntry& entry) {
  const uint64_t parity = far_parity(position >> far.entries_log2);
  store_entry(&far.entries[far_index(far, position)],
              {{entry.word[0] | parity, entry.word[1] | parity}});
}

// Its index is free for an answer once the asker before has read its own: that one waits for the
// proxy, which has taken its request, and for nobody else.
PENSTOCK_DEVICE bool take_answer_place(const SymmState& state, uint64_t position) {
  uint32_t* const waiting = &state.far->waiting[far_index(*state.far, position)];
  PENSTOCK_NOT_UNROLLED
  for (uint32_t looks = 1; load_system(waiting) != 0; ++looks) {
    if (looks % kFarPollsPerLook == 0 && !may_wait_on(state)) return false;
  }
  store_system(waiting, uint32_t{1});
  return true;
}

// Never back: a thread's quiet that saw the smaller of two would not wait for the larger one, which
// may be its own.
PENSTOCK_DEVICE void raise_to(uint64_t* at, uint64_t value) {
  PENSTOCK_NOT_UNROLLED
  for (uint64_t seen = load_system(at); seen < value;) {
    const uint64_t found = compare_swap_system(at, seen, value);
    if (found == seen) return;
    seen = found;
  }
}

PENSTOCK_DEVICE void write_ask(const SymmState& state, const FarCall& call) {
  const SymmFar& far = *state.far;
  const FarEntries entries = encode(call.asked);
  if (entries.count == 2) write_entry(far, call.position + 1, entries.entry[1]);
  write_entry(far, call.position, entries.entry[0]);
  raise_to(&far.control->asked[call.asked.pe], call.position + entries.count);
}

// False: it failed, or somebody has ended.
PENSTOCK_DEVICE bool wait_for_answer(const SymmState& state, FarCall& call) {
  PENSTOCK_NOT_UNROLLED
  for (uint32_t looks = 1;; ++looks) {
    const SymmFar& far = *state.far;
    const FarEntry answer = load_entry(&far.answers[far_index(far, call.position)]);
    const uint64_t tag = far_tag(call.position >> far.entries_log2);
    if ((answer.word[0] & kFarTagMask) == tag && (answer.word[1] & kFarTagMask) == tag) {
      fence_system();  // what the proxy brought before it is seen
      store_system(&far.waiting[far_index(far, call.position)], uint32_t{0});
      call.answer = far_low(answer.word[0], 32) | answer.word[1] << 32;
      return (answer.word[0] & kFarFailed) == 0;
    }
    if (looks % kFarPollsPerLook == 0 && !may_wait_on(state)) return false;
  }
}

// From the request to its answer, if it has one. False: it failed, or somebody has ended.
PENSTOCK_DEVICE_CALL bool ask_far(const SymmState& state, FarCall& call) {
  call.answer = kSymmNothing;
  if (!reserve_entries(state, entries_of(call.asked), call.position)) return false;
  if (call.asked.answer && !take_answer_place(state, call.position)) return false;
  write_ask(state, call);
  return !call.asked.answer || wait_for_answer(state, call);
}

// Of one that failed. Without an answer it is somebody's end.
PENSTOCK_DEVICE SymmFailure failure_of(const FarCall& call) {
  return call.answer == kSymmNothing ? kSymmPeerGone : static_cast<SymmFailure>(call.answer);
}

PENSTOCK_DEVICE uint32_t log2_of(uint32_t bytes) {
  return bytes >= 16 ? 4 : bytes >= 8 ? 3 : bytes >= 4 ? 2 : bytes >= 2 ? 1 : 0;
}

// ---- words ----

struct FarWord {
  uint32_t bytes;
  FarChange change;
  uint64_t value;
  uint64_t expected;
};

PENSTOCK_DEVICE FarCall call_of(const FarWord& word, uint64_t offset, bool answer, int pe) {
  FarCall call = {};
  call.asked.ask = Ask::change;
  call.asked.answer = answer;
  call.asked.pe = static_cast<uint32_t>(pe);
  call.asked.width_log2 = log2_of(word.bytes);
  call.asked.change = word.change;
  call.asked.offset = offset;
  call.asked.value = word.value;
  call.asked.expected = word.expected;
  return call;
}

// Gives what was there before where an answer is wanted. Ends the kernel when there is none.
PENSTOCK_DEVICE_CALL uint64_t change_far(const SymmState& state, const void* symmetric,
                                         const FarWord& word, bool answer, int pe) {
  require_far(state, symmetric, word.bytes, pe);
  FarCall call = call_of(word, offset_of(state, symmetric), answer, pe);
  if (!ask_far(state, call))
    give_up(state, failure_of(call), static_cast<int>(call.asked.pe), symmetric);
  return call.answer;
}

template <class T>
PENSTOCK_DEVICE T fetch_far(const SymmState& state, const T* symmetric, FarChange change, T value,
                            T expected, int pe) {
  return bits_as<T>(static_cast<Word<T>>(change_far(
      state, symmetric, {sizeof(T), change, bits_as<Word<T>>(value), bits_as<Word<T>>(expected)},
      true, pe)));
}
template <class T>
PENSTOCK_DEVICE T fetch_far(const SymmState& state, const T* symmetric, int pe) {
  return fetch_far(state, symmetric, FarChange::fetch, T{}, T{}, pe);
}
template <class T>
PENSTOCK_DEVICE void change_far(const SymmState& state, T* symmetric, FarChange change, T value,
                                int pe) {
  change_far(state, symmetric, FarWord{sizeof(T), change, bits_as<Word<T>>(value), 0}, false, pe);
}

// A word by which PEs wait for each other, of the library's own: who waits hears of trouble.
PENSTOCK_DEVICE_CALL void tell_far(const SymmState& state, const uint64_t* symmetric,
                                   FarChange change, uint64_t value, int pe) {
  if (!is_far(state, pe)) return;
  FarCall call =
      call_of({sizeof(uint64_t), change, value, 0}, offset_of(state, symmetric), false, pe);
  ask_far(state, call);
}

// ---- bytes ----

PENSTOCK_DEVICE uint64_t load_bytes(const char* from, uint32_t bytes) {
  uint64_t value = 0;
  PENSTOCK_NOT_UNROLLED
  for (uint32_t i = 0; i < bytes; ++i) {
    value |= static_cast<uint64_t>(load_weak(reinterpret_cast<const uint8_t*>(from) + i)) << 8 * i;
  }
  return value;
}
PENSTOCK_DEVICE void store_bytes(char* to, uint64_t value, uint32_t bytes) {
  PENSTOCK_NOT_UNROLLED
  for (uint32_t i = 0; i < bytes; ++i)
    store_weak(reinterpret_cast<uint8_t*>(to) + i, static_cast<uint8_t>(value >> 8 * i));
}

// The two's power of the largest word that both the place there and what is left allow.
PENSTOCK_DEVICE uint32_t word_log2_at_most(uint64_t offset, uint64_t left) {
  uint32_t log2 = 3;
  PENSTOCK_NOT_UNROLLED
  while ((uint64_t{1} << log2) > left || offset % (uint64_t{1} << log2) != 0) --log2;
  return log2;
}

// Word by word, what call.left says, from and to `here`: few bytes, or some that copy engines do
// not reach.
PENSTOCK_DEVICE_CALL bool move_far_words(const SymmState& state, FarCall& call, char* here) {
  const bool is_put = call.asked.change == FarChange::set;
  call.asked.ask = Ask::change;
  call.asked.answer = !is_put;
  PENSTOCK_NOT_UNROLLED
  while (call.left != 0) {
    const uint32_t log2 = word_log2_at_most(call.asked.offset, call.left);
    const uint32_t step = 1U << log2;
    call.asked.width_log2 = log2;
    if (is_put) call.asked.value = load_bytes(here, step);
    if (!ask_far(state, call)) return false;
    if (!is_put) store_bytes(here, call.answer, step);
    here += step;
    call.asked.offset += step;
    call.left -= step;
  }
  return true;
}

// kSymmNothing: it has gone well.
PENSTOCK_DEVICE SymmFailure move_far(const SymmState& state, bool is_put, uint64_t offset,
                                     void* here, uint64_t bytes, int pe) {
  FarCall call = {};
  call.asked.pe = static_cast<uint32_t>(pe);
  call.asked.offset = offset;
  if (bytes <= sizeof(uint64_t) || !is_for_engines(here)) {
    call.asked.change = is_put ? FarChange::set : FarChange::fetch;
    call.left = bytes;
    return move_far_words(state, call, static_cast<char*>(here)) ? kSymmNothing : failure_of(call);
  }
  // What this thread and those it met have stored is there for the copy engine; what they have
  // loaded from there was loaded.
  fence_system();
  call.asked.ask = is_put ? Ask::put : Ask::get;
  call.asked.answer = true;
  call.asked.value = reinterpret_cast<uintptr_t>(here);
  call.asked.length = bytes;
  return ask_far(state, call) ? kSymmNothing : failure_of(call);
}

// By one thread. The source may change when it returns. kSymmPeerGone: the PE, or another one, has
// ended. kSymmNotReached: copy engines do not reach this PE's side of it.
PENSTOCK_DEVICE_CALL SymmFailure tried_put_far(const SymmState& state, void* dest,
                                               const void* source, uint64_t bytes, int pe) {
  require_far(state, dest, bytes, pe);
  return move_far(state, true, offset_of(state, dest), const_cast<void*>(source), bytes, pe);
}
PENSTOCK_DEVICE_CALL SymmFailure tried_get_far(const SymmState& state, void* dest,
                                               const void* source, uint64_t bytes, int pe) {
  require_far(state, source, bytes, pe);
  return move_far(state, false, offset_of(state, source), dest, bytes, pe);
}
PENSTOCK_DEVICE bool try_put_far(const SymmState& state, void* dest, const void* source,
                                 uint64_t bytes, int pe) {
  return tried_put_far(state, dest, source, bytes, pe) == kSymmNothing;
}
PENSTOCK_DEVICE bool try_get_far(const SymmState& state, void* dest, const void* source,
                                 uint64_t bytes, int pe) {
  return tried_get_far(state, dest, source, bytes, pe) == kSymmNothing;
}
PENSTOCK_DEVICE_CALL void put_far(const SymmState& state, void* dest, const void* source,
                                  uint64_t bytes, int pe) {
  const SymmFailure why = tried_put_far(state, dest, source, bytes, pe);
  if (why != kSymmNothing) give_up(state, why, pe, why == kSymmNotSymmetric ? dest : source);
}
PENSTOCK_DEVICE_CALL void get_far(const SymmState& state, void* dest, const void* source,
                                  uint64_t bytes, int pe) {
  const SymmFailure why = tried_get_far(state, dest, source, bytes, pe);
  if (why != kSymmNothing) give_up(state, why, pe, why == kSymmNotSymmetric ? source : dest);
}

// ---- rows ----

struct FarRow {
  uint64_t count;  // not 0
  uint64_t element_bytes;
  uint64_t stride_there;  // elements, as stride_here
  uint64_t stride_here;
};

// Where copy engines cannot, or a stride is too long for a request: element by element.
PENSTOCK_DEVICE_CALL SymmFailure move_far_elements(const SymmState& state, bool is_put,
                                                   uint64_t offset, char* here, const FarRow& row,
                                                   int pe) {
  PENSTOCK_NOT_UNROLLED
  for (uint64_t i = 0; i < row.count; ++i) {
    FarCall call = {};
    call.asked.pe = static_cast<uint32_t>(pe);
    call.asked.offset = offset + i * row.stride_there * row.element_bytes;
    call.asked.change = is_put ? FarChange::set : FarChange::fetch;
    call.left = row.element_bytes;
    if (!move_far_words(state, call, here + i * row.stride_here * row.element_bytes))
      return failure_of(call);
  }
  return kSymmNothing;
}

// As tried_put_far().
PENSTOCK_DEVICE_CALL SymmFailure move_far_row(const SymmState& state, bool is_put, uint64_t offset,
                                              char* here, const FarRow& row, int pe) {
  if (row.stride_there > kFarStrideMax || row.stride_here > kFarStrideMax || !is_for_engines(here))
    return move_far_elements(state, is_put, offset, here, row, pe);
  fence_system();  // as in move_far()
  FarCall call = {};
  call.asked.ask = is_put ? Ask::put_row : Ask::get_row;
  call.asked.answer = true;
  call.asked.pe = static_cast<uint32_t>(pe);
  call.asked.width_log2 = log2_of(static_cast<uint32_t>(row.element_bytes));
  call.asked.offset = offset;
  call.asked.value = reinterpret_cast<uintptr_t>(here);
  call.asked.stride_there = row.stride_there;
  call.asked.stride_here = row.stride_here;
  call.left = row.count;
  PENSTOCK_NOT_UNROLLED
  while (call.left != 0) {
    call.asked.length = call.left < kFarRowAtOnce ? call.left : kFarRowAtOnce;
    if (!ask_far(state, call)) return failure_of(call);
    call.left -= call.asked.length;
    call.asked.offset += call.asked.length * call.asked.stride_there << call.asked.width_log2;
    call.asked.value += call.asked.length * call.asked.stride_here << call.asked.width_log2;
  }
  return kSymmNothing;
}

// How many bytes a row there reaches over.
PENSTOCK_DEVICE uint64_t reach_of(const FarRow& row) {
  return (row.stride_there * (row.count - 1) + 1) * row.element_bytes;
}

PENSTOCK_DEVICE_CALL void put_row_far(const SymmState& state, void* dest, const void* source,
                                      const FarRow& row, int pe) {
  require_far(state, dest, reach_of(row), pe);
  const SymmFailure why =
      move_far_row(state, true, offset_of(state, dest),
                   const_cast<char*>(static_cast<const char*>(source)), row, pe);
  if (why != kSymmNothing) give_up(state, why, pe, source);
}
PENSTOCK_DEVICE_CALL void get_row_far(const SymmState& state, void* dest, const void* source,
                                      const FarRow& row, int pe) {
  require_far(state, source, reach_of(row), pe);
  const SymmFailure why =
      move_far_row(state, false, offset_of(state, source), static_cast<char*>(dest), row, pe);
  if (why != kSymmNothing) give_up(state, why, pe, dest);
}

// ---- order ----

// Whether this PE was asked for something since it was last known to be quiet.
PENSTOCK_DEVICE bool is_owed(const SymmState& state, int pe) {
  return is_far(state, pe) &&
         load_system(&state.far->control->asked[pe]) > load_system(&state.far->control->quiet[pe]);
}

PENSTOCK_DEVICE_CALL bool wait_for_quiet(const SymmState& state, uint32_t pe, uint64_t position) {
  PENSTOCK_NOT_UNROLLED
  for (uint32_t looks = 1;; ++looks) {
    const uint64_t seen = load_acquire(&state.far->header->completed[pe]);
    if (seen >= position) {
      store_system(&state.far->control->quiet[pe], seen);
      return true;
    }
    if (looks % kFarPollsPerLook == 0 && !may_wait_on(state)) return false;
  }
}

struct FarOwed {
  uint64_t first;  // position of the first flush
  uint32_t count;
  uint32_t pes[kFarPesMax / 32];  // by bit
};

PENSTOCK_DEVICE_CALL void find_owed(const SymmState& state, FarOwed& owed) {
  const int most = static_cast<int>(kFarPesMax);
  PENSTOCK_NOT_UNROLLED
  for (int pe = 0; pe < state.size && pe < most; ++pe) {
    if (!is_owed(state, pe)) continue;
    owed.pes[pe / 32] |= 1U << (pe % 32);
    ++owed.count;
  }
}

// Everything that was asked of far PEs before it, by this thread and those it has met, is done
// there. By one thread. False: somebody has ended.
PENSTOCK_DEVICE_CALL bool quiet_far(const SymmState& state) {
  FarOwed owed = {};
  find_owed(state, owed);
  if (owed.count == 0) return true;
  if (!reserve_entries(state, owed.count, owed.first)) return false;
  uint64_t position = owed.first;
  PENSTOCK_NOT_UNROLLED
  for (uint32_t pe = 0; pe < kFarPesMax; ++pe) {
    if ((owed.pes[pe / 32] >> (pe % 32) & 1) == 0) continue;
    write_entry(*state.far, position++, flush_entry(pe));
  }
  position = owed.first;
  PENSTOCK_NOT_UNROLLED
  for (uint32_t pe = 0; pe < kFarPesMax; ++pe) {
    if ((owed.pes[pe / 32] >> (pe % 32) & 1) == 0) continue;
    if (!wait_for_quiet(state, pe, ++position)) return false;
  }
  return true;
}

}  // namespace penstock::device
