// What hostile kernels ask of a proxy, what hostile peers send it, and what is open to them.
#include "far_nodes.h"

#include <cstring>
#include <gtest/gtest.h>
#include <map>
#include <set>

namespace penstock::symm {
namespace {

using device::Company;
using device::Scope;

// What a kernel writes itself into the ring.
TEST(SymmDeviceFarHostile, refuses_what_a_hostile_kernel_asks) {
  using device::Ask;
  using device::FarChange;
  const uint64_t heap = SimulatedGpus::kHeapBytes;
  std::vector<device::FarAsk> bad;
  std::set<size_t> not_reached;  // of these: their own side is at fault
  std::set<size_t> no_pe;
  const auto add = [&](const std::function<void(device::FarAsk&)>& spoil) {
    device::FarAsk asked{};
    asked.ask = Ask::put;
    asked.answer = true;
    asked.pe = 1;
    asked.offset = 65536;
    asked.value = 0;  // the own heap's begin, below
    asked.length = 64;
    spoil(asked);
    bad.push_back(asked);
  };
  add([](auto& it) { it.pe = 0; });
  add([](auto& it) { it.pe = 2; });
  add([](auto& it) { it.pe = 4095; });
  no_pe = {0, 1, 2};
  add([](auto& it) { it.length = 0; });
  add([&](auto& it) { it.offset = heap - 10; });
  add([&](auto& it) { it.offset = heap - 4096; });  // what is private
  add([](auto& it) { it.offset = (uint64_t{1} << 46) - 1; });
  add([](auto& it) { it.length = device::kFarLengthMax; });
  add([](auto& it) {
    it.value = 16;
    it.length = SimulatedGpus::kHeapBytes - 4096;
    it.ask = Ask::get;
    it.offset = 0;
    it.value = device::kFarLengthMax - 100;
  });
  not_reached.insert(bad.size() - 1);
  add([](auto& it) { it.value = 4096; });
  not_reached.insert(bad.size() - 1);
  add([](auto& it) {
    it.ask = Ask::get;
    it.answer = false;
  });
  add([](auto& it) {
    it.ask = Ask::put_row;
    it.width_log2 = 5;
  });
  add([](auto& it) {
    it.ask = Ask::put_row;
    it.length = device::kFarRowMax;
    it.stride_there = device::kFarStrideMax;
  });
  add([](auto& it) {
    it.ask = Ask::get_row;
    it.stride_here = device::kFarStrideMax;
    it.length = 1 << 20;
  });
  not_reached.insert(bad.size() - 1);
  add([](auto& it) {
    it.ask = Ask::put_row;
    it.stride_here = device::kFarStrideMax;
  });
  not_reached.insert(bad.size() - 1);
  add([](auto& it) {
    it.ask = Ask::change;
    it.width_log2 = 4;
  });
  add([](auto& it) {
    it.ask = Ask::change;
    it.width_log2 = 0;
    it.change = FarChange::add;
  });
  add([](auto& it) {
    it.ask = Ask::change;
    it.width_log2 = 3;
    it.offset = 65540;
  });
  add([](auto& it) {
    it.ask = Ask::change;
    it.width_log2 = 3;
    it.answer = false;
    it.change = FarChange::fetch;
  });
  add([](auto& it) { it.ask = static_cast<Ask>(0); });
  add([](auto& it) { it.ask = static_cast<Ask>(31); });
  FarNodes nodes(1, {.pes = 2, .node_pes = 1, .lanes = 4});
  uint64_t answered = 0;
  ASSERT_TRUE(nodes.run({0}, [&](int) {
    if (Company<Scope::block>::rank() != 0) return;
    const device::SymmState& state = nodes.gpus().state(0);
    for (size_t i = 0; i < bad.size(); ++i) {
      device::FarAsk asked = bad[i];
      if (asked.value == 0) asked.value = reinterpret_cast<uintptr_t>(state.heap);
      device::FarCall call{};
      call.asked = asked;
      call.asked.pe = 0;
      call.asked.pe = asked.pe < device::kFarPesMax ? asked.pe : 0;
      ASSERT_TRUE(device::reserve_entries(state, device::entries_of(asked), call.position));
      if (asked.answer) {
        ASSERT_TRUE(device::take_answer_place(state, call.position));
      }
      const device::FarEntries entries = device::encode(asked);
      if (entries.count == 2) device::write_entry(*state.far, call.position + 1, entries.entry[1]);
      device::write_entry(*state.far, call.position, entries.entry[0]);
      if (!asked.answer) continue;
      EXPECT_FALSE(device::wait_for_answer(state, call));
      EXPECT_EQ(device::failure_of(call), not_reached.count(i) != 0 ? device::kSymmNotReached
                                          : no_pe.count(i) != 0     ? device::kSymmNoSuchPe
                                                                    : device::kSymmNotSymmetric)
          << i;
      ++answered;
    }
  }));
  EXPECT_EQ(nodes.proxy(0).stats().refused, bad.size());
  EXPECT_EQ(answered, bad.size() - 2);
  EXPECT_EQ(nodes.proxy(0).stats().copies, 0U);
  EXPECT_EQ(nodes.trouble(0), 0U);
}

// Each frame of a hostile peer ends what this PE has to do with it, and nothing else happens.
TEST(SymmDeviceFarHostile, loses_a_peer_that_sends_rubbish) {
  const uint64_t heap = SimulatedGpus::kHeapBytes;
  struct Case {
    MailLane lane;
    MailFrame frame;
  };
  const Case cases[] = {
      {MailLane::asked, {.kind = MailKind::put, .bytes = 64, .offset = heap - 63}},
      {MailLane::asked, {.kind = MailKind::put, .bytes = 64, .offset = ~uint64_t{0}}},
      {MailLane::asked, {.kind = MailKind::put, .bytes = 64, .offset = heap - 4097}},
      {MailLane::asked, {.kind = MailKind::put, .bytes = 0, .offset = 0}},
      {MailLane::asked, {.kind = MailKind::put, .bytes = kMailBodyMax + 1, .offset = 0}},
      {MailLane::asked, {.kind = MailKind::put_row, .width_log2 = 3, .bytes = 12, .expected = 1}},
      {MailLane::asked, {.kind = MailKind::put_row, .width_log2 = 60, .bytes = 16, .expected = 1}},
      {MailLane::asked,
       {.kind = MailKind::put_row, .width_log2 = 3, .bytes = 64, .expected = ~uint64_t{0}}},
      {MailLane::asked, {.kind = MailKind::get, .value = kMailBodyMax + 1, .tag = 1}},
      {MailLane::asked, {.kind = MailKind::get, .offset = heap, .value = 1, .tag = 1}},
      {MailLane::asked, {.kind = MailKind::get, .value = 0, .tag = 1}},
      {MailLane::asked, {.kind = MailKind::get, .bytes = 8, .value = 8, .tag = 1}},
      {MailLane::asked,
       {.kind = MailKind::get_row, .width_log2 = 4, .value = 1 << 13, .expected = 1, .tag = 1}},
      {MailLane::asked, {.kind = MailKind::change, .width_log2 = 3, .change = 4, .offset = 4}},
      {MailLane::asked, {.kind = MailKind::change, .width_log2 = 67, .change = 4}},
      {MailLane::asked, {.kind = MailKind::change, .width_log2 = 1, .change = 4}},
      {MailLane::asked, {.kind = MailKind::change, .width_log2 = 3, .change = 8}},
      {MailLane::asked, {.kind = MailKind::got, .bytes = 8}},
      {MailLane::asked, {.kind = static_cast<MailKind>(0)}},
      {MailLane::answered, {.kind = MailKind::got, .bytes = 8, .tag = uint64_t{1} << 32}},
      {MailLane::answered, {.kind = MailKind::changed, .tag = ~uint64_t{0}}},
      {MailLane::answered, {.kind = MailKind::put, .bytes = 8}},
  };
  for (const Case& one : cases) {
    FarNodes nodes(1, {.pes = 3, .node_pes = 1, .lanes = 4});
    const std::vector<char> before(nodes.gpus().state(0).heap,
                                   nodes.gpus().state(0).heap + SimulatedGpus::kHeapBytes);
    nodes.mail().forge(1, 0, one.lane, one.frame, one.frame.bytes);
    nodes.settle();
    EXPECT_TRUE(nodes.proxy(0).is_gone(1)) << static_cast<int>(one.frame.kind);
    EXPECT_FALSE(nodes.proxy(0).is_gone(2));
    EXPECT_EQ(nodes.trouble(0), 1U);
    EXPECT_EQ(std::memcmp(before.data(), nodes.gpus().state(0).heap, before.size()), 0);
  }
}

// Memory behind the heap is open as long as it is adopted, and what is between is not.
TEST(SymmDeviceFarHostile, adopted_memory_is_reached_and_nothing_beside_it) {
  constexpr uint64_t kHeap = SimulatedGpus::kHeapBytes;  // what is behind it is the next PE's
  const std::map<uint64_t, uint64_t> adopted = {
      {kHeap, 4096}, {kHeap + 4096, 4096}, {kHeap + 16384, 4096}};
  struct Case {
    uint64_t offset;
    uint32_t bytes;
    bool is_open;
  };
  for (const Case& one :
       {Case{kHeap, 4096, true}, Case{kHeap + 4000, 200, true}, Case{kHeap + 8191, 1, true},
        Case{kHeap + 8191, 2, false}, Case{kHeap + 8192, 8, false}, Case{kHeap + 16384, 4096, true},
        Case{kHeap + 16383, 8, false}, Case{kHeap + 20480, 1, false}, Case{kHeap - 1, 2, false}}) {
    for (const bool is_adopted : {true, false}) {
      FarNodes nodes(1, {.pes = 3, .node_pes = 1, .lanes = 4});
      nodes.proxy(0).set_adopted(adopted);
      if (!is_adopted) nodes.proxy(0).set_adopted({});
      const MailFrame put = {.kind = MailKind::put, .bytes = one.bytes, .offset = one.offset};
      nodes.mail().forge(1, 0, MailLane::asked, put, one.bytes);
      nodes.settle();
      EXPECT_EQ(nodes.proxy(0).is_gone(1), !is_adopted || !one.is_open) << one.offset - kHeap;
    }
  }
}

}  // namespace
}  // namespace penstock::symm
