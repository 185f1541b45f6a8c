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

Outcome<MeetingTable*> TeamMeetings::find(uint64_t id) const {
  const auto pe = static_cast<uint32_t>(id & ((uint64_t{1} << kPeBits) - 1));
  const auto which = static_cast<uint32_t>(id >> kPeBits & ((uint64_t{1} << kTableBits) - 1));
  const uint64_t use = id >> (kTableBits + kPeBits);
  const Failure none = {Code::invalid_argument,
                        "that is no unique id of a team, or one that was used before"};
  if (pe >= group_.size() || which >= limits::kTeamMeetingsMax || use == 0) return none;
  auto* const table =
      reinterpret_cast<MeetingTable*>(group_.at(&tables_[which], sizeof(MeetingTable), pe));
  if (table == nullptr)
    return Failure{Code::not_supported,
                   fmt::format("the id was made by PE {} of another node", pe)};
  // Pairs with the release in open().
  if (__atomic_load_n(&table->use, __ATOMIC_ACQUIRE) != use) return none;
  return table;
}

Outcome<void> TeamMeetings::take_seat(MeetingTable& table, uint32_t size, uint32_t index) {
  uint64_t said = 0;
  if (!__atomic_compare_exchange_n(&table.size, &said, size, false, __ATOMIC_RELAXED,
                                   __ATOMIC_RELAXED) &&
      said != size) {
    return Failure{Code::invalid_argument,
                   fmt::format("a team of {} PEs: another one of them says {}", size, said)};
  }
  MeetingSeat& seat = table.seats[index];
  // The highest bit: somebody is about to sit down.
  constexpr uint64_t kTaken = uint64_t{1} << 63;
  uint64_t nobody = 0;
  if (!__atomic_compare_exchange_n(&seat.pe, &nobody, kTaken, false, __ATOMIC_RELAXED,
                                   __ATOMIC_RELAXED)) {
    return Failure{Code::invalid_argument, fmt::format("another PE has the index {}", index)};
  }
  seat.free = group_.free_team_numbers();
  __atomic_store_n(&seat.pe, uint64_t{group_.me()} + 1, __ATOMIC_RELEASE);
  return {};
}

// All see the same, and find the same.
Outcome<symm::Team*> TeamMeetings::make_team(const MeetingTable& table, uint32_t size) {
  const auto pe_at = [&](uint32_t index) {
    return static_cast<uint32_t>(table.seats[index].pe - 1);
  };
  symm::PeSet set = {pe_at(0), size == 1 ? 1 : int64_t{pe_at(1)} - pe_at(0), size};
  std::array<uint64_t, symm::kTeamWords> free{};
  free.fill(UINT64_MAX);
  for (uint32_t index = 0; index < size; ++index) {
    if (set.stride == 0 || set.pe(index) != pe_at(index)) {
      return Failure{Code::not_supported,
                     "the PEs of a team are a row with equal steps between them: these are not"};
    }
    for (uint32_t word = 0; word < free.size(); ++word) free[word] &= table.seats[index].free[word];
  }
  const auto word = std::find_if(free.begin(), free.end(), [](uint64_t bits) { return bits != 0; });
  if (word == free.end()) return Failure{Code::busy, "no team is free any more"};
  const auto number = static_cast<uint32_t>(word - free.begin()) * 64 +
                      static_cast<uint32_t>(std::countr_zero(*word));
  return &group_.make_team_of(set, number);
}

Outcome<symm::Team*> TeamMeetings::meet(uint64_t id, uint32_t size, uint32_t index,
                                        engine::Time deadline) {
  if (size == 0 || size > std::min(group_.size(), limits::kTeamMeetingPesMax) || index >= size) {
    return Failure{Code::invalid_argument,
                   fmt::format("index {} of {} PEs, of {} at most", index, size,
                               std::min(group_.size(), limits::kTeamMeetingPesMax))};
  }
  TRY_ASSIGN(MeetingTable* const table, find(id));
  TRY(take_seat(*table, size, index));
  uint32_t seated = 0;
  const auto all_sit = [&] {
    // Pairs with the release of who sat down.
    while (seated < size &&
           __atomic_load_n(&table->seats[seated].pe, __ATOMIC_ACQUIRE) - 1 < group_.size())
      ++seated;
    return seated == size;
  };
  if (const Status come = group_.wait(all_sit, deadline); !come.ok())
    return Failure{come, fmt::format("{} of {} PEs have come", seated, size)};
  Outcome<symm::Team*> team = make_team(*table, size);
  // Words of the team are used when all have cleared theirs.
  __atomic_fetch_add(&table->made, 1, __ATOMIC_ACQ_REL);
  const auto all_made = [&] { return __atomic_load_n(&table->made, __ATOMIC_ACQUIRE) == size; };
  if (const Status made = group_.wait(all_made, deadline); !made.ok())
    return Failure{made, "one of the team's PEs has ended"};
  __atomic_fetch_add(&table->left, 1, __ATOMIC_RELEASE);
  return team;
}

}  // namespace penstock::nvshmem
