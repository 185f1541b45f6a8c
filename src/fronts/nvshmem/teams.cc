#include "teams.h"

#include "api.h"
#include "limits.h"

#include <array>
#include <set>

namespace front = penstock::nvshmem;
using penstock::symm::PeSet;
using penstock::symm::Team;

namespace penstock::nvshmem {
namespace {

// By number. The group has teams of its own for the world and for those that share memory.
std::array<symm::Team*, device::kSymmTeamsMax> teams{};
// What each was made with.
std::array<nvshmem_team_config_t, device::kSymmTeamsMax> configs{};

// Of what the program gives the members that its mask names.
nvshmem_team_config_t config_of(const nvshmem_team_config_t* given, long mask) {
  nvshmem_team_config_t config = NVSHMEM_TEAM_CONFIG_INITIALIZER;
  config.num_contexts = 0;
  if (given == nullptr) return config;
  if ((mask & NVSHMEM_TEAM_CONFIG_MASK_NUM_CONTEXTS) != 0)
    config.num_contexts = given->num_contexts;
  if ((mask & NVSHMEM_TEAM_CONFIG_MASK_UNIQUEID) != 0) config.uniqueid = given->uniqueid;
  return config;
}

// Those which have this PE's place on their nodes, one of each; itself alone where nodes have
// different numbers of PEs, or not one behind the other. All PEs find the same.
PeSet same_of_nodes(const symm::Group& group) {
  uint32_t of_node = 1;
  while (of_node < group.size() && group.node_of(of_node) == group.node_of(0)) ++of_node;
  bool are_alike = group.size() % of_node == 0;
  std::set<uint32_t> nodes;
  for (uint32_t pe = 0; pe < group.size(); ++pe) {
    if (pe % of_node == 0) {
      are_alike = nodes.insert(group.node_of(pe)).second && are_alike;
    } else {
      are_alike = group.node_of(pe) == group.node_of(pe - 1) && are_alike;
    }
  }
  if (!are_alike) return {group.me(), 1, 1};
  return {group.me() % of_node, of_node, group.size() / of_node};
}

}  // namespace

Status make_first_teams(symm::Group& group) {
  teams.fill(nullptr);
  configs.fill(config_of(nullptr, 0));
  teams[NVSHMEM_TEAM_WORLD] = &group.world();
  teams[NVSHMEM_TEAM_SHARED] = &group.node();
  // In the order of their numbers, as each split takes the lowest that is free.
  for (const auto& [number, part] :
       {std::pair(NVSHMEMX_TEAM_NODE, group.node().set()),
        std::pair(NVSHMEMX_TEAM_SAME_MYPE_NODE, same_of_nodes(group))}) {
    const auto made = group.split(group.world(), part);
    if (!made) return made.error().status;
    ASSERT(*made != nullptr && (*made)->id() == static_cast<uint32_t>(number));
    teams[static_cast<size_t>(number)] = *made;
  }
  return {};
}

Outcome<void> tell_of(OnDevice& device, const symm::Team& team) {
  if (const Status told = device.heap->tell_of(team); !told.ok()) {
    return Failure{told, fmt::format("the GPU cannot be told of team {}", team.id())};
  }
  return device.streams->prepare(team);
}

Outcome<void> tell_teams(OnDevice& device) {
  for (const symm::Team* const team : teams) {
    if (team != nullptr) TRY(tell_of(device, *team));
  }
  const symm::Team& shared = *teams[NVSHMEM_TEAM_SHARED];
  if (shared.id() == NVSHMEM_TEAM_SHARED) return {};
  // Kernels find it by NVSHMEM's number.
  const symm::Team known(NVSHMEM_TEAM_SHARED, shared.set(), shared.index());
  if (const Status told = device.heap->tell_of(known); !told.ok())
    return Failure{told, "the GPU cannot be told of the PEs that share memory"};
  return {};
}

Outcome<void> find_sharing(symm::Group& group, const symm::DeviceHeap& heap) {
  if (!heap.access().has_any()) return {};
  TRY_ASSIGN(teams[NVSHMEM_TEAM_SHARED], group.split(group.world(), heap.sharing()));
  ASSERT(teams[NVSHMEM_TEAM_SHARED] != nullptr);
  return {};
}

void forget_teams() {
  teams.fill(nullptr);
}

symm::Team* find_team(const char* call, int32_t team) {
  group(call);
  return team >= 0 && static_cast<size_t>(team) < teams.size() ? teams[static_cast<size_t>(team)]
                                                               : nullptr;
}

namespace {

// Kernels get to know of a team that was made. Together with all of it.
int publish(const char* call, Team& team, const nvshmem_team_config_t& config,
            nvshmem_team_t* made) {
  if (team.id() >= teams.size()) {
    // Kernels know no more of them.
    if (const Status gone = group(call).destroy(team); !gone.ok()) fault_status(call, gone);
    return NVSHMEMX_ERROR_OUT_OF_MEMORY;
  }
  // Before anybody's kernels use it: its PEs' words are made anew, and all have done that.
  if (const auto told = tell_of(on_device(call), team); !told) fault(call, told.error().message);
  if (const Status met = group(call).sync(team); !met.ok()) fault_status(call, met);
  teams[team.id()] = &team;
  configs[team.id()] = config;
  *made = static_cast<nvshmem_team_t>(team.id());
  return 0;
}

// Together with all of the parent; NVSHMEM_TEAM_INVALID for those who are not in the part.
int split(const char* call, nvshmem_team_t parent, const PeSet& part,
          const nvshmem_team_config_t& config, nvshmem_team_t* made) {
  *made = NVSHMEM_TEAM_INVALID;
  symm::Team* const from = find_team(call, parent);
  if (from == nullptr) return NVSHMEMX_ERROR_INVALID_VALUE;
  // By all of the parent: those who are in the part would wait for the others.
  on_device(call);
  const auto split = group(call).split(*from, part);
  if (!split) {
    if (split.error().status.code() == Code::peer_gone) fault_status(call, split.error().status);
    return NVSHMEMX_ERROR_INVALID_VALUE;
  }
  return *split == nullptr ? 0 : publish(call, **split, config, made);
}

}  // namespace
}  // namespace penstock::nvshmem

NVSHMEM_DEFINE int nvshmem_team_my_pe(nvshmem_team_t team) {
  const Team* const meant = front::find_team("nvshmem_team_my_pe", team);
  return meant != nullptr ? static_cast<int>(meant->index()) : -1;
}

NVSHMEM_DEFINE int nvshmem_team_n_pes(nvshmem_team_t team) {
  const Team* const meant = front::find_team("nvshmem_team_n_pes", team);
  return meant != nullptr ? static_cast<int>(meant->size()) : -1;
}

NVSHMEM_DEFINE int nvshmem_team_translate_pe(nvshmem_team_t from, int pe, nvshmem_team_t to) {
  const Team* const source = front::find_team("nvshmem_team_translate_pe", from);
  const Team* const target = front::find_team("nvshmem_team_translate_pe", to);
  if (source == nullptr || target == nullptr || pe < 0 ||
      static_cast<uint32_t>(pe) >= source->size())
    return -1;
  const auto index = target->set().index_of(source->set().pe(static_cast<uint32_t>(pe)));
  return index ? static_cast<int>(*index) : -1;
}

NVSHMEM_DEFINE int nvshmem_team_split_strided(nvshmem_team_t parent, int start, int stride,
                                              int size, const nvshmem_team_config_t* config,
                                              long config_mask, nvshmem_team_t* made) {
  if (start < 0 || stride < 1 || size < 1) {
    *made = NVSHMEM_TEAM_INVALID;
    return NVSHMEMX_ERROR_INVALID_VALUE;
  }
  const PeSet part = {static_cast<uint32_t>(start), static_cast<uint32_t>(stride),
                      static_cast<uint32_t>(size)};
  return front::split("nvshmem_team_split_strided", parent, part,
                      front::config_of(config, config_mask), made);
}

// A grid with rows of `width` PEs; the last row may be shorter.
NVSHMEM_DEFINE int nvshmem_team_split_2d(nvshmem_team_t parent, int width,
                                         const nvshmem_team_config_t* x_config, long x_mask,
                                         nvshmem_team_t* x_team,
                                         const nvshmem_team_config_t* y_config, long y_mask,
                                         nvshmem_team_t* y_team) {
  const char* const call = "nvshmem_team_split_2d";
  *x_team = *y_team = NVSHMEM_TEAM_INVALID;
  const Team* const from = front::find_team(call, parent);
  if (from == nullptr || width < 1) return NVSHMEMX_ERROR_INVALID_VALUE;
  const uint32_t row = std::min(static_cast<uint32_t>(width), from->size());
  const uint32_t first = from->index() / row * row;
  const uint32_t column = from->index() % row;
  const PeSet x = {first, 1, std::min(row, from->size() - first)};
  const PeSet y = {column, row, (from->size() - column + row - 1) / row};
  if (const int failed = front::split(call, parent, x, front::config_of(x_config, x_mask), x_team))
    return failed;
  return front::split(call, parent, y, front::config_of(y_config, y_mask), y_team);
}

NVSHMEM_DEFINE void nvshmem_team_get_config(nvshmem_team_t team, nvshmem_team_config_t* config) {
  const char* const call = "nvshmem_team_get_config";
  const Team* const meant = front::find_team(call, team);
  if (team == NVSHMEM_TEAM_INVALID) return;
  if (meant == nullptr) front::fault(call, fmt::format("there is no team {}", team));
  *config = front::configs[static_cast<size_t>(team)];
}

NVSHMEM_DEFINE int nvshmemx_team_get_uniqueid(nvshmemx_team_uniqueid_t* uniqueid) {
  const char* const call = "nvshmemx_team_get_uniqueid";
  front::group(call);
  const auto id = front::process().team_meetings->open();
  *uniqueid = id.value_or(NVSHMEM_TEAM_UNIQUID_INITIALIZER);
  if (id) return 0;
  penstock::log::error("{}: too many ids are open whose PEs have not all met", call);
  return NVSHMEMX_ERROR_OUT_OF_MEMORY;
}

// By the PEs of the team alone. What is wrong with all of them is told to each.
NVSHMEM_DEFINE int nvshmemx_team_init(nvshmem_team_t* team, nvshmem_team_config_t* config,
                                      long config_mask, int npes, int pe_idx_in_team) {
  const char* const call = "nvshmemx_team_init";
  *team = NVSHMEM_TEAM_INVALID;
  penstock::symm::Group& all = front::group(call);
  if (config == nullptr || (config_mask & NVSHMEM_TEAM_CONFIG_MASK_UNIQUEID) == 0 || npes < 1 ||
      pe_idx_in_team < 0)
    return NVSHMEMX_ERROR_INVALID_VALUE;
  const auto made = front::process().team_meetings->meet(
      config->uniqueid, static_cast<uint32_t>(npes), static_cast<uint32_t>(pe_idx_in_team),
      all.waits().clock->now() + front::limits::kToMeet);
  if (made) return front::publish(call, **made, front::config_of(config, config_mask), team);
  if (made.error().status.code() == penstock::Code::peer_gone)
    front::fault_status(call, made.error().status);
  penstock::log::error("{}: PE {}: {}", call, all.me(), made.error().message);
  return made.error().status.code() == penstock::Code::not_supported ? NVSHMEMX_ERROR_NOT_SUPPORTED
                                                                     : NVSHMEMX_ERROR_INVALID_VALUE;
}

NVSHMEM_DEFINE void nvshmem_team_destroy(nvshmem_team_t team) {
  const char* const call = "nvshmem_team_destroy";
  Team* const meant = front::find_team(call, team);
  if (meant == nullptr || team <= NVSHMEMX_TEAM_SAME_MYPE_NODE) return;
  front::teams[static_cast<size_t>(team)] = nullptr;
  penstock::Status gone = front::on_device(call).heap->forget(meant->id());
  if (gone.ok()) gone = front::group(call).destroy(*meant);
  if (!gone.ok()) front::fault_status(call, gone);
}
