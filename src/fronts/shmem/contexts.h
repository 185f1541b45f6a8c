// Contexts and teams as programs hold them.
#pragma once

#include "penstock_shmem_headers.h"
#include "process.h"

namespace penstock::shmem {

struct Context {
  symm::PeSet set;  // PEs, as the program numbers them on this context
  uint64_t team = 0;
  long options = 0;
};

struct TeamRecord {
  symm::Team* team = nullptr;
  shmem_team_config_t config = {};
};

inline uint64_t number_of(shmem_ctx_t ctx) {
  return reinterpret_cast<uintptr_t>(ctx);
}
inline uint64_t number_of(shmem_team_t team) {
  return reinterpret_cast<uintptr_t>(team);
}

// Null: the program has no such context. Not for SHMEM_CTX_DEFAULT.
Context* find_context(shmem_ctx_t ctx);

// The PE of the group that a program's number means on a context. Numbers that are out of range on
// the default context stay so, for the operation to find.
inline uint32_t pe_on(const char* call, shmem_ctx_t ctx, int pe) {
  if (ctx == SHMEM_CTX_DEFAULT) [[likely]]
    return static_cast<uint32_t>(pe);
  const Context* const found = find_context(ctx);
  if (found == nullptr) [[unlikely]]
    fault(call, "there is no such context");
  if (static_cast<uint32_t>(pe) >= found->set.size) [[unlikely]]
    fault_pe(call, pe, found->set.size);
  return found->set.pe(static_cast<uint32_t>(pe));
}

// Null for SHMEM_TEAM_INVALID; a handle that stands for nothing ends the job.
symm::Team* team_of(const char* call, shmem_team_t team);

// All that the program has made, when the library ends.
void forget_contexts_and_teams();

}  // namespace penstock::shmem
