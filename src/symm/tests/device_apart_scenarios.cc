// GPUs of one node without access to each other: simulated ones, by which some PEs do not reach
// others. What goes between those goes by rings, proxies and mail.
#include "devices.h"
#include "penstock_device/symm/far_layout.h"

#include <chrono>
#include <csignal>
#include <string>
#include <unistd.h>

namespace penstock::symm::test {
namespace {

using std::chrono::steady_clock;

constexpr auto kSoonApart = std::chrono::seconds(10);

void near_is_as_it_should_be(const Pe& pe, const OnDevice& on, const Apart& apart) {
  auto* const word = on.allocate<uint64_t>(1);
  for (uint32_t other = 0; other < pe.size(); ++other) {
    // Hosts of a node share memory all the same.
    const bool is_near = pe.group.is_near(other) && !apart.between(pe.me(), other);
    CHECK(on.heap->is_near(other) == is_near);
    CHECK((on.heap->at(word, 8, other) != nullptr) == is_near);
    CHECK(on.heap->is_far(word, 8, other) == !is_near);
    CHECK((on.heap->state().near_pes[0] >> other & 1) == (is_near ? 1 : 0));
  }
  CHECK(on.heap->has_far() && on.heap->has_far(pe.group.world()));
  CHECK(on.heap->release(on.heap->offset(word)));
}

// Words with zeros, which all PEs have when it returns.
uint64_t* zeros(const Pe& pe, const OnDevice& on, uint64_t count) {
  auto* const words = on.allocate<uint64_t>(count);
  CHECK(on.device->fill_zeros(words, count * sizeof(uint64_t), nullptr).ok());
  CHECK(on.device->synchronize(nullptr).ok());
  CHECK(pe.group.barrier(pe.group.world()).ok());
  return words;
}

// Bytes to the right one and from the left one, in one piece and in rows.
void bytes_go(const Pe& pe, const OnDevice& on, DeviceStreams& streams) {
  constexpr uint64_t kWords = 100'000;  // longer than a lane of mail
  auto* const source = on.allocate<uint64_t>(kWords);
  auto* const dest = on.allocate<uint64_t>(kWords);
  const auto value = [](uint32_t from, uint64_t i) { return from * 1'000'000 + i; };
  std::vector<uint64_t> words(kWords);
  for (uint64_t i = 0; i < kWords; ++i) words[i] = value(pe.me(), i);
  CHECK(on.device->copy(source, words.data(), kWords * 8, nullptr).ok());
  CHECK(streams.barrier(pe.group.world(), nullptr).ok());
  CHECK(streams.put(dest, source, kWords * 8, pe.right(), nullptr).ok());
  CHECK(streams.barrier(pe.group.world(), nullptr).ok());
  auto seen = words_at(*on.device, dest, kWords);
  for (uint64_t i = 0; i < kWords; ++i) CHECK(seen[i] == value(pe.left(), i));
  CHECK(streams.barrier(pe.group.world(), nullptr).ok());
  CHECK(streams.get(dest, source, kWords * 8, pe.right(), nullptr).ok());
  seen = words_at(*on.device, dest, kWords);
  for (uint64_t i = 0; i < kWords; ++i) CHECK(seen[i] == value(pe.right(), i));
  CHECK(streams.barrier(pe.group.world(), nullptr).ok());
  const StridedElements rows = {.dest = 3, .source = 2, .count = 1000, .element_bytes = 8};
  CHECK(streams.iput(dest, source, rows, pe.right(), nullptr, By::kernels).ok());
  CHECK(streams.barrier(pe.group.world(), nullptr).ok());
  seen = words_at(*on.device, dest, kWords);
  for (uint64_t i = 0; i < 1000; ++i) {
    CHECK(seen[3 * i] == value(pe.left(), 2 * i));
    CHECK(seen[3 * i + 1] == value(pe.right(), 3 * i + 1));
  }
  CHECK(streams.barrier(pe.group.world(), nullptr).ok());
  CHECK(streams.iget(dest, source, {2, 5, 1000, 8}, pe.left(), nullptr, By::kernels).ok());
  seen = words_at(*on.device, dest, 2000);
  for (uint64_t i = 0; i < 1000; ++i) CHECK(seen[2 * i] == value(pe.left(), 5 * i));
  CHECK(streams.barrier(pe.group.world(), nullptr).ok());
  CHECK(on.heap->release(on.heap->offset(dest)));
  CHECK(on.heap->release(on.heap->offset(source)));
}

// One word that all change, near and far: no change is lost.
void words_change(const Pe& pe, const OnDevice& on, DeviceStreams& streams) {
  auto made = DeviceWords::make(*on.heap);
  CHECK(made);
  DeviceWords& words = **made;
  auto* const all = zeros(pe, on, 4);
  constexpr uint64_t kChanges = 200;
  for (uint64_t i = 0; i < kChanges; ++i) {
    for (uint32_t to = 0; to < pe.size(); ++to)
      CHECK(words.change(all, {ChangeBy::add, 8, 1, 0}, to).ok());
  }
  CHECK(streams.quiet(on.device->own_stream()).ok());
  CHECK(on.device->synchronize(on.device->own_stream()).ok());
  const auto before = words.fetch(all + 1, {ChangeBy::swap, 8, pe.me() + 1, 0}, 0);
  CHECK(before && *before <= pe.size() && *before != pe.me() + 1);
  const uint32_t mark = 7 + pe.me();
  CHECK(words.put(all + 2, &mark, sizeof mark, pe.right()).ok());
  CHECK(pe.group.barrier(pe.group.world()).ok());
  uint64_t seen = 0;
  CHECK(words.get(&seen, all, 8, pe.left()).ok());
  CHECK(seen == kChanges * pe.size());
  uint32_t told = 0;
  CHECK(words.get(&told, all + 2, sizeof told, pe.me()).ok());
  CHECK(told == 7 + pe.left());
  CHECK(pe.group.barrier(pe.group.world()).ok());
  CHECK(on.heap->release(on.heap->offset(all)));
}

// A word goes round by signals and waits, with bytes before it.
void signals_go_round(const Pe& pe, const OnDevice& on, DeviceStreams& streams) {
  constexpr uint64_t kRounds = 50;
  auto* const signal = zeros(pe, on, 1);
  auto* const token = on.allocate<uint64_t>(2);
  const auto receive = [&](uint64_t round) {
    CHECK(streams.wait(signal, 0, round, nullptr).ok());
    CHECK(words_at(*on.device, token, 1)[0] == round * 10 + pe.left());
  };
  for (uint64_t round = 1; round <= kRounds; ++round) {
    if (pe.me() != 0) receive(round);
    const bool adds = round % 2 == 0;
    CHECK(streams.store(token + 1, round * 10 + pe.me(), 8, pe.me(), nullptr).ok());
    CHECK(streams
              .put_signal(token, token + 1, 8, signal, adds ? 1 : round,
                          adds ? SignalOp::add : SignalOp::set, pe.right(), nullptr)
              .ok());
    if (pe.me() == 0) receive(round);
  }
  CHECK(streams.barrier(pe.group.world(), nullptr).ok());
  CHECK(on.device->synchronize(nullptr).ok());
  CHECK(on.heap->release(on.heap->offset(token)));
  CHECK(on.heap->release(on.heap->offset(signal)));
}

void gpus_apart(const Pe& pe, const Apart& apart) {
  const OnDevice on = begin_apart(pe, pe.group, apart);
  near_is_as_it_should_be(pe, on, apart);
  const auto streams = make_streams(*on.heap);
  for (int i = 0; i < 20; ++i) CHECK(streams->barrier(pe.group.world(), nullptr).ok());
  bytes_go(pe, on, *streams);
  words_change(pe, on, *streams);
  signals_go_round(pe, on, *streams);
  CHECK(streams->failure() == device::kSymmNothing);
  CHECK(pe.group.barrier(pe.group.world()).ok());
}
void all_apart(const Pe& pe) {
  gpus_apart(pe, kAllApart);
}
void last_apart(const Pe& pe) {
  gpus_apart(pe, kLastApart);
}
void ends_apart(const Pe& pe) {
  gpus_apart(pe, kEndsApart);
}

// Teams of those that reach one another know nothing of rings.
void teams_of_some_apart(const Pe& pe) {
  CHECK(pe.size() == 3);
  const OnDevice on = begin_apart(pe, pe.group, kEndsApart);
  auto first = pe.group.split(pe.group.world(), {0, 1, 2});
  auto ends = pe.group.split(pe.group.world(), {0, 2, 2});
  CHECK(first && ends);
  for (Team* const team : {*first, *ends}) {
    if (team == nullptr) continue;
    CHECK(on.heap->tell_of(*team).ok());
    CHECK(on.heap->has_far(*team) == (team == *ends));
    device::SymmFar view{};
    CHECK(on.device->copy(&view, on.heap->state().far, sizeof view, nullptr).ok());
    CHECK(on.device->synchronize(nullptr).ok());
    CHECK((view.far_teams[team->id() / 64] >> (team->id() % 64) & 1) == (team == *ends ? 1 : 0));
    CHECK((view.far_teams[0] & 1) == 1);
  }
  CHECK(pe.group.barrier(pe.group.world()).ok());
}

// Where one PE forbids it all are told the pair and what to do; afterwards all is as it was.
void apart_refused(const Pe& pe) {
  auto device = gpu::open_symmetric_device(engine::DeviceId(pe.me()));
  CHECK(device);
  pe.gpus->set_faults({.unreachable = kLastApart.from[pe.me()]});
  const uint64_t used_before = pe.group.heap().used_bytes();
  for (const bool only_one : {false, true}) {
    const auto none = DeviceHeap::make(pe.group, **device,
                                       {.bytes = 8 << 20, .spans_nodes = only_one && pe.me() != 0});
    CHECK(!none && none.error().status.code() == Code::not_supported);
    CHECK(none.error().message.starts_with("PE 2: the memory of PE 0: GPU 2: "));
    CHECK(none.error().message.find("PENSTOCK_GPUS_OF_NODES=0") != std::string::npos);
  }
  CHECK(pe.group.heap().used_bytes() == used_before);
  pe.gpus->set_faults({});
  const auto heap = make_heap(pe.group, **device, 8 << 20);
  CHECK(!heap->has_far() && heap->state().far == nullptr);
  const auto streams = make_streams(*heap);
  use(pe.group, *heap, *streams, 1);
}

// The last one is killed while the others wait for it and ask it; the rest joins again.
void killed_apart(const Pe& pe) {
  const uint32_t last = pe.size() - 1;
  OnDevice on = begin_apart(pe, pe.group, kAllApart);
  auto streams = make_streams(*on.heap);
  bytes_go(pe, on, *streams);
  if (pe.me() == last) {
    ::usleep(50'000);
    ::kill(::getpid(), SIGKILL);
  }
  const auto begin_time = steady_clock::now();
  auto* const some = on.allocate<std::byte>(4 << 20);
  for (int i = 0; i < 10; ++i) CHECK(streams->put(some, some, 4 << 20, last, nullptr).ok());
  CHECK(streams->barrier(pe.group.world(), nullptr).ok());
  CHECK(on.device->synchronize(nullptr).ok());
  CHECK(streams->failure() == device::kSymmPeerGone);
  CHECK(steady_clock::now() - begin_time < kSoonApart);
  CHECK(pe.group.first_gone() == last);
  streams.reset();
  on.heap.reset();
  GroupOptions rest{.name = "rest", .heap_bytes = 4 << 20};
  for (uint32_t rank = 0; rank < last; ++rank) rest.ranks.push_back(rank);
  auto group = Group::join(pe.member, rest);
  CHECK(group);
  const auto heap = make_heap(**group, *on.device, 8 << 20);
  CHECK(heap->has_far() == (last > 1));
  const auto again = make_streams(*heap);
  auto* const words = allocate<uint64_t>(*heap, 2);
  const uint32_t right = ((*group)->me() + 1) % (*group)->size();
  for (uint64_t round = 1; round <= 20; ++round) {
    CHECK(again->store(words + 1, round, 8, (*group)->me(), nullptr).ok());
    CHECK(again->put(words, words + 1, 8, right, nullptr).ok());
    CHECK(again->barrier((*group)->world(), nullptr).ok());
    CHECK(words_at(*on.device, words, 1)[0] == round);
    CHECK(again->barrier((*group)->world(), nullptr).ok());
  }
  CHECK(again->failure() == device::kSymmNothing);
  CHECK((*group)->barrier((*group)->world()).ok());
}

// One refuses what the others ask for, and dies while they begin again.
void killed_while_joining_apart(const Pe& pe) {
  const uint32_t last = pe.size() - 1;
  auto device = gpu::open_symmetric_device(engine::DeviceId(pe.me()));
  CHECK(device);
  pe.gpus->set_faults({.unreachable = kAllApart.from[pe.me()]});
  if (pe.me() == last) {
    const auto none =
        DeviceHeap::make(pe.group, **device, {.bytes = 8 << 20, .spans_nodes = false});
    CHECK(!none);
    ::kill(::getpid(), SIGKILL);
  }
  const auto begin_time = steady_clock::now();
  const auto none = DeviceHeap::make(pe.group, **device, {.bytes = 8 << 20});
  CHECK(!none);
  const auto gone = DeviceHeap::make(pe.group, **device, {.bytes = 8 << 20});
  CHECK(!gone && gone.error().status.code() == Code::peer_gone);
  CHECK(steady_clock::now() - begin_time < kSoonApart);
}

}  // namespace

const Named kDeviceApartScenarios[] = {
    {"device_all_apart", all_apart},
    {"device_last_apart", last_apart},
    {"device_ends_apart", ends_apart},
    {"device_teams_apart", teams_of_some_apart},
    {"device_apart_refused", apart_refused},
    {"device_apart_killed", killed_apart},
    {"device_apart_joining", killed_while_joining_apart},
    {nullptr, nullptr},
};

}  // namespace penstock::symm::test
