// One PE of a job of team_meeting_test.cc.
#include "../limits.h"
#include "team_meeting.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <set>

namespace penstock::nvshmem {
namespace {

#define CHECK(condition)                                                           \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      std::_Exit(1);                                                               \
    }                                                                              \
  } while (false)

struct Pe {
  symm::Group& group;
  TeamMeetings& meetings;
  uint64_t* word;  // symmetric

  uint32_t me() const { return group.me(); }
  uint32_t size() const { return group.size(); }
  void barrier() const { CHECK(group.barrier(group.world()).ok()); }
  // PE `from`'s number, at all.
  uint64_t told(uint32_t from, uint64_t number) const {
    *word = number;
    barrier();
    uint64_t seen = 0;
    CHECK(group.get(&seen, word, sizeof seen, from).ok());
    barrier();
    return seen;
  }
  uint64_t id_of(uint32_t from) const {
    return told(from, me() == from ? meetings.open().value() : 0);
  }
  Outcome<symm::Team*> meet(uint64_t id, uint32_t size, uint32_t index) const {
    return meetings.meet(id, size, index, group.waits().clock->now() + std::chrono::seconds(60));
  }
};

void try_backwards(const Pe& pe) {
  const uint64_t id = pe.id_of(pe.size() - 1);
  const auto made = pe.meet(id, pe.size(), pe.size() - 1 - pe.me());
  CHECK(made);
  symm::Team& team = **made;
  CHECK(team.size() == pe.size() && team.index() == pe.size() - 1 - pe.me());
  CHECK(team.set().pe(team.index()) == pe.me());
  for (int i = 0; i < 3; ++i) CHECK(pe.group.sync(team).ok());
  CHECK(pe.group.destroy(team).ok());
}

void try_odd_and_even(const Pe& pe) {
  const uint64_t odd = pe.id_of(1);
  const uint64_t even = pe.id_of(0);
  CHECK(odd != even);
  const bool is_odd = pe.me() % 2 == 1;
  const uint32_t size = is_odd ? pe.size() / 2 : (pe.size() + 1) / 2;
  const auto made = pe.meet(is_odd ? odd : even, size, pe.me() / 2);
  CHECK(made);
  CHECK((*made)->index() == pe.me() / 2 && (*made)->set().stride == (size > 1 ? 2 : 1));
  CHECK(pe.group.sync(**made).ok());
  const uint64_t number = (*made)->id();
  CHECK(pe.told(0, number) == number);
  CHECK(pe.group.destroy(**made).ok());
}

void try_no_row(const Pe& pe) {
  const uint64_t id = pe.id_of(0);
  // 0, 1, 3.
  if (pe.me() != 2) {
    const auto made = pe.meet(id, 3, pe.me() == 3 ? 2 : pe.me());
    CHECK(!made && made.error().status.code() == Code::not_supported);
  }
  pe.barrier();
  try_backwards(pe);
}

void try_again(const Pe& pe) {
  std::set<uint64_t> ids;
  for (uint32_t i = 0; i < 3 * limits::kTeamMeetingsMax; ++i) {
    const uint64_t id = pe.id_of(1);
    CHECK(ids.insert(id).second);
    const auto made = pe.meet(id, pe.size(), pe.me());
    CHECK(made);
    CHECK(pe.group.destroy(**made).ok());
  }
  pe.barrier();
  for (const uint64_t id : ids) {
    if (id == *ids.rbegin()) continue;
    CHECK(pe.meet(id, pe.size(), pe.me()).error().status.code() == Code::invalid_argument);
  }
  pe.barrier();
  uint32_t open = 0;
  while (pe.meetings.open()) ++open;
  CHECK(open == limits::kTeamMeetingsMax);
}

void try_mistakes(const Pe& pe) {
  for (const uint64_t id : {uint64_t{0}, UINT64_MAX, uint64_t{1} << 24, (uint64_t{1} << 24) + 7,
                            (uint64_t{1} << 24) + (uint64_t{255} << 16)}) {
    CHECK(pe.meet(id, 1, 0).error().status.code() == Code::invalid_argument);
  }
  pe.barrier();
  const uint64_t id = pe.id_of(0);
  CHECK(!pe.meet(id, 0, 0) && !pe.meet(id, 2, 2) && !pe.meet(id, 3, 0));
  if (pe.me() == 0) {
    // The other one does not come.
    const auto alone = pe.meetings.meet(id, 2, 0, pe.group.waits().clock->now());
    CHECK(alone.error().status.code() == Code::timed_out);
    CHECK(pe.meet(id, 2, 0).error().status.code() == Code::invalid_argument);  // is taken
    CHECK(pe.meet(id, 1, 0).error().status.code() == Code::invalid_argument);  // not two
  }
  pe.barrier();
}

int run(const char* scenario) {
  auto member = job::Member::from_environment();
  CHECK(member);
  auto group = symm::Group::join(**member, {.heap_bytes = uint64_t{1} << 20});
  CHECK(group);
  auto meetings = TeamMeetings::make(**group);
  CHECK(meetings);
  const auto place = (*group)->heap().allocate(sizeof(uint64_t), alignof(uint64_t));
  const Pe pe = {**group, **meetings,
                 reinterpret_cast<uint64_t*>((*group)->heap_address(place.value()))};
  const std::pair<const char*, void (*)(const Pe&)> all[] = {{"backwards", try_backwards},
                                                             {"odd_and_even", try_odd_and_even},
                                                             {"no_row", try_no_row},
                                                             {"again", try_again},
                                                             {"mistakes", try_mistakes}};
  const auto found = std::find_if(std::begin(all), std::end(all), [&](const auto& one) {
    return std::strcmp(one.first, scenario) == 0;
  });
  CHECK(found != std::end(all));
  found->second(pe);
  pe.barrier();
  group->reset();
  (*member)->leave();
  return 0;
}

}  // namespace
}  // namespace penstock::nvshmem

int main(int argc, char** argv) {
  return argc == 2 ? penstock::nvshmem::run(argv[1]) : 2;
}
