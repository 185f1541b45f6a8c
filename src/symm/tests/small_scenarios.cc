// Collective operations of few bytes, which do not wait for more than what they take: one after the
// other without a sync between, over several teams at once, with PEs that are ahead and behind.
#include "pes.h"

#include <functional>
#include <random>

namespace penstock::symm::test {
namespace {

// Which all PEs know: of an operation, a PE and a place.
uint64_t value_of(uint64_t operation, uint32_t pe, uint64_t place) {
  return operation * 1'000'003 + (uint64_t{pe} + 1) * 1'009 + place;
}

// Some PEs come late now and then, each at other times.
void dawdle(std::mt19937_64& own_random) {
  for (uint64_t turns = own_random() % 8 == 0 ? own_random() % 2000 : 0; turns > 0; --turns)
    Patience::relax();
}

// What operations read and write, and the number of the next one.
struct Work {
  static constexpr uint64_t kWordsMax = 200;
  Team* team;
  uint64_t* source;
  uint64_t* dest;
  uint64_t number = 0;

  Work(const Pe& pe, Team* of)
      : team(of),
        source(pe.allocate<uint64_t>(kWordsMax * pe.size())),
        dest(pe.allocate<uint64_t>(kWordsMax * pe.size())) {}
};

// All of a team call it with the same choice. At once afterwards the source is used for something
// else.
void one_operation(const Pe& pe, Work& work, uint64_t choice, uint64_t words) {
  Group& group = pe.group;
  Team& team = *work.team;
  const uint32_t size = team.size();
  const uint64_t number = ++work.number;
  const uint64_t all = words * size;
  for (uint64_t i = 0; i < all; ++i) work.source[i] = value_of(number, team.index(), i);
  const uint64_t bytes = words * sizeof(uint64_t);
  const auto is = [&](uint64_t at, uint32_t from, uint64_t place) {
    CHECK(work.dest[at] == value_of(number, from, place));
  };
  if (choice < 4) {
    const auto root = static_cast<uint32_t>(choice % size);
    CHECK(broadcast(group, team, work.dest, work.source, bytes, root).ok());
    for (uint64_t i = 0; i < words; ++i) is(i, root, i);
  } else if (choice == 4) {
    CHECK(fcollect(group, team, work.dest, work.source, bytes).ok());
    for (uint64_t i = 0; i < all; ++i) is(i, static_cast<uint32_t>(i / words), i % words);
  } else if (choice == 5) {
    CHECK(alltoall(group, team, work.dest, work.source, bytes).ok());
    for (uint64_t i = 0; i < all; ++i)
      is(i, static_cast<uint32_t>(i / words), team.index() * words + i % words);
  } else if (choice == 6) {
    // The first one brings nothing, the last one most.
    const uint64_t own = words * team.index() * 2 / (size + 1);
    CHECK(collect(group, team, work.dest, work.source, own * sizeof(uint64_t)).ok());
    uint64_t at = 0;
    for (uint32_t from = 0; from < size; ++from) {
      for (uint64_t i = 0; i < words * from * 2 / (size + 1); ++i) is(at++, from, i);
    }
  } else {
    uint64_t* const dest = choice == 7 ? work.source : work.dest;
    CHECK(reduce(group, team, dest, work.source, words, std::plus<uint64_t>()).ok());
    for (uint64_t i = 0; i < words; ++i) {
      uint64_t sum = 0;
      for (uint32_t from = 0; from < size; ++from) sum += value_of(number, from, i);
      CHECK(dest[i] == sum);
    }
  }
  std::fill_n(work.source, all, ~uint64_t{0});
}

// Sizes below, at and above what a PE posts, by itself and divided by the PEs.
uint64_t some_words(std::mt19937_64& random, uint32_t size) {
  constexpr uint64_t kPostedWords = kPostedBytes / sizeof(uint64_t);
  const std::array<uint64_t, 7> words = {1,
                                         2,
                                         kPostedWords / size,
                                         kPostedWords / size + 1,
                                         kPostedWords,
                                         kPostedWords + 1,
                                         Work::kWordsMax};
  return words[random() % words.size()];
}

void many_after_another(const Pe& pe) {
  std::mt19937_64 random(7);  // all PEs' is the same
  std::mt19937_64 own_random(pe.me());
  auto odd = pe.group.split(pe.group.world(), {pe.me() % 2, 2, (pe.size() + 1 - pe.me() % 2) / 2});
  auto back = pe.group.split(pe.group.world(), {pe.size() - 1, -1, pe.size()});
  CHECK(odd && *odd != nullptr && back && *back != nullptr);
  Work works[] = {{pe, &pe.group.world()}, {pe, *odd}, {pe, *back}};
  for (int i = 0; i < 4000; ++i) {
    Work& work = works[random() % 3];
    const uint64_t choice = random() % 9;
    // PEs of two teams of one number have their own sizes; all take as much from `random`.
    std::mt19937_64 sizes(random());
    dawdle(own_random);
    one_operation(pe, work, choice, some_words(sizes, work.team->size()));
    if (random() % 16 == 0) CHECK(sync(pe.group, *work.team).ok());
  }
  CHECK(sync(pe.group, pe.group.world()).ok());
}

// A root needs nobody, and must not overtake those who are slow by more than their places.
void a_root_is_ahead(const Pe& pe) {
  Team& world = pe.group.world();
  auto* const words = pe.allocate<uint64_t>(2);
  std::mt19937_64 own_random(pe.me());
  for (uint64_t i = 1; i <= 3000; ++i) {
    words[0] = i;
    if (pe.me() != 0) dawdle(own_random);
    CHECK(broadcast(pe.group, world, words + 1, words, sizeof(uint64_t), 0).ok());
    CHECK(words[1] == i);
    // Who has posted last time, and now does not, is read by the slow ones still.
    if (i % 64 > 2) continue;
    CHECK(reduce(pe.group, world, words + 1, words, 1, std::plus<uint64_t>()).ok());
    CHECK(words[1] == i * pe.size());
  }
  CHECK(sync(pe.group, world).ok());
}

// A number's words are as new for each team that has it.
void teams_of_one_number(const Pe& pe) {
  for (uint32_t i = 0; i < 100; ++i) {
    const uint32_t size = 1 + i % pe.size();
    const auto made = pe.group.split(pe.group.world(), {pe.size() - size, 1, size});
    CHECK(made);
    if (*made == nullptr) continue;
    uint64_t* const words = pe.allocate<uint64_t>(2);
    for (uint64_t k = 0; k < i % 5; ++k) {
      words[0] = i * 10 + k;
      CHECK(broadcast(pe.group, **made, words + 1, words, sizeof(uint64_t), k % size).ok());
      CHECK(words[1] == i * 10 + k);
    }
    CHECK(pe.group.heap().release(pe.group.heap_offset(words)));
    CHECK(pe.group.destroy(**made).ok());
  }
}

// Active sets that are all PEs may have a team, if all say that one thread calls.
void active_sets_with_a_team(const Pe& pe) {
  const PeSet all = {0, 1, pe.size()};
  for (const bool is_last_alike : {true, false}) {
    auto group =
        Group::join(pe.member, {.name = is_last_alike ? "alike" : "unlike",
                                .heap_bytes = 1 << 20,
                                .has_one_caller = pe.me() + 1 < pe.size() || is_last_alike});
    CHECK(group);
    Team* const team = (*group)->team_of_all(all);
    CHECK((team != nullptr) == is_last_alike);
    CHECK((*group)->team_of_all({0, 1, pe.size() - 1}) == nullptr);
    if (team != nullptr) {
      CHECK(team != &(*group)->world() &&
            (*group)->destroy(*team).code() == Code::invalid_argument);
      CHECK((*group)->sync(*team).ok());
    }
    CHECK((*group)->sync((*group)->world()).ok());
  }
}

}  // namespace

const Named kSmallScenarios[] = {
    {"small_many", many_after_another},
    {"small_root", a_root_is_ahead},
    {"small_again", teams_of_one_number},
    {"set_team", active_sets_with_a_team},
    {nullptr, nullptr},
};

}  // namespace penstock::symm::test
