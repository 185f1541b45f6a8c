// Heaps in GPUs, simulated ones or real ones (tests/gpu/all.sh): with as many PEs as GPUs, fewer
// and more.
#include "devices.h"

#include <array>
#include <chrono>
#include <string>

namespace penstock::symm::test {
namespace {

void bytes_between_devices(const Pe& pe) {
  const OnDevice on = begin(pe);
  auto* const device = &on.device;
  auto* const heap = &on.heap;
  constexpr uint64_t kBytes = 8 << 20;
  auto* const there = on.allocate<std::byte>(kBytes);
  // What was never written is zeros.
  std::vector<uint32_t> words(kBytes / sizeof(uint32_t), 7);
  CHECK((*device)->copy(words.data(), there, kBytes, nullptr).ok());
  CHECK((*device)->synchronize(nullptr).ok());
  for (const uint32_t word : words) CHECK(word == 0);

  for (uint32_t i = 0; i < words.size(); ++i) words[i] = pe.me() * 1'000'000 + i;
  CHECK(pe.group.barrier(pe.group.world()).ok());
  CHECK((*heap)->at(there, kBytes, pe.size()) == nullptr &&
        (*heap)->at(there, uint64_t{1} << 40, 0) == nullptr);
  CHECK(
      (*device)->copy((*heap)->at(there, kBytes, pe.right()), words.data(), kBytes, nullptr).ok());
  CHECK((*device)->synchronize(nullptr).ok());
  CHECK(pe.group.barrier(pe.group.world()).ok());
  std::vector<uint32_t> seen(words.size());
  CHECK((*device)->copy(seen.data(), there, kBytes, nullptr).ok());
  CHECK((*device)->synchronize(nullptr).ok());
  for (uint32_t i = 0; i < seen.size(); ++i) CHECK(seen[i] == pe.left() * 1'000'000 + i);
  CHECK(pe.group.barrier(pe.group.world()).ok());
}

// Each barrier makes what was put before it seen, by all PEs, without the host.
void streams_meet(const Pe& pe) {
  const OnDevice on = begin(pe);
  auto made = DeviceStreams::make(*on.heap);
  CHECK(made);
  DeviceStreams& streams = **made;
  // PEs of several nodes ask their hosts for each.
  const uint64_t kRounds = pe.group.has_far() ? 200 : 2'000;
  auto* const cells = on.allocate<uint64_t>(kRounds);
  auto* const signal = on.allocate<uint64_t>(1);
  std::vector<uint64_t> values(kRounds);
  for (uint64_t i = 0; i < kRounds; ++i) values[i] = pe.me() * 1'000'000 + i;
  auto* const source = on.allocate<uint64_t>(kRounds);
  CHECK(on.device->copy(source, values.data(), kRounds * sizeof(uint64_t), nullptr).ok());
  std::vector<uint64_t> seen(kRounds);
  const Team& world = pe.group.world();
  // What the first use of anything costs is not timed.
  CHECK(streams.put(cells, source, sizeof(uint64_t), pe.right(), nullptr).ok());
  CHECK(streams.barrier(world, nullptr).ok());
  CHECK(on.device->synchronize(nullptr).ok());
  const auto begin_time = std::chrono::steady_clock::now();
  for (uint64_t i = 0; i < kRounds; ++i) {
    CHECK(streams.put(cells + i, source + i, sizeof(uint64_t), pe.right(), nullptr).ok());
    CHECK(streams.barrier(world, nullptr).ok());
    if (i % 100 == 0) {
      CHECK(on.device->copy(&seen[i], cells + i, sizeof(uint64_t), nullptr).ok());
      CHECK(on.device->synchronize(nullptr).ok());
      CHECK(seen[i] == pe.left() * 1'000'000 + i);
    }
  }
  CHECK(on.device->copy(seen.data(), cells, kRounds * sizeof(uint64_t), nullptr).ok());
  CHECK(on.device->synchronize(nullptr).ok());
  for (uint64_t i = 0; i < kRounds; ++i) CHECK(seen[i] == pe.left() * 1'000'000 + i);
  const double put_and_barrier =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_time).count() /
      kRounds;

  CHECK(pe.group.barrier(pe.group.world()).ok());
  const auto before_barriers = std::chrono::steady_clock::now();
  for (uint64_t i = 0; i < kRounds; ++i) CHECK(streams.barrier(world, nullptr).ok());
  CHECK(on.device->synchronize(nullptr).ok());
  const double barrier =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - before_barriers).count() /
      kRounds;

  // A word that goes round, by streams alone.
  for (uint64_t round = 1; round <= 100; ++round) {
    if (pe.me() == 0) CHECK(streams.signal(signal, round, SignalOp::set, pe.right(), nullptr).ok());
    CHECK(streams.wait(signal, 0, round, nullptr).ok());
    if (pe.me() != 0) CHECK(streams.signal(signal, round, SignalOp::set, pe.right(), nullptr).ok());
  }
  CHECK(on.device->synchronize(nullptr).ok());
  CHECK(streams.failure() == device::kSymmNothing);
  CHECK(pe.group.barrier(pe.group.world()).ok());
  if (pe.me() == 0) {
    std::printf("%u PEs: put of 8 bytes and barrier on a stream %.2f us, barrier %.2f us\n",
                pe.size(), put_and_barrier * 1e6, barrier * 1e6);
  }
}

// A PE that dies while the others' GPUs wait for it: their kernels end, and say so.
void kernels_hear_of_an_end(const Pe& pe) {
  const OnDevice on = begin(pe);
  auto made = DeviceStreams::make(*on.heap);
  CHECK(made);
  meet_before_the_last_one_ends(pe);
  if (pe.me() == pe.size() - 1) std::_Exit(7);
  CHECK((*made)->barrier(pe.group.world(), nullptr).ok());
  CHECK(on.device->synchronize(nullptr).ok());
  CHECK((*made)->failure() == device::kSymmPeerGone);
  CHECK(pe.group.sync(pe.group.world()).code() == Code::peer_gone);
}

// The same of collective operations, by whatever way they go; and what they refuse.
void operations_hear_of_an_end(const Pe& pe) {
  const OnDevice on = begin(pe);
  auto made = DeviceStreams::make(*on.heap);
  CHECK(made);
  DeviceCollectives& operations = (*made)->collectives();
  constexpr uint64_t kCount = 1 << 18;
  auto* const source = on.allocate<float>(kCount);
  auto* const dest = on.allocate<float>(kCount * pe.size());
  const Team& world = pe.group.world();
  constexpr DeviceCollectives::Reduction kSum = {Combine::sum, Element::f32};
  CHECK(operations.broadcast(world, dest, source, 4, pe.size(), nullptr).code() ==
        Code::invalid_argument);
  CHECK(operations.fcollect(world, dest, &made, 4, nullptr).code() == Code::invalid_argument);
  CHECK(operations.fcollect(world, dest, source, ~uint64_t{0}, nullptr).code() ==
        Code::invalid_argument);
  CHECK(operations.reduce(world, kSum, reinterpret_cast<char*>(dest) + 1, source, 1, nullptr)
            .code() == Code::invalid_argument);
  CHECK(
      operations.reduce(world, {Combine::bit_or, Element::f16}, dest, source, 1, nullptr).code() ==
      Code::invalid_argument);
  meet_before_the_last_one_ends(pe);
  if (pe.me() == pe.size() - 1) std::_Exit(7);
  CHECK(operations.reduce(world, kSum, dest, source, 1, nullptr).ok());
  CHECK(operations.reduce(world, kSum, dest, source, kCount, nullptr).ok());
  CHECK(operations.broadcast(world, dest, source, kCount, 0, nullptr).ok());
  CHECK(operations.alltoall(world, dest, source, 8, nullptr).ok());
  CHECK(on.device->synchronize(nullptr).ok());
  CHECK((*made)->failure() == device::kSymmPeerGone);
}

// Small ones and large ones go by different ways; each result is looked at by the host.
void operations_on_streams(const Pe& pe) {
  const OnDevice on = begin(pe);
  const auto streams = make_streams(*on.heap);
  DeviceCollectives& operations = streams->collectives();
  const Team& world = pe.group.world();
  constexpr uint64_t kMost = 20'000;
  auto* const source = on.allocate<uint64_t>(kMost * pe.size());
  auto* const dest = on.allocate<uint64_t>(kMost * pe.size());
  const auto value = [](uint32_t from, uint32_t to, uint64_t i) {
    return (uint64_t{from} + 1) * 1'000'003 + to * 7919 + i;
  };
  std::vector<uint64_t> words(kMost * pe.size());
  for (const uint64_t count : {uint64_t{1}, uint64_t{100}, kMost}) {
    for (uint32_t to = 0; to < pe.size(); ++to) {
      for (uint64_t i = 0; i < count; ++i) words[to * count + i] = value(pe.me(), to, i);
    }
    const uint64_t bytes = count * sizeof(uint64_t);
    CHECK(on.device->copy(source, words.data(), bytes * pe.size(), nullptr).ok());
    CHECK(operations.alltoall(world, dest, source, bytes, nullptr).ok());
    auto seen = words_at(*on.device, dest, count * pe.size());
    for (uint32_t from = 0; from < pe.size(); ++from) {
      for (uint64_t i = 0; i < count; ++i) CHECK(seen[from * count + i] == value(from, pe.me(), i));
    }
    CHECK(operations.fcollect(world, dest, source, bytes, nullptr).ok());
    seen = words_at(*on.device, dest, count * pe.size());
    for (uint32_t from = 0; from < pe.size(); ++from) {
      for (uint64_t i = 0; i < count; ++i) CHECK(seen[from * count + i] == value(from, 0, i));
    }
    const uint32_t root = pe.size() - 1;
    CHECK(operations.broadcast(world, dest, source, bytes, root, nullptr).ok());
    seen = words_at(*on.device, dest, count);
    for (uint64_t i = 0; i < count; ++i) CHECK(seen[i] == value(root, 0, i));
    for (const Combine combine : {Combine::sum, Combine::max}) {
      CHECK(operations.reduce(world, {combine, Element::u64}, dest, source, count, nullptr).ok());
      seen = words_at(*on.device, dest, count);
      for (uint64_t i = 0; i < count; ++i) {
        uint64_t wanted = value(root, 0, i);
        for (uint32_t from = 0; combine == Combine::sum && from < root; ++from)
          wanted += value(from, 0, i);
        CHECK(seen[i] == wanted);
      }
    }
  }
  CHECK(streams->failure() == device::kSymmNothing);
  CHECK(pe.group.barrier(pe.group.world()).ok());
}

}  // namespace

const Named kDeviceScenarios[] = {
    {"device_bytes", bytes_between_devices},
    {"device_streams", streams_meet},
    {"device_end", kernels_hear_of_an_end},
    {"device_collective_end", operations_hear_of_an_end},
    {"device_operations", operations_on_streams},
    {nullptr, nullptr},
};

}  // namespace penstock::symm::test
