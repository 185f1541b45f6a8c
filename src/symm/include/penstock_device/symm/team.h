// Teams as kernels know them.
#pragma once

#include "penstock_device/symm/address.h"

namespace penstock::device {

constexpr int kWorldTeam = 0;

// A team's PEs, and this one's place among them.
struct Members {
  int start;
  int stride;
  int size;  // 0: there is no such team
  int index;

  PENSTOCK_DEVICE int pe(int member) const { return start + member * stride; }
  // The index of a PE; -1: it is not a member.
  PENSTOCK_DEVICE int index_of(int other) const {
    const int way = other - start;
    if (size <= 0 || (size > 1 && stride == 0)) return -1;
    if (size == 1) return way == 0 ? 0 : -1;
    if (way % stride != 0) return -1;
    const int member = way / stride;
    return member >= 0 && member < size ? member : -1;
  }
};

// No memory is read for the world: it stands in the state.
PENSTOCK_DEVICE Members members_of(const SymmState& state, int team) {
  if (team == kWorldTeam) return {0, 1, state.version == 0 ? 0 : state.size, state.me};
  if (team < 0 || team >= static_cast<int>(kSymmTeamsMax) || state.teams == nullptr) {
    return {0, 1, 0, -1};
  }
  const SymmTeam& entry = state.teams[team];
  return {entry.start, entry.stride, entry.size, entry.index};
}

PENSTOCK_DEVICE int team_my_pe(const SymmState& state, int team) {
  const Members members = members_of(state, team);
  return members.size > 0 ? members.index : -1;
}
PENSTOCK_DEVICE int team_n_pes(const SymmState& state, int team) {
  const Members members = members_of(state, team);
  return members.size > 0 ? members.size : -1;
}
// The number in `to` of the PE that is `pe` in `from`; -1: it has none.
PENSTOCK_DEVICE int translate_pe(const SymmState& state, int from, int pe, int to) {
  const Members source = members_of(state, from);
  if (pe < 0 || pe >= source.size) return -1;
  return members_of(state, to).index_of(source.pe(pe));
}

}  // namespace penstock::device
