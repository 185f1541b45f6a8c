// Teams: made, used at once, given back, and used up.
#include "pes.h"

#include <chrono>
#include <sched.h>

namespace penstock::symm::test {
namespace {

Team* split(const Pe& pe, Team& parent, const PeSet& part) {
  auto made = pe.group.split(parent, part);
  CHECK(made);
  return *made;
}

void parts_of_parts(const Pe& pe) {
  const uint32_t half = (pe.size() + 1) / 2;
  Team* const even = split(pe, pe.group.world(), {0, 2, half});
  CHECK((even != nullptr) == (pe.me() % 2 == 0));
  if (even != nullptr) {
    CHECK(even->size() == half && even->index() == pe.me() / 2);
    Team* const last = split(pe, *even, {half - 1, 1, 1});
    CHECK((last != nullptr) == (even->index() == half - 1));
    if (last != nullptr) {
      CHECK(last->set().pe(0) == pe.me());
      CHECK(pe.group.destroy(*last).ok());
    }
    for (int i = 0; i < 100; ++i) CHECK(pe.group.sync(*even).ok());
    CHECK(pe.group.destroy(*even).ok());
  }
  CHECK(pe.group.sync(pe.group.world()).ok());
}

// Rows of a grid are made by one call, each PE naming its own; they share a number, and do not
// meet.
void rows_at_once(const Pe& pe) {
  const uint32_t width = 2;
  if (pe.size() % width != 0) return;
  Team* const row = split(pe, pe.group.world(), {pe.me() / width * width, 1, width});
  Team* const column = split(pe, pe.group.world(), {pe.me() % width, width, pe.size() / width});
  CHECK(row != nullptr && column != nullptr && row->id() != column->id());
  auto* const source = pe.allocate<uint64_t>(1);
  auto* const dest = pe.allocate<uint64_t>(pe.size());
  for (int i = 0; i < 100; ++i) {
    *source = pe.me() * 1000 + static_cast<uint64_t>(i);
    CHECK(fcollect(pe.group, *row, dest, source, sizeof *source).ok());
    for (uint32_t k = 0; k < width; ++k)
      CHECK(dest[k] == row->set().pe(k) * 1000 + static_cast<uint64_t>(i));
    CHECK(fcollect(pe.group, *column, dest, source, sizeof *source).ok());
    for (uint32_t k = 0; k < column->size(); ++k) {
      CHECK(dest[k] == column->set().pe(k) * 1000 + static_cast<uint64_t>(i));
    }
  }
  CHECK(pe.group.destroy(*row).ok());
  CHECK(pe.group.destroy(*column).ok());
}

// A number is used again, by other PEs, with whatever words its team left.
void numbers_are_used_again(const Pe& pe) {
  for (uint32_t i = 0; i < 150; ++i) {
    const uint32_t size = 1 + i % pe.size();
    Team* const team = split(pe, pe.group.world(), {pe.size() - size, 1, size});
    if (team == nullptr) continue;
    for (uint32_t k = 0; k < i % 5; ++k) CHECK(pe.group.sync(*team).ok());
    CHECK(pe.group.destroy(*team).ok());
  }
  CHECK(pe.group.sync(pe.group.world()).ok());
}

void refuses_more_than_there_are(const Pe& pe) {
  std::vector<Team*> all;
  while (true) {
    const auto made = pe.group.split(pe.group.world(), {0, 1, pe.size()});
    if (!made) {
      CHECK(made.error().status.code() == Code::busy);
      break;
    }
    all.push_back(*made);
  }
  CHECK(all.size() == kTeamsMax - 2);
  CHECK(pe.group.destroy(*all.back()).ok());
  CHECK(pe.group.split(pe.group.world(), {0, 1, pe.size()}));
  CHECK(!pe.group.split(pe.group.world(), {0, 1, pe.size() + 1}));
  CHECK(pe.group.destroy(pe.group.world()).code() == Code::invalid_argument);
  CHECK(pe.group.sync(pe.group.world()).ok());
}

// Several groups in one process, left in any order.
void groups_side_by_side(const Pe& pe) {
  auto second = Group::join(pe.member, {.name = "second", .heap_bytes = 1 << 20});
  auto third =
      Group::join(pe.member, {.name = "third", .heap_bytes = 1 << 20, .has_program_data = true});
  CHECK(second && third);
  static uint64_t word = 0;
  CHECK((*second)->fault_of(&word, 8, 0) == Fault::not_symmetric);
  CHECK(atomic_fetch_add(**third, &word, uint64_t{1}, 0));
  CHECK((*third)->barrier((*third)->world()).ok());
  CHECK(pe.me() != 0 || word == pe.size());
  const auto place = (*second)->heap().allocate(8, 8);
  CHECK(place && !(*second)->heap().allocate(4 << 20, 64));
  auto* const there = reinterpret_cast<uint64_t*>((*second)->heap_address(*place));
  CHECK(atomic_fetch_add(**second, there, uint64_t{1}, 0));
  CHECK(!atomic_fetch_add(pe.group, there, uint64_t{1}, 0));  // of another group
  // Memory of a PE that is on another node ends with its group.
  CHECK((*second)->barrier((*second)->world()).ok());
  second->reset();
  CHECK((*third)->barrier((*third)->world()).ok());
  CHECK(pe.group.barrier(pe.group.world()).ok());
  third->reset();
}

// PEs that may run on different numbers of processors still wait for each other in one way.
void with_processors_of_their_own(const Pe& pe) {
  if (pe.me() == 0) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<size_t>(::sched_getcpu()), &one);
    CHECK(::sched_setaffinity(0, sizeof one, &one) == 0);
  }
  auto group = Group::join(pe.member, {.name = "pinned", .heap_bytes = 1 << 20});
  CHECK(group);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (int i = 0; i < 100; ++i) {
    CHECK((*group)->sync((*group)->world()).ok());
    CHECK(std::chrono::steady_clock::now() < deadline);
  }
}

}  // namespace

const Named kTeamScenarios[] = {
    {"parts", parts_of_parts},
    {"rows", rows_at_once},
    {"again", numbers_are_used_again},
    {"too_many", refuses_more_than_there_are},
    {"groups", groups_side_by_side},
    {"pinned", with_processors_of_their_own},
    {nullptr, nullptr},
};

}  // namespace penstock::symm::test
