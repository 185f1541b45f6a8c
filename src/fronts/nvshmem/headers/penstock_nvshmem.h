// What the device functions of NVSHMEM call: the state of this translation unit, and one template
// for each family of functions.
//
// Where NVSHMEM's function cannot say that it failed, and the job is to end (a PE has ended, an
// address is not symmetric), the host is told why and the kernel traps: no later kernel then works
// on what has not come.
#pragma once

#include "penstock_device/symm/narrow_floats.h"
#include "penstock_device_symm.h"

// Filled by the library, through the driver, once the program has chosen its device. One for each
// translation unit, or for all that are linked with one another as relocatable code. A template, as
// that may stand in several units whether their code is relocatable or not, and has one name in all
// of them, by which the library finds it in modules that the program loads
// (fronts/nvshmem/units.cc); that of another version has another name. Hidden: shared libraries
// have each their own.
template <unsigned kVersion>
__attribute__((visibility("hidden"))) __constant__ penstock::device::SymmState penstock_symm_state;

// Of the library: units that have such a state, in the order in which they were loaded.
extern "C" {
struct penstock_symm_unit {
  uint32_t version;  // of the state, as this unit knows it
  uint32_t bytes;
  void* (*address)(void);  // of the state, on the current device; null: it cannot be told
  struct penstock_symm_unit* next;
};
void penstock_symm_add_unit(struct penstock_symm_unit* unit);  // only links it
}

#if !defined(__CUDA_ARCH__)
namespace {

// Compiled in this unit, so that it asks the CUDA runtime that the program is linked with.
void* penstock_symm_state_address() {
  void* address = nullptr;
  return cudaGetSymbolAddress(&address, penstock_symm_state<penstock::device::kSymmVersion>) ==
                 cudaSuccess
             ? address
             : nullptr;
}

struct PenstockSymmUnit {
  penstock_symm_unit unit = {penstock::device::kSymmVersion, sizeof(penstock::device::SymmState),
                             &penstock_symm_state_address, nullptr};
  PenstockSymmUnit() { penstock_symm_add_unit(&unit); }
};
PenstockSymmUnit penstock_symm_this_unit;

}  // namespace
#endif

namespace penstock {
namespace nvshmem {

using device::Scope;

PENSTOCK_DEVICE const device::SymmState& state() {
  return penstock_symm_state<device::kSymmVersion>;
}

PENSTOCK_DEVICE void expect(bool come) {
  if (!come) device::give_up(state(), device::kSymmPeerGone, -1, nullptr);
}

// ---- PEs and teams ----

PENSTOCK_DEVICE int my_pe() {
  return state().version == 0 ? -1 : state().me;
}
PENSTOCK_DEVICE int n_pes() {
  return state().version == 0 ? -1 : state().size;
}
PENSTOCK_DEVICE void info_get_version(int* major, int* minor) {
  *major = NVSHMEM_MAJOR_VERSION;
  *minor = NVSHMEM_MINOR_VERSION;
}
PENSTOCK_DEVICE void info_get_name(char* name) {
  const char text[] = NVSHMEM_VENDOR_STRING;
  for (unsigned i = 0; i < sizeof text; ++i) name[i] = text[i];
}
PENSTOCK_DEVICE void vendor_get_version_info(int* major, int* minor, int* patch) {
  *major = NVSHMEM_VENDOR_MAJOR_VERSION;
  *minor = NVSHMEM_VENDOR_MINOR_VERSION;
  *patch = NVSHMEM_VENDOR_PATCH_VERSION;
}
PENSTOCK_DEVICE void global_exit(int status) {
  device::give_up(state(), device::kSymmAskedToEnd, status, nullptr);
}
PENSTOCK_DEVICE void* ptr(const void* dest, int pe) {
  return device::try_at(state(), dest, pe);
}
PENSTOCK_DEVICE void* mc_ptr(nvshmem_team_t, const void*) {
  return nullptr;
}
PENSTOCK_DEVICE int team_my_pe(nvshmem_team_t team) {
  return device::team_my_pe(state(), team);
}
PENSTOCK_DEVICE int team_n_pes(nvshmem_team_t team) {
  return device::team_n_pes(state(), team);
}
PENSTOCK_DEVICE int team_translate_pe(nvshmem_team_t from, int pe, nvshmem_team_t to) {
  return device::translate_pe(state(), from, pe, to);
}

// ---- put and get ----

template <Scope kScope, class T>
PENSTOCK_DEVICE void put(T* dest, const T* source, size_t count, int pe) {
  device::put<kScope>(state(), dest, source, count * sizeof(T), pe);
}
// By loads and stores nothing is gained by not waiting for what a put waits for.
template <Scope kScope, class T>
PENSTOCK_DEVICE void put_nbi(T* dest, const T* source, size_t count, int pe) {
  device::put<kScope>(state(), dest, source, count * sizeof(T), pe);
}
template <Scope kScope, class T>
PENSTOCK_DEVICE void get(T* dest, const T* source, size_t count, int pe) {
  device::get<kScope>(state(), dest, source, count * sizeof(T), pe);
}
template <Scope kScope, class T>
PENSTOCK_DEVICE void get_nbi(T* dest, const T* source, size_t count, int pe) {
  device::get<kScope>(state(), dest, source, count * sizeof(T), pe);
}
template <Scope kScope, class T>
PENSTOCK_DEVICE void iput(T* dest, const T* source, ptrdiff_t to, ptrdiff_t from, size_t count,
                          int pe) {
  using Element = device::Word<T>;
  device::iput<kScope>(state(), reinterpret_cast<Element*>(dest),
                       reinterpret_cast<const Element*>(source), {to, from}, count, pe);
}
template <Scope kScope, class T>
PENSTOCK_DEVICE void iget(T* dest, const T* source, ptrdiff_t to, ptrdiff_t from, size_t count,
                          int pe) {
  using Element = device::Word<T>;
  device::iget<kScope>(state(), reinterpret_cast<Element*>(dest),
                       reinterpret_cast<const Element*>(source), {to, from}, count, pe);
}
template <class T>
PENSTOCK_DEVICE void p(T* dest, T value, int pe) {
  device::p(state(), dest, value, pe);
}
template <class T>
PENSTOCK_DEVICE T g(const T* source, int pe) {
  return device::g(state(), source, pe);
}

// ---- signals ----

template <Scope kScope, class T>
PENSTOCK_DEVICE void put_signal(T* dest, const T* source, size_t count, uint64_t* signal,
                                uint64_t value, int op, int pe) {
  device::put_signal<kScope>(state(), dest, source, count * sizeof(T), signal, value,
                             static_cast<device::SignalOp>(op), pe);
}
PENSTOCK_DEVICE void signal_op(uint64_t* signal, uint64_t value, int op, int pe) {
  device::signal_op(state(), signal, value, static_cast<device::SignalOp>(op), pe);
}
PENSTOCK_DEVICE uint64_t signal_fetch(uint64_t* signal) {
  return device::signal_fetch(signal);
}
PENSTOCK_DEVICE uint64_t signal_wait_until(uint64_t* signal, int comparison, uint64_t value) {
  uint64_t seen = 0;
  expect(device::signal_wait_until(state(), signal, static_cast<device::Comparison>(comparison),
                                   value, seen));
  return seen;
}

// ---- atomic operations ----

template <class T>
PENSTOCK_DEVICE T atomic_fetch(const T* source, int pe) {
  return device::atomic_fetch(state(), source, pe);
}
template <class T>
PENSTOCK_DEVICE void atomic_set(T* dest, T value, int pe) {
  device::atomic_set(state(), dest, value, pe);
}
template <class T>
PENSTOCK_DEVICE T atomic_compare_swap(T* dest, T expected, T value, int pe) {
  return device::atomic_compare_swap(state(), dest, expected, value, pe);
}
template <class T>
PENSTOCK_DEVICE T atomic_swap(T* dest, T value, int pe) {
  return device::atomic_swap(state(), dest, value, pe);
}
template <class T>
PENSTOCK_DEVICE T atomic_fetch_inc(T* dest, int pe) {
  return device::atomic_fetch_inc(state(), dest, pe);
}
template <class T>
PENSTOCK_DEVICE void atomic_inc(T* dest, int pe) {
  device::atomic_inc(state(), dest, pe);
}
template <class T>
PENSTOCK_DEVICE T atomic_fetch_add(T* dest, T value, int pe) {
  return device::atomic_fetch_add(state(), dest, value, pe);
}
template <class T>
PENSTOCK_DEVICE void atomic_add(T* dest, T value, int pe) {
  device::atomic_add(state(), dest, value, pe);
}
template <class T>
PENSTOCK_DEVICE T atomic_fetch_and(T* dest, T value, int pe) {
  return device::atomic_fetch_and(state(), dest, value, pe);
}
template <class T>
PENSTOCK_DEVICE void atomic_and(T* dest, T value, int pe) {
  device::atomic_and(state(), dest, value, pe);
}
template <class T>
PENSTOCK_DEVICE T atomic_fetch_or(T* dest, T value, int pe) {
  return device::atomic_fetch_or(state(), dest, value, pe);
}
template <class T>
PENSTOCK_DEVICE void atomic_or(T* dest, T value, int pe) {
  device::atomic_or(state(), dest, value, pe);
}
template <class T>
PENSTOCK_DEVICE T atomic_fetch_xor(T* dest, T value, int pe) {
  return device::atomic_fetch_xor(state(), dest, value, pe);
}
template <class T>
PENSTOCK_DEVICE void atomic_xor(T* dest, T value, int pe) {
  device::atomic_xor(state(), dest, value, pe);
}

// ---- waits and tests ----

template <class T>
PENSTOCK_DEVICE device::Words<T> words(T* at, size_t count, const int* status, int comparison,
                                       T value) {
  return {at, count, status, static_cast<device::Comparison>(comparison), nullptr, value};
}
template <class T>
PENSTOCK_DEVICE device::Words<T> words(T* at, size_t count, const int* status, int comparison,
                                       T* values) {
  return {at, count, status, static_cast<device::Comparison>(comparison), values, T{}};
}

template <class T>
PENSTOCK_DEVICE void wait_until(T* here, int comparison, T value) {
  expect(device::wait_until(state(), here, static_cast<device::Comparison>(comparison), value));
}
template <class T>
PENSTOCK_DEVICE int test(T* here, int comparison, T value) {
  return device::test(here, static_cast<device::Comparison>(comparison), value) ? 1 : 0;
}

template <class T, class Value>
PENSTOCK_DEVICE void wait_until_all(T* at, size_t count, const int* status, int comparison,
                                    Value value) {
  expect(device::wait_until_all(state(), words(at, count, status, comparison, value)));
}
template <class T, class Value>
PENSTOCK_DEVICE size_t wait_until_any(T* at, size_t count, const int* status, int comparison,
                                      Value value) {
  uint64_t index = 0;
  expect(device::wait_until_any(state(), words(at, count, status, comparison, value), index));
  return index;
}
// size_t and uint64_t are of one size wherever CUDA is.
template <class T, class Value>
PENSTOCK_DEVICE size_t wait_until_some(T* at, size_t count, size_t* indices, const int* status,
                                       int comparison, Value value) {
  uint64_t found = 0;
  expect(device::wait_until_some(state(), words(at, count, status, comparison, value),
                                 reinterpret_cast<uint64_t*>(indices), found));
  return found;
}
template <class T, class Value>
PENSTOCK_DEVICE int test_all(T* at, size_t count, const int* status, int comparison, Value value) {
  return device::test_all(words(at, count, status, comparison, value)) ? 1 : 0;
}
template <class T, class Value>
PENSTOCK_DEVICE size_t test_any(T* at, size_t count, const int* status, int comparison,
                                Value value) {
  return device::test_any(words(at, count, status, comparison, value));
}
template <class T, class Value>
PENSTOCK_DEVICE size_t test_some(T* at, size_t count, size_t* indices, const int* status,
                                 int comparison, Value value) {
  return device::test_some(words(at, count, status, comparison, value),
                           reinterpret_cast<uint64_t*>(indices));
}

// With a value for each word.
template <class T>
PENSTOCK_DEVICE void wait_until_all_vector(T* at, size_t count, const int* status, int comparison,
                                           T* values) {
  wait_until_all(at, count, status, comparison, values);
}
template <class T>
PENSTOCK_DEVICE size_t wait_until_any_vector(T* at, size_t count, const int* status, int comparison,
                                             T* values) {
  return wait_until_any(at, count, status, comparison, values);
}
template <class T>
PENSTOCK_DEVICE size_t wait_until_some_vector(T* at, size_t count, size_t* indices,
                                              const int* status, int comparison, T* values) {
  return wait_until_some(at, count, indices, status, comparison, values);
}
template <class T>
PENSTOCK_DEVICE int test_all_vector(T* at, size_t count, const int* status, int comparison,
                                    T* values) {
  return test_all(at, count, status, comparison, values);
}
template <class T>
PENSTOCK_DEVICE size_t test_any_vector(T* at, size_t count, const int* status, int comparison,
                                       T* values) {
  return test_any(at, count, status, comparison, values);
}
template <class T>
PENSTOCK_DEVICE size_t test_some_vector(T* at, size_t count, size_t* indices, const int* status,
                                        int comparison, T* values) {
  return test_some(at, count, indices, status, comparison, values);
}

// ---- order, barriers, collective operations ----

PENSTOCK_DEVICE void fence() {
  device::fence();
}
PENSTOCK_DEVICE void quiet() {
  expect(device::quiet<Scope::thread>(state()));
}

PENSTOCK_DEVICE bool is_team(nvshmem_team_t team) {
  return device::can_sync(device::members_of(state(), team));
}
PENSTOCK_DEVICE int done(bool come) {
  expect(come);
  return 0;
}

template <Scope kScope>
PENSTOCK_DEVICE int team_sync(nvshmem_team_t team) {
  return is_team(team) ? done(device::sync<kScope>(state(), team)) : -1;
}
template <Scope kScope>
PENSTOCK_DEVICE int barrier(nvshmem_team_t team) {
  return is_team(team) ? done(device::barrier<kScope>(state(), team)) : -1;
}
template <Scope kScope>
PENSTOCK_DEVICE void sync_all() {
  expect(device::sync<kScope>(state(), NVSHMEM_TEAM_WORLD));
}
template <Scope kScope>
PENSTOCK_DEVICE void barrier_all() {
  expect(device::barrier<kScope>(state(), NVSHMEM_TEAM_WORLD));
}

template <Scope kScope, class T>
PENSTOCK_DEVICE int broadcast(nvshmem_team_t team, T* dest, const T* source, size_t count,
                              int root) {
  if (!is_team(team) || root < 0 || root >= device::team_n_pes(state(), team)) return -1;
  return done(device::broadcast<kScope>(state(), team, dest, source, count * sizeof(T), root));
}
template <Scope kScope, class T>
PENSTOCK_DEVICE int fcollect(nvshmem_team_t team, T* dest, const T* source, size_t count) {
  if (!is_team(team)) return -1;
  return done(device::fcollect<kScope>(state(), team, dest, source, count * sizeof(T)));
}
template <Scope kScope, class T>
PENSTOCK_DEVICE int alltoall(nvshmem_team_t team, T* dest, const T* source, size_t count) {
  if (!is_team(team)) return -1;
  return done(device::alltoall<kScope>(state(), team, dest, source, count * sizeof(T)));
}
template <Scope kScope, class Op, class T>
PENSTOCK_DEVICE int reduce(nvshmem_team_t team, T* dest, const T* source, size_t count) {
  return is_team(team) ? done(device::reduce<kScope, Op>(state(), team, dest, source, count)) : -1;
}
// Not `double2`, which only CUDA's headers have.
template <class T>
PENSTOCK_DEVICE int double2_maxloc_reduce_block(nvshmem_team_t team, T* dest, const T* source,
                                                size_t count) {
  return reduce<Scope::block, device::MaxLoc>(team, dest, source, count);
}
template <Scope kScope, class Op, class T>
PENSTOCK_DEVICE int reducescatter(nvshmem_team_t team, T* dest, const T* source, size_t count) {
  if (!is_team(team)) return -1;
  return done(device::reducescatter<kScope, Op>(state(), team, dest, source, count));
}

}  // namespace nvshmem
}  // namespace penstock
