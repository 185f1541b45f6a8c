// How teams are made: their PEs agree on a number, which names words in each one's memory.
#include <array>
#include <vector>

#include "penstock/symm/group.h"

namespace penstock::symm {

std::array<uint64_t, kTeamWords> Group::free_team_numbers() const {
  std::array<uint64_t, kTeamWords> free{};
  for (uint32_t id = 0; id < kTeamsMax; ++id) {
    if (teams_[id] == nullptr) free[id / 64] |= uint64_t{1} << (id % 64);
  }
  return free;
}

Team& Group::make_team_of(const PeSet& set, uint32_t number) {
  const std::optional<uint32_t> index = set.index_of(me_);
  ASSERT(index && teams_[number] == nullptr);
  // Words that an earlier team of this number has left.
  control_of(me_).teams[number] = {};
  teams_[number] = make_team(number, set, *index);
  return *teams_[number];
}

// The lowest number that is free at all of the parent. Each PE shows which are free for it; the
// second sync lets no one change what it shows before all have read it.
Result<uint32_t> Group::agree_on_team(Team& parent) {
  std::array<uint64_t, kTeamWords> free = free_team_numbers();
  std::copy(free.begin(), free.end(), control(parent).scratch);
  TRY(sync(parent));
  std::vector<std::array<uint64_t, kTeamWords>> all(parent.size());
  Gets gets(*this);
  for (uint32_t index = 0; index < parent.size(); ++index) {
    TRY(gets.add(all[index].data(), control(parent).scratch, sizeof all[index],
                 parent.set().pe(index)));
  }
  TRY(gets.finish());
  for (const auto& theirs : all) {
    for (uint32_t word = 0; word < kTeamWords; ++word) free[word] &= theirs[word];
  }
  for (uint32_t word = 0; word < kTeamWords; ++word) {
    if (free[word] != 0) return word * 64 + static_cast<uint32_t>(std::countr_zero(free[word]));
  }
  return Status(Code::busy);
}

Outcome<Team*> Group::split(Team& parent, const PeSet& part) {
  const std::optional<PeSet> set = parent.set().part(part);
  const Result<uint32_t> id = agree_on_team(parent);
  if (!id && id.error() != Code::busy)
    return Failure{id.error(), "a PE of the parent team has ended"};
  // Nobody writes words of it before the sync that follows.
  Team* const team = id && set && set->index_of(me_) ? &make_team_of(*set, *id) : nullptr;
  if (const Status together = sync(parent); !together.ok()) {
    return Failure{together, "a PE of the parent team has ended"};
  }
  if (!id) return Failure{Code::busy, "no team is free any more: there may be 256 at once"};
  if (!set) return Failure{Code::invalid_argument, "the part reaches beyond its parent team"};
  return team;
}

Status Group::destroy(Team& team) {
  if (team.id() == kWorldTeam || team.id() == kNodeTeam || &team == active_set_team_)
    return Code::invalid_argument;
  ASSERT(teams_[team.id()].get() == &team);
  // Nobody may still be in a sync of it when its words are used by another.
  const Status together = sync(team);
  teams_[team.id()].reset();
  return together;
}

}  // namespace penstock::symm
