// Order, completion, barriers, signals, locks and caches: what has no type in its name.
#include "typed_collectives.h"
#include "typed_waits.h"

#include <fmt/core.h>

namespace penstock::shmem {
namespace {

// Operations of all contexts complete together: they are stores, or go out in one order to each PE.
void complete(const char* call, shmem_ctx_t ctx) {
  symm::Group& all = group(call);
  if (ctx == SHMEM_CTX_INVALID) return;
  pe_on(call, ctx, 0);
  check_met(call, all.quiet());
}

void order(const char* call, shmem_ctx_t ctx) {
  symm::Group& all = group(call);
  if (ctx == SHMEM_CTX_INVALID) return;
  pe_on(call, ctx, 0);
  all.fence();
}

void complete_at(const char* call, shmem_ctx_t ctx, int pe) {
  symm::Group& all = group(call);
  if (ctx == SHMEM_CTX_INVALID) return;
  if (const uint32_t target = pe_on(call, ctx, pe); target >= all.size())
    fault_pe(call, pe, all.size());
  else
    check_met(call, all.quiet(target));
}

void sync_set(const char* call, symm::Group& all, const symm::ActiveSet& set) {
  over_set(call, set, [&](auto& who) {
    check_alike(call, all, who);
    check_met(call, symm::sync(all, who));
  });
}

void lock_failed(const char* call, Status status, const volatile long* lock) {
  if (status.code() == Code::in_use)
    fault(call, "this PE has the lock already, and would wait for itself");
  if (status.code() == Code::not_permitted) fault(call, "this PE has not got the lock");
  check_asked(call, status, {const_cast<const long*>(lock), sizeof *lock, 0, sizeof *lock});
}

}  // namespace
}  // namespace penstock::shmem

namespace shmem = penstock::shmem;

SHMEM_DEFINE void pshmem_fence(void) {
  shmem::order("shmem_fence", SHMEM_CTX_DEFAULT);
}
SHMEM_ALIAS(shmem_fence);

SHMEM_DEFINE void pshmem_ctx_fence(shmem_ctx_t ctx) {
  shmem::order("shmem_ctx_fence", ctx);
}
SHMEM_ALIAS(shmem_ctx_fence);

SHMEM_DEFINE void pshmem_quiet(void) {
  shmem::complete("shmem_quiet", SHMEM_CTX_DEFAULT);
}
SHMEM_ALIAS(shmem_quiet);

SHMEM_DEFINE void pshmem_ctx_quiet(shmem_ctx_t ctx) {
  shmem::complete("shmem_ctx_quiet", ctx);
}
SHMEM_ALIAS(shmem_ctx_quiet);

SHMEM_DEFINE void pshmem_pe_quiet(int target_pe) {
  shmem::complete_at("shmem_pe_quiet", SHMEM_CTX_DEFAULT, target_pe);
}
SHMEM_ALIAS(shmem_pe_quiet);

SHMEM_DEFINE void pshmem_ctx_pe_quiet(shmem_ctx_t ctx, int target_pe) {
  shmem::complete_at("shmem_ctx_pe_quiet", ctx, target_pe);
}
SHMEM_ALIAS(shmem_ctx_pe_quiet);

SHMEM_DEFINE void pshmem_barrier_all(void) {
  auto& all = shmem::group("shmem_barrier_all");
  shmem::check_met("shmem_barrier_all", all.quiet());
  shmem::check_alike("shmem_barrier_all", all, all.world());
  shmem::check_met("shmem_barrier_all", all.barrier(all.world()));
}
SHMEM_ALIAS(shmem_barrier_all);

SHMEM_DEFINE void pshmem_sync_all(void) {
  auto& all = shmem::group("shmem_sync_all");
  shmem::check_alike("shmem_sync_all", all, all.world());
  shmem::check_met("shmem_sync_all", all.sync(all.world()));
}
SHMEM_ALIAS(shmem_sync_all);

SHMEM_DEFINE int pshmem_team_sync(shmem_team_t team) {
  auto* const found = shmem::team_of("shmem_team_sync", team);
  if (found == nullptr) return 1;
  auto& all = shmem::group("shmem_team_sync");
  shmem::check_alike("shmem_team_sync", all, *found);
  shmem::check_met("shmem_team_sync", all.sync(*found));
  return 0;
}
SHMEM_ALIAS(shmem_team_sync);

SHMEM_DEFINE void pshmem_barrier(int PE_start, int logPE_stride, int PE_size, long* pSync) {
  auto& all = shmem::group("shmem_barrier");
  shmem::check_met("shmem_barrier", all.quiet());
  const auto set = shmem::active_set("shmem_barrier", PE_start, logPE_stride, PE_size, pSync);
  shmem::sync_set("shmem_barrier", all, set);
}
SHMEM_ALIAS(shmem_barrier);

SHMEM_DEFINE void pshmem_sync(int PE_start, int logPE_stride, int PE_size, long* pSync) {
  auto& all = shmem::group("shmem_sync");
  const auto set = shmem::active_set("shmem_sync", PE_start, logPE_stride, PE_size, pSync);
  shmem::sync_set("shmem_sync", all, set);
}
SHMEM_ALIAS(shmem_sync);

SHMEM_DEFINE uint64_t pshmem_signal_fetch(const uint64_t* sig_addr) {
  const auto& all = shmem::group("shmem_signal_fetch");
  all.progress();
  const int own = static_cast<int>(all.me());
  return shmem::atomic_fetch("shmem_signal_fetch", SHMEM_CTX_DEFAULT, sig_addr, own);
}
SHMEM_ALIAS(shmem_signal_fetch);

SHMEM_DEFINE uint64_t pshmem_signal_wait_until(uint64_t* sig_addr, int cmp, uint64_t cmp_value) {
  return shmem::wait_until_seen("shmem_signal_wait_until", sig_addr, cmp, cmp_value);
}
SHMEM_ALIAS(shmem_signal_wait_until);

SHMEM_DEFINE void pshmem_signal_set(uint64_t* sig_addr, uint64_t signal, int pe) {
  shmem::atomic_set("shmem_signal_set", SHMEM_CTX_DEFAULT, sig_addr, signal, pe);
}
SHMEM_ALIAS(shmem_signal_set);

SHMEM_DEFINE void pshmem_ctx_signal_set(shmem_ctx_t ctx, uint64_t* sig_addr, uint64_t signal,
                                        int pe) {
  shmem::atomic_set("shmem_ctx_signal_set", ctx, sig_addr, signal, pe);
}
SHMEM_ALIAS(shmem_ctx_signal_set);

SHMEM_DEFINE void pshmem_signal_add(uint64_t* sig_addr, uint64_t signal, int pe) {
  shmem::atomic_add("shmem_signal_add", SHMEM_CTX_DEFAULT, sig_addr, signal, pe);
}
SHMEM_ALIAS(shmem_signal_add);

SHMEM_DEFINE void pshmem_ctx_signal_add(shmem_ctx_t ctx, uint64_t* sig_addr, uint64_t signal,
                                        int pe) {
  shmem::atomic_add("shmem_ctx_signal_add", ctx, sig_addr, signal, pe);
}
SHMEM_ALIAS(shmem_ctx_signal_add);

SHMEM_DEFINE void pshmem_wait(volatile long* ivar, long cmp_value) {
  shmem::wait_until("shmem_wait", shmem::plain(ivar), SHMEM_CMP_NE, cmp_value);
}
SHMEM_ALIAS(shmem_wait);

SHMEM_DEFINE void pshmem_wait_until(volatile long* ivar, int cmp, long cmp_value) {
  shmem::wait_until("shmem_wait_until", shmem::plain(ivar), cmp, cmp_value);
}
SHMEM_ALIAS(shmem_wait_until);

SHMEM_DEFINE long pshmem_swap(long* dest, long value, int pe) {
  return shmem::atomic_swap("shmem_swap", SHMEM_CTX_DEFAULT, dest, value, pe);
}
SHMEM_ALIAS(shmem_swap);

SHMEM_DEFINE void pshmem_set_lock(volatile long* lock) {
  auto& all = shmem::group("shmem_set_lock");
  const penstock::Status locked = penstock::symm::set_lock(all, shmem::plain(lock));
  if (!locked.ok()) shmem::lock_failed("shmem_set_lock", locked, lock);
}
SHMEM_ALIAS(shmem_set_lock);

SHMEM_DEFINE int pshmem_test_lock(volatile long* lock) {
  const auto is_locked =
      penstock::symm::test_lock(shmem::group("shmem_test_lock"), shmem::plain(lock));
  if (!is_locked) shmem::lock_failed("shmem_test_lock", is_locked.error(), lock);
  return *is_locked ? 0 : 1;
}
SHMEM_ALIAS(shmem_test_lock);

SHMEM_DEFINE void pshmem_clear_lock(volatile long* lock) {
  auto& all = shmem::group("shmem_clear_lock");
  const penstock::Status cleared = penstock::symm::clear_lock(all, shmem::plain(lock));
  if (!cleared.ok()) shmem::lock_failed("shmem_clear_lock", cleared, lock);
}
SHMEM_ALIAS(shmem_clear_lock);

// Caches of today keep themselves coherent.
SHMEM_DEFINE void pshmem_set_cache_inv(void) {}
SHMEM_ALIAS(shmem_set_cache_inv);
SHMEM_DEFINE void pshmem_set_cache_line_inv(void* /*dest*/) {}
SHMEM_ALIAS(shmem_set_cache_line_inv);
SHMEM_DEFINE void pshmem_clear_cache_inv(void) {}
SHMEM_ALIAS(shmem_clear_cache_inv);
SHMEM_DEFINE void pshmem_clear_cache_line_inv(void* /*dest*/) {}
SHMEM_ALIAS(shmem_clear_cache_line_inv);
SHMEM_DEFINE void pshmem_udcflush(void) {}
SHMEM_ALIAS(shmem_udcflush);
SHMEM_DEFINE void pshmem_udcflush_line(void* /*dest*/) {}
SHMEM_ALIAS(shmem_udcflush_line);
