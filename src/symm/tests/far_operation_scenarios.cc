// Collective operations on streams where some members are far to each other: over several nodes,
// and on GPUs of one node without access.
#include "devices.h"

#include <chrono>
#include <csignal>
#include <cstring>
#include <unistd.h>

namespace penstock::symm::test {
namespace {

using std::chrono::steady_clock;
using Reduction = DeviceCollectives::Reduction;

constexpr uint64_t kMostWords = (1 << 18) + 5;  // 2 MiB and some
constexpr Reduction kSumOfWords = {Combine::sum, Element::u64};

uint64_t given(uint32_t from, uint64_t i) {
  return (uint64_t{from} + 1) * 1'000'003 + i * 7919;
}

// Symmetric memory for the words of all.
struct Both {
  uint64_t* source;
  uint64_t* dest;
};

Both memory_for(const OnDevice& on, uint64_t words) {
  return {on.allocate<uint64_t>(words), on.allocate<uint64_t>(words)};
}

// All operations of a team, one after the other.
class Tried {
 public:
  Tried(const OnDevice& on, DeviceStreams& streams, const Team& team, const Both& memory)
      : on_(on), streams_(streams), team_(team), source_(memory.source), dest_(memory.dest) {}

  void all_of(uint64_t count) {
    bytes(count);
    reductions(count);
    in_place(count);
  }

 private:
  uint64_t sum(uint64_t i) const {
    uint64_t value = 0;
    for (uint32_t from = 0; from < team_.size(); ++from) value += given(from, i);
    return value;
  }
  void fill(uint64_t* at, uint64_t count) {
    std::vector<uint64_t> words(count);
    for (uint64_t i = 0; i < count; ++i) words[i] = given(team_.index(), i);
    CHECK(on_.device->copy(at, words.data(), count * 8, nullptr).ok());
  }
  template <class Wanted>
  void expect(const uint64_t* at, uint64_t count, Wanted&& wanted) {
    const auto seen = words_at(*on_.device, at, count);
    for (uint64_t i = 0; i < count; ++i) CHECK(seen[i] == wanted(i));
  }
  void bytes(uint64_t count) {
    DeviceCollectives& operations = streams_.collectives();
    const uint64_t size = team_.size();
    fill(source_, count * size);
    CHECK(operations.alltoall(team_, dest_, source_, count * 8, nullptr).ok());
    expect(dest_, count * size, [&](uint64_t i) {
      return given(static_cast<uint32_t>(i / count), i % count + count * team_.index());
    });
    CHECK(operations.fcollect(team_, dest_, source_, count * 8, nullptr).ok());
    expect(dest_, count * size,
           [&](uint64_t i) { return given(static_cast<uint32_t>(i / count), i % count); });
    for (uint32_t root = 0; root < size; ++root) {
      CHECK(operations.broadcast(team_, dest_, source_, count * 8, root, nullptr).ok());
      expect(dest_, count, [&](uint64_t i) { return given(root, i); });
    }
  }
  void reductions(uint64_t count) {
    DeviceCollectives& operations = streams_.collectives();
    CHECK(operations.reduce(team_, kSumOfWords, dest_, source_, count, nullptr).ok());
    expect(dest_, count, [&](uint64_t i) { return sum(i); });
    const Reduction max = {Combine::max, Element::u64};
    CHECK(operations.reduce(team_, max, dest_, source_, count, nullptr).ok());
    expect(dest_, count, [&](uint64_t i) { return given(team_.size() - 1, i); });
    CHECK(operations.reducescatter(team_, kSumOfWords, dest_, source_, count, nullptr).ok());
    expect(dest_, count, [&](uint64_t i) { return sum(i + count * team_.index()); });
  }
  // Without a wait between what fills the source and what follows.
  void in_place(uint64_t count) {
    DeviceCollectives& operations = streams_.collectives();
    fill(source_, count);
    CHECK(operations.reduce(team_, kSumOfWords, source_, source_, count, nullptr).ok());
    expect(source_, count, [&](uint64_t i) { return sum(i); });
    fill(source_, count * team_.size());
    uint64_t* const own = source_ + count * team_.index();
    CHECK(operations.reducescatter(team_, kSumOfWords, own, source_, count, nullptr).ok());
    expect(own, count, [&](uint64_t i) { return sum(i + count * team_.index()); });
    fill(own, count);
    CHECK(operations.fcollect(team_, source_, own, count * 8, nullptr).ok());
    expect(source_, count * team_.size(),
           [&](uint64_t i) { return given(static_cast<uint32_t>(i / count), i % count); });
    fill(source_, count);
    CHECK(operations.broadcast(team_, source_, source_, count * 8, team_.size() - 1, nullptr).ok());
    expect(source_, count, [&](uint64_t i) { return given(team_.size() - 1, i); });
  }

  const OnDevice& on_;
  DeviceStreams& streams_;
  const Team& team_;
  uint64_t* const source_;
  uint64_t* const dest_;
};

// Small ones and large ones, one behind the other on a stream, each of what the one before has
// made; the host looks in the end.
void many_in_a_row(const Pe& pe, const OnDevice& on, DeviceStreams& streams) {
  constexpr uint64_t kWords = 6000;
  constexpr uint64_t kOperations = 40;
  DeviceCollectives& operations = streams.collectives();
  const Team& world = pe.group.world();
  auto* const words = on.allocate<uint64_t>(kWords);
  auto* const copy = on.allocate<uint64_t>(kWords);
  std::vector<uint64_t> wanted(kWords);
  for (uint64_t i = 0; i < kWords; ++i) wanted[i] = i + 1;
  CHECK(on.device->copy(words, wanted.data(), kWords * 8, nullptr).ok());
  for (uint64_t o = 0; o < kOperations; ++o) {
    const uint64_t count = o % 3 == 0 ? kWords : 7;
    CHECK(operations.reduce(world, kSumOfWords, words, words, count, nullptr).ok());
    for (uint64_t i = 0; i < count; ++i) wanted[i] *= pe.size();
    // All give what they have in common: who comes late or early shows.
    const uint32_t root = static_cast<uint32_t>(o) % pe.size();
    CHECK(operations.broadcast(world, copy, words, count * 8, root, nullptr).ok());
    CHECK(on.device->fill_zeros(words, count * 8, nullptr).ok());
    CHECK(on.device->copy(words, copy, count * 8, nullptr).ok());
  }
  const auto seen = words_at(*on.device, words, kWords);
  for (uint64_t i = 0; i < kWords; ++i) CHECK(seen[i] == wanted[i]);
  CHECK(on.heap->release(on.heap->offset(copy)));
  CHECK(on.heap->release(on.heap->offset(words)));
}

void try_operations(const Pe& pe, const OnDevice& on) {
  const auto streams = make_streams(*on.heap);
  const Team& world = pe.group.world();
  CHECK(on.heap->has_far(world));
  many_in_a_row(pe, on, *streams);
  Tried tried(on, *streams, world, memory_for(on, kMostWords * pe.size()));
  // Around what is small, and what lands in one piece.
  for (const uint64_t count :
       {uint64_t{1}, uint64_t{3}, uint64_t{2048}, uint64_t{2049}, uint64_t{33'001}, kMostWords}) {
    tried.all_of(count);
  }
  CHECK(streams->failure() == device::kSymmNothing);
  CHECK(pe.group.barrier(pe.group.world()).ok());
}

void far_operations(const Pe& pe) {
  try_operations(pe, begin(pe));
}
void all_apart_operations(const Pe& pe) {
  try_operations(pe, begin_apart(pe, pe.group, kAllApart, kDeviceHeapBytes));
}
void ends_apart_operations(const Pe& pe) {
  try_operations(pe, begin_apart(pe, pe.group, kEndsApart, kDeviceHeapBytes));
}

// ---- every way of combining, of every element ----

bool is_floating(Element element) {
  return element >= Element::f16;
}
bool has_sign(Element element) {
  return element < Element::u8 || is_floating(element);
}

// A small whole number as each of them has it.
void encode(Element element, int64_t value, void* to) {
  const auto number = static_cast<float>(value);
  uint32_t bits = 0;
  std::memcpy(&bits, &number, sizeof bits);
  const auto half = static_cast<_Float16>(number);
  const auto brain = static_cast<uint16_t>(bits >> 16);
  const auto both = static_cast<double>(value);
  switch (element) {
    case Element::f16:
      std::memcpy(to, &half, sizeof half);
      return;
    case Element::bf16:
      std::memcpy(to, &brain, sizeof brain);
      return;
    case Element::f32:
      std::memcpy(to, &number, sizeof number);
      return;
    case Element::f64:
      std::memcpy(to, &both, sizeof both);
      return;
    default:
      std::memcpy(to, &value, bytes_of(element));
  }
}

int64_t number_of(Element element, uint32_t pe, uint64_t i) {
  const auto value = static_cast<int64_t>((pe * 7 + i * 3 + pe * i) % 5);
  if (!has_sign(element)) return value;
  return value < 2 ? value - 2 : value - 1;  // never 0, whose products have two signs
}

int64_t combined(Combine combine, int64_t left, int64_t right) {
  switch (combine) {
    case Combine::sum:
      return left + right;
    case Combine::prod:
      return left * right;
    case Combine::min:
      return std::min(left, right);
    case Combine::max:
      return std::max(left, right);
    case Combine::bit_and:
      return left & right;
    case Combine::bit_or:
      return left | right;
    case Combine::bit_xor:
      return left ^ right;
  }
  return 0;
}

void try_element(const Pe& pe, const OnDevice& on, DeviceStreams& streams, Reduction reduction,
                 uint64_t count, std::byte* memory) {
  const auto [combine, element] = reduction;
  const uint64_t each = bytes_of(element);
  std::vector<std::byte> own(count * each);
  std::vector<std::byte> wanted(count * each);
  for (uint64_t i = 0; i < count; ++i) {
    encode(element, number_of(element, pe.me(), i), &own[i * each]);
    int64_t value = number_of(element, 0, i);
    for (uint32_t from = 1; from < pe.size(); ++from)
      value = combined(combine, value, number_of(element, from, i));
    encode(element, value, &wanted[i * each]);
  }
  std::byte* const at = memory + each;  // not aligned to more than its elements
  CHECK(on.device->copy(at, own.data(), own.size(), nullptr).ok());
  CHECK(streams.collectives().reduce(pe.group.world(), reduction, at, at, count, nullptr).ok());
  std::vector<std::byte> seen(own.size());
  CHECK(on.device->copy(seen.data(), at, seen.size(), nullptr).ok());
  CHECK(on.device->synchronize(nullptr).ok());
  if (seen != wanted) {
    std::fprintf(stderr, "not so: combine %u, element %u, %llu of them\n",
                 static_cast<unsigned>(combine), static_cast<unsigned>(element),
                 static_cast<unsigned long long>(count));
    std::_Exit(1);
  }
}

void far_elements(const Pe& pe) {
  const OnDevice on = begin(pe);
  const auto streams = make_streams(*on.heap);
  auto* const memory = on.allocate<std::byte>(1 << 20);
  for (uint32_t combine = 0; combine < kCombines; ++combine) {
    for (uint32_t element = 0; element < kElements; ++element) {
      const Reduction reduction = {static_cast<Combine>(combine), static_cast<Element>(element)};
      if (reduction.combine >= Combine::bit_and && is_floating(reduction.element)) {
        CHECK(streams->collectives()
                  .reduce(pe.group.world(), reduction, memory, memory, 1, nullptr)
                  .code() == Code::invalid_argument);
        continue;
      }
      for (const uint64_t count : {uint64_t{37}, uint64_t{16'400}})
        try_element(pe, on, *streams, reduction, count, memory);
    }
  }
  CHECK(streams->failure() == device::kSymmNothing);
  CHECK(pe.group.barrier(pe.group.world()).ok());
}

// ---- teams, and ends ----

// Rows over both nodes, backwards, too; of one node alone, which go by loads and stores; and one
// after the other under the same number.
void far_teams(const Pe& pe) {
  CHECK(pe.size() == 4);
  const OnDevice on = begin(pe);
  const auto streams = make_streams(*on.heap);
  const Both memory = memory_for(on, 5000 * pe.size());
  for (const PeSet& row : {PeSet{0, 2, 2}, PeSet{3, -1, 3}, PeSet{0, 1, 2}, PeSet{1, 1, 3}}) {
    auto team = pe.group.split(pe.group.world(), row);
    CHECK(team);
    if (*team != nullptr) {
      CHECK(on.heap->tell_of(**team).ok());
      CHECK(on.heap->has_far(**team) == (row != PeSet{0, 1, 2}));
      CHECK(pe.group.sync(**team).ok());
      Tried tried(on, *streams, **team, memory);
      for (const uint64_t count : {uint64_t{1}, uint64_t{5000}}) tried.all_of(count);
      CHECK(on.device->synchronize(nullptr).ok());
      CHECK(on.heap->forget((*team)->id()).ok());
      CHECK(pe.group.destroy(**team).ok());
    }
    CHECK(streams->failure() == device::kSymmNothing);
    CHECK(pe.group.barrier(pe.group.world()).ok());
  }
}

// The last one is killed while the others are in the middle of large ones.
void far_operations_killed(const Pe& pe) {
  const OnDevice on = begin(pe);
  const auto streams = make_streams(*on.heap);
  DeviceCollectives& operations = streams->collectives();
  const Team& world = pe.group.world();
  auto* const words = on.allocate<uint64_t>(kMostWords);
  auto* const all = on.allocate<uint64_t>(kMostWords * pe.size());
  CHECK(operations.reduce(world, kSumOfWords, words, words, kMostWords, nullptr).ok());
  CHECK(on.device->synchronize(nullptr).ok());
  CHECK(streams->failure() == device::kSymmNothing);
  meet_before_the_last_one_ends(pe);
  const auto begin_time = steady_clock::now();
  for (int i = 0; i < 20; ++i) {
    CHECK(operations.reduce(world, kSumOfWords, words, words, kMostWords, nullptr).ok());
    CHECK(operations.fcollect(world, all, words, kMostWords * 8, nullptr).ok());
    CHECK(operations.broadcast(world, words, words, kMostWords * 8, 0, nullptr).ok());
    CHECK(operations.alltoall(world, all, words, 8, nullptr).ok());
  }
  if (pe.me() == pe.size() - 1) {
    ::usleep(20'000);
    ::kill(::getpid(), SIGKILL);
  }
  CHECK(on.device->synchronize(nullptr).ok());
  CHECK(streams->failure() == device::kSymmPeerGone);
  CHECK(steady_clock::now() - begin_time < std::chrono::seconds(20));
  CHECK(pe.group.first_gone() == pe.size() - 1);
}

}  // namespace

const Named kFarOperationScenarios[] = {
    {"far_operations", far_operations},
    {"all_apart_operations", all_apart_operations},
    {"ends_apart_operations", ends_apart_operations},
    {"far_elements", far_elements},
    {"far_teams", far_teams},
    {"far_operations_killed", far_operations_killed},
    {nullptr, nullptr},
};

}  // namespace penstock::symm::test
