// What PEs do together, over teams and over active sets, in sizes below, at and above what is done
// at once.
#include "pes.h"

#include <functional>

namespace penstock::symm::test {
namespace {

// A value that tells which PE and which place it came from.
uint64_t value_of(uint32_t pe, uint64_t place) {
  return (uint64_t{pe} + 1) * 1'000'003 + place;
}

// Nobody leaves a sync before all have come.
void nobody_leaves_a_sync_early(const Pe& pe) {
  auto* const count = pe.allocate<uint64_t>(1);
  for (uint64_t round = 1; round <= 1'000; ++round) {
    CHECK(atomic_fetch_add(pe.group, count, uint64_t{1}, 0));
    CHECK(pe.group.sync(pe.group.world()).ok());
    CHECK(*atomic_fetch(pe.group, count, 0) >= round * pe.size());
  }
  // PE 0 answers until all have asked.
  CHECK(pe.group.sync(pe.group.world()).ok());
}

template <class Who>
void all_collectives(const Pe& pe, Who& who, uint64_t words) {
  Group& group = pe.group;
  const uint32_t size = who.size();
  auto* const source = pe.allocate<uint64_t>(words * size);
  auto* const dest = pe.allocate<uint64_t>(words * size);
  const auto fill = [&] {
    for (uint64_t i = 0; i < words * size; ++i) source[i] = value_of(who.index(), i);
    std::fill_n(dest, words * size, uint64_t{0});
  };
  const uint64_t bytes = words * sizeof(uint64_t);

  for (uint32_t root = 0; root < size; ++root) {
    fill();
    CHECK(broadcast(group, who, dest, source, bytes, root).ok());
    for (uint64_t i = 0; i < words; ++i) CHECK(dest[i] == value_of(root, i));
  }
  fill();
  CHECK(fcollect(group, who, dest, source, bytes).ok());
  for (uint64_t i = 0; i < words * size; ++i)
    CHECK(dest[i] == value_of(uint32_t(i / words), i % words));

  // Each PE brings another length, the first one nothing.
  fill();
  const uint64_t some = words * who.index() / size;
  CHECK(collect(group, who, dest, source, some * sizeof(uint64_t)).ok());
  uint64_t at = 0;
  for (uint32_t from = 0; from < size; ++from) {
    for (uint64_t i = 0; i < words * from / size; ++i) CHECK(dest[at++] == value_of(from, i));
  }
  CHECK(at == words * size || dest[at] == 0);

  fill();
  CHECK(alltoall(group, who, dest, source, bytes).ok());
  for (uint64_t i = 0; i < words * size; ++i) {
    CHECK(dest[i] == value_of(uint32_t(i / words), who.index() * words + i % words));
  }

  if (words % 2 == 0) {
    fill();
    CHECK(alltoalls(group, who, dest, source, Strides{.dest = 2, .source = 1}, words / 2).ok());
    for (uint32_t from = 0; from < size; ++from) {
      for (uint64_t i = 0; i < words / 2; ++i) {
        CHECK(dest[(from * (words / 2) + i) * 2] == value_of(from, who.index() * (words / 2) + i));
      }
    }
  }

  const auto sum_of = [&](uint64_t i) {
    uint64_t sum = 0;
    for (uint32_t from = 0; from < size; ++from) sum += value_of(from, i);
    return sum;
  };
  fill();
  CHECK(reduce(group, who, dest, source, words, std::plus<uint64_t>()).ok());
  for (uint64_t i = 0; i < words; ++i) CHECK(dest[i] == sum_of(i));
  for (uint64_t i = 0; i < words; ++i) CHECK(source[i] == value_of(who.index(), i));
  // In place.
  CHECK(reduce(group, who, source, source, words, std::plus<uint64_t>()).ok());
  for (uint64_t i = 0; i < words; ++i) CHECK(source[i] == sum_of(i));
  CHECK(sync(group, who).ok());
  CHECK(group.heap().release(group.heap_offset(dest)) &&
        group.heap().release(group.heap_offset(source)));
}

void over_the_world(const Pe& pe) {
  // 134 words are what a PE posts, to all or divided among them.
  for (const uint64_t words : {1, 2, 7, 33, 34, 44, 45, 67, 68, 134, 135, 512, 513, 5000, 100'000})
    all_collectives(pe, pe.group.world(), words);
}

// More PEs than processors, each with a connection to each of the other nodes.
void with_many_pes(const Pe& pe) {
  auto* const seen = pe.allocate<uint64_t>(pe.size());
  for (uint64_t round = 1; round <= 3; ++round) {
    for (uint32_t step = 0; step < pe.size(); ++step) {
      const uint64_t value = value_of(pe.me(), round);
      CHECK(pe.group.put(seen + pe.me(), &value, sizeof value, (pe.me() + step) % pe.size()).ok());
    }
    CHECK(pe.group.barrier(pe.group.world()).ok());
    for (uint32_t from = 0; from < pe.size(); ++from) CHECK(seen[from] == value_of(from, round));
    CHECK(pe.group.sync(pe.group.world()).ok());
  }
  for (int i = 0; i < 20; ++i) CHECK(pe.group.sync(pe.group.world()).ok());
  for (const uint64_t words : {1, 8, 600}) all_collectives(pe, pe.group.world(), words);
}

// With the same words again and again, by all PEs and by some.
void over_active_sets(const Pe& pe) {
  static long psync[8] = {};
  for (const uint64_t words : {1, 2, 513, 5000}) {
    const ActiveSet all({0, 1, pe.size()}, pe.me(), psync);
    all_collectives(pe, all, words);
    const PeSet odd = {1, 2, pe.size() / 2};
    if (const auto index = odd.index_of(pe.me()); pe.size() >= 2 && index) {
      const ActiveSet some(odd, *index, psync + 4);
      // PEs that are not in it allocate nothing: what is allocated here is given back in the same
      // order.
      all_collectives(pe, some, words);
    }
    CHECK(pe.group.sync(pe.group.world()).ok());
    for (const long word : psync) CHECK(word == 0);
    CHECK(pe.group.sync(pe.group.world()).ok());
  }
}

// Floats give the same bits everywhere, whatever the order costs.
void sums_are_the_same_everywhere(const Pe& pe) {
  constexpr uint64_t kCount = 10'000;
  auto* const source = pe.allocate<float>(kCount);
  auto* const dest = pe.allocate<float>(kCount);
  for (uint64_t i = 0; i < kCount; ++i) source[i] = 1.0f / static_cast<float>(1 + pe.me() * 7 + i);
  for (const uint64_t count : {uint64_t{100}, kCount}) {
    CHECK(reduce(pe.group, pe.group.world(), dest, source, count, std::plus<float>()).ok());
    CHECK(pe.group.sync(pe.group.world()).ok());
    std::vector<float> first(count);
    CHECK(pe.group.get(first.data(), dest, count * sizeof(float), 0).ok());
    CHECK(std::equal(first.begin(), first.end(), dest));
    CHECK(pe.group.sync(pe.group.world()).ok());
  }
}

}  // namespace

const Named kCollectiveScenarios[] = {
    {"sync", nobody_leaves_a_sync_early},
    {"world", over_the_world},
    {"many", with_many_pes},
    {"active_sets", over_active_sets},
    {"same_bits", sums_are_the_same_everywhere},
    {nullptr, nullptr},
};

}  // namespace penstock::symm::test
