// Two sides of a connection and what is between them: bytes that come late, in any pieces, or
// never.
#include "far_model.h"

namespace penstock::symm {
namespace {

using test::Asking;
using test::kDataBytes;
using test::kHeapBytes;
using test::Wire;
using Side = test::FarSide;

void carry_all(Side& a, Side& b, Wire& wire) {
  Status taken;
  while (wire.carry(a, b, &taken) | wire.carry(b, a, &taken)) ASSERT_TRUE(taken.ok());
}

TEST(FarStream, does_to_the_peers_memory_what_is_asked_in_order) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Wire wire(seed);
    Side a;
    Side b;
    Asking of_a(a, b, wire);
    Asking of_b(b, a, wire);
    Status taken;
    for (int step = 0; step < 300; ++step) {
      const uint64_t what = wire.below(4);
      if (what == 0) of_a.ask();
      if (what == 1) of_b.ask();
      if (what == 2) wire.carry(a, b, &taken);
      if (what == 3) wire.carry(b, a, &taken);
      ASSERT_TRUE(taken.ok());
    }
    for (Side* side : {&a, &b}) {
      while (!side->stream.may_ask()) carry_all(a, b, wire);
      side->stream.flush();
    }
    carry_all(a, b, wire);
    EXPECT_FALSE(of_a.is_awaiting() || of_b.is_awaiting());
    of_a.check();
    of_b.check();
    if (HasFailure()) return;
  }
}

// Gets of what is not copied: the bytes go from memory to memory.
TEST(FarStream, brings_large_pieces_however_they_are_cut) {
  Wire wire(7);
  Side a;
  Side b;
  for (uint64_t i = 0; i < kHeapBytes; ++i) b.heap[i] = static_cast<std::byte>(i * 7 % 251);
  for (int turn = 0; turn < 50; ++turn) {
    const uint64_t bytes = limits::kFarCopied + 1 + wire.below(kHeapBytes - limits::kFarCopied - 1);
    const uint64_t offset = wire.below(kHeapBytes - bytes + 1);
    std::vector<std::byte> dest(bytes);
    FarAnswer answer;
    a.stream.get({Segment::memory, offset}, dest, &answer);
    EXPECT_EQ(answer.awaited, 1u);
    carry_all(a, b, wire);
    EXPECT_EQ(answer.awaited, 0u);
    EXPECT_TRUE(
        std::equal(dest.begin(), dest.end(), b.heap.begin() + static_cast<ptrdiff_t>(offset)));
  }
}

TEST(FarStream, ends_what_waits_when_the_connection_ends_anywhere) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    Wire wire(seed);
    Side a;
    Side b;
    Asking of_a(a, b, wire);
    for (int step = 0; step < 60; ++step) of_a.ask();
    Status taken;
    for (uint64_t moves = wire.below(60); moves > 0; --moves) {
      wire.carry(a, b, &taken);
      wire.carry(b, a, &taken);
    }
    const bool was_awaiting = of_a.is_awaiting();
    a.stream.end(Code::peer_gone);
    EXPECT_FALSE(of_a.is_awaiting());
    EXPECT_EQ(of_a.failed() != 0, was_awaiting);
    EXPECT_FALSE(a.stream.has_unsent());
    EXPECT_EQ(a.stream.applied(), a.stream.puts());
    // Whatever is asked afterwards goes nowhere.
    of_a.ask();
    EXPECT_FALSE(a.stream.has_unsent());
    a.stream.end(Code::peer_gone);
  }
}

Status say(const FarFrame& frame, uint64_t payload = 0) {
  Side side;
  std::vector<std::byte> bytes(sizeof frame + payload);
  std::memcpy(bytes.data(), &frame, sizeof frame);
  const Status taken = Wire::put_in(side, bytes);
  // Nothing was written.
  EXPECT_EQ(side.heap, std::vector<std::byte>(kHeapBytes));
  return taken;
}

TEST(FarStream, refuses_what_reaches_elsewhere) {
  using K = FarKind;
  const FarFrame wrong[] = {
      {.kind = K::put, .segment = 2, .length = 8},
      {.kind = K::put, .segment = 255, .length = 8},
      {.kind = K::put, .offset = kHeapBytes - 7, .length = 8},
      {.kind = K::put, .offset = UINT64_MAX - 3, .length = 8},
      {.kind = K::put, .offset = 0, .length = UINT64_MAX},
      {.kind = K::put, .segment = 1, .offset = kDataBytes + 1, .length = 0},
      {.kind = K::get, .offset = kHeapBytes, .length = 1},
      {.kind = K::get, .offset = 0, .length = 0},
      {.kind = K::get, .offset = 8, .length = UINT64_MAX - 4},
      {.kind = K::put_row, .count = 0, .length = 8},
      {.kind = K::put_row, .count = 3, .length = 8},
      {.kind = K::put_row, .count = 2, .length = 16, .extra = kHeapBytes - 7},
      {.kind = K::put_row, .count = 4, .length = 16, .extra = UINT64_MAX / 2},
      {.kind = K::put_row, .count = 1, .length = limits::kFarRowBytes + 1},
      {.kind = K::get_row, .count = 2, .length = 16, .extra = kHeapBytes - 7},
      {.kind = K::get_row, .count = UINT32_MAX, .length = UINT32_MAX},
      {.kind = K::get_row, .count = 1, .length = 0},
      {.kind = K::change, .width = 8, .offset = 4},
      {.kind = K::change, .width = 4, .offset = kHeapBytes},
      {.kind = K::change, .width = 3, .offset = 0},
      {.kind = K::change, .op = 8, .width = 8},
      {.kind = K::bytes, .length = 8},
      {.kind = K::value},
      {.kind = K::flushed},
      {.kind = static_cast<K>(0)},
      {.kind = K::card, .op = 5},
      {.kind = static_cast<K>(14)},
  };
  for (const FarFrame& frame : wrong) {
    SCOPED_TRACE(testing::Message() << "frame " << &frame - wrong);
    EXPECT_EQ(say(frame, std::min<uint64_t>(frame.length, 16)).code(), Code::bad_message);
  }
  EXPECT_TRUE(say({.kind = K::put, .offset = kHeapBytes, .length = 0}).ok());
  EXPECT_TRUE(say({.kind = K::get, .offset = kHeapBytes - 8, .length = 8}).ok());
}

TEST(FarStream, takes_no_answer_of_another_length_or_kind) {
  for (const FarFrame& frame :
       {FarFrame{.kind = FarKind::bytes, .length = 9}, FarFrame{.kind = FarKind::value},
        FarFrame{.kind = FarKind::flushed}}) {
    Side side;
    std::vector<std::byte> dest(8);
    FarAnswer answer;
    side.stream.get({}, dest, &answer);
    EXPECT_EQ(Wire::put_in(side, std::as_bytes(std::span(&frame, 1))).code(), Code::bad_message);
    side.stream.end(Code::peer_gone);
    EXPECT_EQ(answer.awaited, 0u);
    EXPECT_EQ(answer.status.code(), Code::peer_gone);
  }
}

// Who asks without reading the answers takes no more memory than one that keeps to the limits may.
TEST(FarStream, gives_up_on_who_asks_and_does_not_read) {
  for (const FarFrame& frame :
       {FarFrame{.kind = FarKind::get, .length = kHeapBytes}, FarFrame{.kind = FarKind::flush},
        FarFrame{.kind = FarKind::get_row, .count = 8, .length = 8192, .extra = 1024}}) {
    Side side;
    Status taken;
    uint64_t asked = 0;
    for (; taken.ok() && asked < 1'000'000; ++asked)
      taken = Wire::put_in(side, std::as_bytes(std::span(&frame, 1)));
    EXPECT_EQ(taken.code(), Code::bad_message);
    EXPECT_GT(asked, limits::kFarAsked);
  }
}

TEST(FarStream, says_good_bye_last) {
  Wire wire(1);
  Side a;
  Side b;
  a.stream.put({}, std::vector<std::byte>(8, std::byte{3}));
  a.stream.say_bye();
  a.stream.put({}, std::vector<std::byte>(8, std::byte{4}));
  carry_all(a, b, wire);
  EXPECT_TRUE(b.stream.has_said_bye());
  EXPECT_EQ(b.heap[0], std::byte{3});
  const FarFrame more{.kind = FarKind::flush};
  EXPECT_EQ(Wire::put_in(b, std::as_bytes(std::span(&more, 1))).code(), Code::bad_message);
}

TEST(FarSecret, is_the_same_only_when_all_of_it_is) {
  FarSecret one{};
  FarSecret other{};
  EXPECT_TRUE(same_secret(one, other));
  for (size_t i = 0; i < kFarSecretBytes; ++i) {
    other = one;
    other[i] = std::byte{128};
    EXPECT_FALSE(same_secret(one, other));
  }
}

}  // namespace
}  // namespace penstock::symm
