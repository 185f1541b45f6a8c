#include "team_meeting.h"

#include "limits.h"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <vector>

namespace penstock::nvshmem {
namespace {

// Of an id: the PE whose table it is, which one, and how often that one was used.
constexpr uint32_t kTableBits = 8;
constexpr uint32_t kPeBits = 16;
constexpr uint32_t kUseBits = 64 - kTableBits - kPeBits;
static_assert(limits::kTeamMeetingsMax <= uint32_t{1} << kTableBits);

constexpr uint64_t id_of(uint32_t pe, uint32_t table, uint64_t use) {
  return use << (kTableBits + kPeBits) | uint64_t{table} << kPeBits | pe;
}

Failure unreached(uint32_t pe, Status why) {
  return {why, fmt::format("PE {}, which has made the id, is not reached", pe)};
}

}  // namespace

// Written by the PE that sits there; `pe`, one more than its number, last.
struct alignas(64) MeetingSeat {
  std::array<uint64_t, symm::kTeamWords> free;  // which teams' numbers are free for it
  uint64_t pe;
};

struct MeetingTable {
  // Of the PE that has it, before it gives the id away.
  alignas(64) uint64_t use;
  uint64_t size;  // as the first who sat down said; 0: nobody has
  uint64_t made;  // who has the team
  uint64_t left;  // who needs the table no more
  std::array<MeetingSeat, limits::kTeamMeetingPesMax> seats;
};

Outcome<std::unique_ptr<TeamMeetings>> TeamMeetings::make(symm::Group& group) {
  const auto place =
      group.heap().allocate(limits::kTeamMeetingsMax * sizeof(MeetingTable), alignof(MeetingTable));
  if (!place) return Failure{Code::no_memory, "no room for the tables of teams"};
  auto* const tables = reinterpret_cast<MeetingTable*>(group.heap_address(*place));
  std::uninitialized_value_construct_n(tables, limits::kTeamMeetingsMax);
  return std::unique_ptr<TeamMeetings>(new TeamMeetings(group, tables));
}

std::optional<uint64_t> TeamMeetings::open() {
  const std::lock_guard lock(mutex_);
  for (uint32_t i = 0; i < limits::kTeamMeetingsMax; ++i) {
    MeetingTable& table = tables_[i];
    // Pairs with the release of the last who left: nobody reads it any more.
    const uint64_t left = __atomic_load_n(&table.left, __ATOMIC_ACQUIRE);
    if (table.use != 0 && (table.size == 0 || left != table.size)) continue;
    const uint64_t use = table.use % ((uint64_t{1} << kUseBits) - 2) + 1;
    table = {};
    __atomic_store_n(&table.use, use, __ATOMIC_RELEASE);
    return id_of(group_.me(), i, use);
  }
  return std::nullopt;
}

Outcome<TeamMeetings::Place> TeamMeetings::find(uint64_t id) const {
  const auto pe = static_cast<uint32_t>(id & ((uint64_t{1} << kPeBits) - 1));
  const auto which = static_cast<uint32_t>(id >> kPeBits & ((uint64_t{1} << kTableBits) - 1));
  const uint64_t use = id >> (kTableBits + kPeBits);
  const Failure none = {Code::invalid_argument,
                        "that is no unique id of a team, or one that was used before"};
  if (pe >= group_.size() || which >= limits::kTeamMeetingsMax || use == 0) return none;
  const auto there = symm::atomic_fetch<uint64_t>(group_, &tables_[which].use, pe);
  if (!there) return unreached(pe, there.error());
  if (*there != use) return none;
  return Place{&tables_[which], pe};
}

Outcome<void> TeamMeetings::take_seat(const Place& place, uint32_t size, uint32_t index) {
  const auto said =
      symm::atomic_compare_swap<uint64_t>(group_, &place.table->size, 0, size, place.pe);
  if (!said) return unreached(place.pe, said.error());
  if (*said != 0 && *said != size) {
    return Failure{Code::invalid_argument,
                   fmt::format("a team of {} PEs: another one of them says {}", size, *said)};
  }
  MeetingSeat& seat = place.table->seats[index];
  // The highest bit: somebody is about to sit down.
  constexpr uint64_t kTaken = uint64_t{1} << 63;
  const auto before = symm::atomic_compare_swap<uint64_t>(group_, &seat.pe, 0, kTaken, place.pe);
  if (!before) return unreached(place.pe, before.error());
  if (*before != 0)
    return Failure{Code::invalid_argument, fmt::format("another PE has the index {}", index)};
  const auto free = group_.free_team_numbers();
  Status sits = group_.put(&seat.free, free.data(), sizeof free, place.pe);
  if (sits.ok()) sits = group_.quiet(place.pe);
  if (sits.ok())
    sits = symm::atomic_set<uint64_t>(group_, &seat.pe, uint64_t{group_.me()} + 1, place.pe);
  if (!sits.ok()) return unreached(place.pe, sits);
  return {};
}

// All see the same, and find the same.
Outcome<symm::Team*> TeamMeetings::make_team(const Place& place, uint32_t size) {
  std::vector<MeetingSeat> seats(size);
  const Status read =
      group_.get(seats.data(), place.table->seats.data(), size * sizeof(MeetingSeat), place.pe);
  if (!read.ok()) return unreached(place.pe, read);
  const auto pe_at = [&](uint32_t index) { return static_cast<uint32_t>(seats[index].pe - 1); };
  symm::PeSet set = {pe_at(0), size == 1 ? 1 : int64_t{pe_at(1)} - pe_at(0), size};
  // What is read there is another PE's to write: what is free here, and who is of the team, is
  // looked at once more.
  std::array<uint64_t, symm::kTeamWords> free = group_.free_team_numbers();
  for (uint32_t index = 0; index < size; ++index) {
    if (pe_at(index) >= group_.size())
      return Failure{Code::invalid_argument, fmt::format("no PE has the index {}", index)};
    if (set.stride == 0 || set.pe(index) != pe_at(index)) {
      return Failure{Code::not_supported,
                     "the PEs of a team are a row with equal steps between them: these are not"};
    }
    for (uint32_t word = 0; word < free.size(); ++word) free[word] &= seats[index].free[word];
  }
  if (!set.index_of(group_.me()))
    return Failure{Code::invalid_argument, "this PE is not among those that have come"};
  const auto word = std::find_if(free.begin(), free.end(), [](uint64_t bits) { return bits != 0; });
  if (word == free.end()) return Failure{Code::busy, "no team is free any more"};
  const auto number = static_cast<uint32_t>(word - free.begin()) * 64 +
                      static_cast<uint32_t>(std::countr_zero(*word));
  return &group_.make_team_of(set, number);
}

// Until `is_so`, which asks the PE that has the table; `how_far` it came, for people, where it ends
// before.
Outcome<void> TeamMeetings::wait_for(const Place& place, const std::function<Result<bool>()>& is_so,
                                     engine::Time deadline,
                                     const std::function<std::string()>& how_far) {
  Status asked;
  const Status come = group_.wait(
      [&] {
        const Result<bool> so = is_so();
        if (!so) asked = so.error();
        return !so || *so;
      },
      deadline);
  if (!asked.ok()) return unreached(place.pe, asked);
  if (!come.ok()) return Failure{come, how_far()};
  return {};
}

Outcome<symm::Team*> TeamMeetings::meet(uint64_t id, uint32_t size, uint32_t index,
                                        engine::Time deadline) {
  if (size == 0 || size > std::min(group_.size(), limits::kTeamMeetingPesMax) || index >= size) {
    return Failure{Code::invalid_argument,
                   fmt::format("index {} of {} PEs, of {} at most", index, size,
                               std::min(group_.size(), limits::kTeamMeetingPesMax))};
  }
  TRY_ASSIGN(const Place place, find(id));
  TRY(take_seat(place, size, index));
  uint32_t seated = 0;
  const auto all_sit = [&]() -> Result<bool> {
    for (; seated < size; ++seated) {
      TRY_ASSIGN(const uint64_t pe,
                 symm::atomic_fetch<uint64_t>(group_, &place.table->seats[seated].pe, place.pe));
      if (pe - 1 >= group_.size()) return false;
    }
    return true;
  };
  TRY(wait_for(place, all_sit, deadline,
               [&] { return fmt::format("{} of {} PEs have come", seated, size); }));
  Outcome<symm::Team*> team = make_team(place, size);
  // Words of the team are used when all have cleared theirs.
  Status told = symm::atomic_add<uint64_t>(group_, &place.table->made, 1, place.pe);
  if (!told.ok()) return unreached(place.pe, told);
  const auto all_made = [&]() -> Result<bool> {
    TRY_ASSIGN(const uint64_t made,
               symm::atomic_fetch<uint64_t>(group_, &place.table->made, place.pe));
    return made == size;
  };
  TRY(wait_for(place, all_made, deadline, [] { return "one of the team's PEs has ended"; }));
  told = symm::atomic_add<uint64_t>(group_, &place.table->left, 1, place.pe);
  if (!told.ok()) return unreached(place.pe, told);
  return team;
}

}  // namespace penstock::nvshmem
