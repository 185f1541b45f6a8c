#include "contexts.h"

#include "checking.h"
#include "handle_table.h"
#include "limits.h"

#include <algorithm>
#include <fmt/core.h>

namespace penstock::shmem {
namespace {

HandleTable<Context, limits::kContextsMax> contexts;
HandleTable<TeamRecord, limits::kTeamsMax> teams;

// Null: SHMEM_TEAM_INVALID, or one of the two that always are there.
TeamRecord* record_of(const char* call, shmem_team_t team) {
  if (team == SHMEM_TEAM_INVALID || team == SHMEM_TEAM_WORLD || team == SHMEM_TEAM_SHARED)
    return nullptr;
  TeamRecord* const found = teams.find(number_of(team));
  if (found == nullptr) fault(call, fmt::format("there is no team {}", static_cast<void*>(team)));
  return found;
}

int create_context(const char* call, shmem_team_t team, long options, shmem_ctx_t* ctx) {
  const symm::Team* const found = team_of(call, team);
  *ctx = SHMEM_CTX_INVALID;
  if (found == nullptr) return 1;
  const auto handle = contexts.add({found->set(), number_of(team), options});
  if (!handle) return 1;
  *ctx = reinterpret_cast<shmem_ctx_t>(static_cast<uintptr_t>(*handle));
  return 0;
}

// All PEs of the parent get here, also those that are in none of the parts: the group numbers the
// team with all of them. A configuration is only kept to be asked for, whether its mask says so or
// not: programs give one without a mask, and expect it.
int split(const char* call, shmem_team_t parent, const symm::PeSet& part,
          const shmem_team_config_t* config, shmem_team_t* made) {
  symm::Group& all = group(call);
  symm::Team& of_all = *team_of(call, parent);
  check_alike(call, all, of_all);
  auto team = all.split(of_all, part);
  if (!team) {
    const penstock::Code code = team.error().status.code();
    if (code == Code::peer_gone || code == Code::cancelled) fault_status(call, team.error().status);
    return 1;
  }
  if (*team == nullptr) return 0;
  count_calls_anew(**team);
  TeamRecord record = {*team, {}};
  if (config != nullptr) record.config = *config;
  const auto handle = teams.add(record);
  static_assert(limits::kTeamsMax >= symm::kTeamsMax);
  if (!handle) fault(call, "more teams than the group has");
  *made = reinterpret_cast<shmem_team_t>(static_cast<uintptr_t>(*handle));
  return 0;
}

bool is_row_within(int start, int stride, int size, uint32_t parent_size) {
  if (start < 0 || size < 1 || static_cast<uint32_t>(start) >= parent_size) return false;
  if (size == 1) return true;
  if (stride == 0) return false;
  const int64_t last = start + int64_t{stride} * (size - 1);
  return last >= 0 && last < parent_size;
}

}  // namespace

Context* find_context(shmem_ctx_t ctx) {
  return contexts.find(number_of(ctx));
}

symm::Team* team_of(const char* call, shmem_team_t team) {
  symm::Group& all = group(call);
  if (team == SHMEM_TEAM_WORLD) return &all.world();
  if (team == SHMEM_TEAM_SHARED) return &all.node();
  if (team == SHMEM_TEAM_INVALID) return nullptr;
  return record_of(call, team)->team;
}

void forget_contexts_and_teams() {
  contexts.remove_if([](const Context&) { return true; });
  teams.remove_if([](const TeamRecord&) { return true; });
}

}  // namespace penstock::shmem

namespace shmem = penstock::shmem;

SHMEM_DEFINE int pshmem_team_my_pe(shmem_team_t team) {
  const auto* const found = shmem::team_of("shmem_team_my_pe", team);
  return found != nullptr ? static_cast<int>(found->index()) : -1;
}
SHMEM_ALIAS(shmem_team_my_pe);

SHMEM_DEFINE int pshmem_team_n_pes(shmem_team_t team) {
  const auto* const found = shmem::team_of("shmem_team_n_pes", team);
  return found != nullptr ? static_cast<int>(found->size()) : -1;
}
SHMEM_ALIAS(shmem_team_n_pes);

SHMEM_DEFINE int pshmem_team_get_config(shmem_team_t team, long config_mask,
                                        shmem_team_config_t* config) {
  constexpr const char* kCall = "shmem_team_get_config";
  if (shmem::team_of(kCall, team) == nullptr) return 1;
  if ((config_mask & ~SHMEM_TEAM_NUM_CONTEXTS) != 0) return 1;
  const auto* const record = shmem::record_of(kCall, team);
  if (config_mask != 0) *config = record != nullptr ? record->config : shmem_team_config_t{};
  return 0;
}
SHMEM_ALIAS(shmem_team_get_config);

SHMEM_DEFINE int pshmem_team_translate_pe(shmem_team_t src_team, int src_pe,
                                          shmem_team_t dest_team) {
  constexpr const char* kCall = "shmem_team_translate_pe";
  const auto* const from = shmem::team_of(kCall, src_team);
  const auto* const to = shmem::team_of(kCall, dest_team);
  if (from == nullptr || to == nullptr || static_cast<uint32_t>(src_pe) >= from->size()) return -1;
  const auto index = to->set().index_of(from->set().pe(static_cast<uint32_t>(src_pe)));
  return index ? static_cast<int>(*index) : -1;
}
SHMEM_ALIAS(shmem_team_translate_pe);

SHMEM_DEFINE int pshmem_team_split_strided(shmem_team_t parent_team, int start, int stride,
                                           int size, const shmem_team_config_t* config,
                                           long /*config_mask*/, shmem_team_t* new_team) {
  constexpr const char* kCall = "shmem_team_split_strided";
  *new_team = SHMEM_TEAM_INVALID;
  const auto* const parent = shmem::team_of(kCall, parent_team);
  if (parent == nullptr) return 1;
  // All PEs say the same, so all of them turn back here.
  if (!shmem::is_row_within(start, stride, size, parent->size())) return 1;
  const penstock::symm::PeSet part = {static_cast<uint32_t>(start), size == 1 ? 1 : stride,
                                      static_cast<uint32_t>(size)};
  return shmem::split(kCall, parent_team, part, config, new_team);
}
SHMEM_ALIAS(shmem_team_split_strided);

SHMEM_DEFINE int pshmem_team_split_2d(shmem_team_t parent_team, int xrange,
                                      const shmem_team_config_t* xaxis_config, long /*xaxis_mask*/,
                                      shmem_team_t* xaxis_team,
                                      const shmem_team_config_t* yaxis_config, long /*yaxis_mask*/,
                                      shmem_team_t* yaxis_team) {
  constexpr const char* kCall = "shmem_team_split_2d";
  *xaxis_team = SHMEM_TEAM_INVALID;
  *yaxis_team = SHMEM_TEAM_INVALID;
  const auto* const parent = shmem::team_of(kCall, parent_team);
  if (parent == nullptr || xrange < 1) return 1;
  const uint32_t size = parent->size();
  const uint32_t width = std::min(static_cast<uint32_t>(xrange), size);
  const uint32_t x = parent->index() % width;
  const uint32_t row = parent->index() - x;
  // The last row may be shorter, and so are the columns that do not reach into it.
  const penstock::symm::PeSet along_x = {row, 1, std::min(width, size - row)};
  const penstock::symm::PeSet along_y = {x, width, (size - x + width - 1) / width};
  const int made_x = shmem::split(kCall, parent_team, along_x, xaxis_config, xaxis_team);
  const int made_y = shmem::split(kCall, parent_team, along_y, yaxis_config, yaxis_team);
  return made_x != 0 ? made_x : made_y;
}
SHMEM_ALIAS(shmem_team_split_2d);

SHMEM_DEFINE void pshmem_team_destroy(shmem_team_t team) {
  constexpr const char* kCall = "shmem_team_destroy";
  auto* const found = shmem::team_of(kCall, team);
  if (found == nullptr) return;
  if (shmem::record_of(kCall, team) == nullptr)
    shmem::fault(kCall, "SHMEM_TEAM_WORLD and SHMEM_TEAM_SHARED stay");
  shmem::check_alike(kCall, shmem::group(kCall), *found);
  shmem::contexts.remove_if(
      [&](const shmem::Context& context) { return context.team == shmem::number_of(team); });
  shmem::teams.remove(shmem::number_of(team));
  const penstock::Status destroyed = shmem::group(kCall).destroy(*found);
  if (!destroyed.ok()) shmem::fault_status(kCall, destroyed);
}
SHMEM_ALIAS(shmem_team_destroy);

SHMEM_DEFINE int pshmem_ctx_create(long options, shmem_ctx_t* ctx) {
  return shmem::create_context("shmem_ctx_create", SHMEM_TEAM_WORLD, options, ctx);
}
SHMEM_ALIAS(shmem_ctx_create);

SHMEM_DEFINE int pshmem_team_create_ctx(shmem_team_t team, long options, shmem_ctx_t* ctx) {
  return shmem::create_context("shmem_team_create_ctx", team, options, ctx);
}
SHMEM_ALIAS(shmem_team_create_ctx);

SHMEM_DEFINE int pshmem_ctx_get_team(shmem_ctx_t ctx, shmem_team_t* team) {
  shmem::group("shmem_ctx_get_team");
  *team = SHMEM_TEAM_INVALID;
  if (ctx == SHMEM_CTX_INVALID) return 1;
  if (ctx == SHMEM_CTX_DEFAULT) {
    *team = SHMEM_TEAM_WORLD;
    return 0;
  }
  const auto* const found = shmem::find_context(ctx);
  if (found == nullptr) shmem::fault("shmem_ctx_get_team", "there is no such context");
  *team = reinterpret_cast<shmem_team_t>(static_cast<uintptr_t>(found->team));
  return 0;
}
SHMEM_ALIAS(shmem_ctx_get_team);

SHMEM_DEFINE void pshmem_ctx_destroy(shmem_ctx_t ctx) {
  auto& group = shmem::group("shmem_ctx_destroy");
  if (ctx == SHMEM_CTX_INVALID) return;
  if (ctx == SHMEM_CTX_DEFAULT) shmem::fault("shmem_ctx_destroy", "SHMEM_CTX_DEFAULT stays");
  if (const penstock::Status done = group.quiet(); !done.ok())
    shmem::fault_status("shmem_ctx_destroy", done);
  if (!shmem::contexts.remove(shmem::number_of(ctx)))
    shmem::fault("shmem_ctx_destroy", "there is no such context");
}
SHMEM_ALIAS(shmem_ctx_destroy);

// Hints: operations go out at once, and have nothing to gain from waiting for more of them.
SHMEM_DEFINE void pshmem_ctx_session_start(shmem_ctx_t ctx, long /*options*/,
                                           const shmem_ctx_session_config_t* /*config*/,
                                           long /*config_mask*/) {
  if (ctx != SHMEM_CTX_INVALID) shmem::pe_on("shmem_ctx_session_start", ctx, 0);
}
SHMEM_ALIAS(shmem_ctx_session_start);

SHMEM_DEFINE void pshmem_ctx_session_stop(shmem_ctx_t ctx) {
  if (ctx != SHMEM_CTX_INVALID) shmem::pe_on("shmem_ctx_session_stop", ctx, 0);
}
SHMEM_ALIAS(shmem_ctx_session_stop);
