// Two sides of a connection and what is between them: bytes that come late, in any pieces, or
// never.
#include "../far_stream.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>

namespace penstock::symm {
namespace {

constexpr uint64_t kHeapBytes = 64 << 10;
constexpr uint64_t kDataBytes = 4 << 10;

// A PE's memory, and its side of the connection.
struct Side {
  std::vector<std::byte> heap = std::vector<std::byte>(kHeapBytes);
  std::vector<std::byte> data = std::vector<std::byte>(kDataBytes);
  FarStream stream{FarSegments{MutableBytes(heap), MutableBytes(data)}};
};

// Moves some bytes from one side to the other; how many is chance. False: there were none, or what
// came is not taken.
class Wire {
 public:
  explicit Wire(uint64_t seed) : random_(seed) {}

  uint64_t below(uint64_t bound) { return random_() % bound; }

  bool carry(Side& from, Side& to, Status* taken) {
    iovec out[4];
    const uint32_t pieces = from.stream.unsent(out, 1 + static_cast<uint32_t>(below(4)));
    uint64_t left = 0;
    for (uint32_t i = 0; i < pieces; ++i) left += out[i].iov_len;
    if (left == 0) return false;
    left = std::min(left, 1 + below(below(3) == 0 ? 60'000 : 200));
    std::vector<std::byte> bytes;
    for (uint32_t i = 0; i < pieces && bytes.size() < left; ++i) {
      const auto* const at = static_cast<const std::byte*>(out[i].iov_base);
      bytes.insert(bytes.end(), at, at + std::min(out[i].iov_len, left - bytes.size()));
    }
    from.stream.sent(left);
    *taken = put_in(to, bytes);
    return taken->ok();
  }

  static Status put_in(Side& to, Bytes bytes) {
    while (!bytes.empty()) {
      iovec in[2];
      const uint32_t rooms = to.stream.room(in);
      uint64_t placed = 0;
      for (uint32_t i = 0; i < rooms && !bytes.empty(); ++i) {
        const size_t some = std::min(in[i].iov_len, bytes.size());
        std::memcpy(in[i].iov_base, bytes.data(), some);
        bytes = bytes.subspan(some);
        placed += some;
      }
      TRY(to.stream.received(placed));
    }
    return {};
  }

 private:
  std::mt19937_64 random_;
};

// One side asks for everything; the model has what the other side's memory must be.
class Asking {
 public:
  Asking(Side& self, Side& peer, Wire& wire) : self_(self), peer_(peer), wire_(wire) {}

  void ask() {
    switch (wire_.below(8)) {
      case 0:
      case 1:
        return put(1 + wire_.below(wire_.below(4) == 0 ? 30'000 : 300));
      case 2:
        return put_row();
      case 3:
      case 4:
        return change();
      case 5:
        return get(1 + wire_.below(limits::kFarCopied));
      case 6:
        return get_row();
      default:
        if (self_.stream.may_ask()) self_.stream.flush();
    }
  }
  // What was asked for before is there.
  void check() {
    for (const auto& each : gets_) EXPECT_EQ(each->dest, each->expected);
    for (const auto& each : changes_) EXPECT_EQ(each->answer.value, each->expected);
    EXPECT_EQ(peer_.heap, heap_);
    EXPECT_EQ(peer_.data, data_);
    EXPECT_EQ(self_.stream.applied(), self_.stream.puts());
    for (const auto& each : gets_) EXPECT_TRUE(each->answer.awaited == 0);
  }
  bool is_awaiting() const {
    const auto awaits = [](const auto& each) { return each->answer.awaited != 0; };
    return std::any_of(gets_.begin(), gets_.end(), awaits) ||
           std::any_of(changes_.begin(), changes_.end(), awaits);
  }
  void forget() {
    gets_.clear();
    changes_.clear();
  }
  size_t failed() const {
    size_t count = 0;
    for (const auto& each : gets_) count += each->answer.status.ok() ? 0 : 1;
    for (const auto& each : changes_) count += each->answer.status.ok() ? 0 : 1;
    return count;
  }

 private:
  struct Get {
    std::vector<std::byte> dest;
    std::vector<std::byte> expected;
    FarAnswer answer;
  };
  struct Changed {
    uint64_t expected;
    FarAnswer answer;
  };

  std::vector<std::byte>& model(FarPlace place) {
    return place.segment == Segment::memory ? heap_ : data_;
  }
  FarPlace place(uint64_t bytes, uint64_t alignment = 1) {
    const bool is_data = bytes <= kDataBytes && wire_.below(3) == 0;
    const uint64_t room = (is_data ? kDataBytes : kHeapBytes) - bytes;
    return {is_data ? Segment::data : Segment::memory,
            wire_.below(room + 1) / alignment * alignment};
  }
  std::vector<std::byte> some_bytes(uint64_t count) {
    std::vector<std::byte> bytes(count);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(wire_.below(256));
    return bytes;
  }

  void put(uint64_t bytes) {
    const FarPlace at = place(bytes);
    lent_.push_back(some_bytes(bytes));
    std::copy(lent_.back().begin(), lent_.back().end(),
              model(at).begin() + static_cast<ptrdiff_t>(at.offset));
    if (wire_.below(2) == 0) {
      self_.stream.put(at, lent_.back());
    } else {
      self_.stream.put_lent(at, lent_.back());
    }
  }
  FarRow row() {
    FarRow row;
    row.element_bytes = 1 + static_cast<uint32_t>(wire_.below(16));
    row.count = 1 + wire_.below(20);
    row.stride = row.element_bytes + wire_.below(20);
    return row;
  }
  static uint64_t reach(const FarRow& row) {
    return (row.count - 1) * row.stride + row.element_bytes;
  }
  void put_row() {
    const FarRow each = row();
    const FarPlace at = place(reach(each));
    const auto packed = some_bytes(each.count * each.element_bytes);
    for (uint64_t i = 0; i < packed.size(); ++i) {
      model(at)[at.offset + i / each.element_bytes * each.stride + i % each.element_bytes] =
          packed[i];
    }
    self_.stream.put_row(at, each, packed);
  }
  void get_row() {
    if (!self_.stream.may_ask()) return;
    const FarRow each = row();
    const FarPlace at = place(reach(each));
    auto& get = *gets_.emplace_back(std::make_unique<Get>());
    get.dest.resize(each.count * each.element_bytes);
    for (uint64_t i = 0; i < get.dest.size(); ++i) {
      get.expected.push_back(
          model(at)[at.offset + i / each.element_bytes * each.stride + i % each.element_bytes]);
    }
    self_.stream.get_row(at, each, get.dest, &get.answer);
  }
  void get(uint64_t bytes) {
    if (!self_.stream.may_ask()) return;
    const FarPlace at = place(bytes);
    auto& get = *gets_.emplace_back(std::make_unique<Get>());
    get.dest.resize(bytes);
    const auto begin = model(at).begin() + static_cast<ptrdiff_t>(at.offset);
    get.expected.assign(begin, begin + static_cast<ptrdiff_t>(bytes));
    self_.stream.get(at, get.dest, &get.answer);
  }
  void change() {
    const FarPlace at = place(8, 8);
    Change change;
    change.op = static_cast<AtomicOp>(wire_.below(8));
    change.width = wire_.below(2) == 0 ? 8 : 4;
    change.operand = wire_.below(UINT64_MAX);
    uint64_t before = 0;
    std::memcpy(&before, &model(at)[at.offset], change.width);
    change.expected = wire_.below(2) == 0 ? before : wire_.below(1000);
    const uint64_t mask = change.width == 8 ? UINT64_MAX : UINT32_MAX;
    const uint64_t after = result(change, before) & mask;
    std::memcpy(&model(at)[at.offset], &after, change.width);
    if (wire_.below(2) == 0 || !self_.stream.may_ask()) return self_.stream.change(at, change);
    auto& made = *changes_.emplace_back(std::make_unique<Changed>());
    made.expected = change.op == AtomicOp::set ? 0 : before;
    self_.stream.change(at, change, &made.answer);
  }
  static uint64_t result(const Change& change, uint64_t before) {
    switch (change.op) {
      case AtomicOp::fetch:
        return before;
      case AtomicOp::set:
      case AtomicOp::swap:
        return change.operand;
      case AtomicOp::compare_swap:
        return before == change.expected ? change.operand : before;
      case AtomicOp::add:
        return before + change.operand;
      case AtomicOp::bit_and:
        return before & change.operand;
      case AtomicOp::bit_or:
        return before | change.operand;
      case AtomicOp::bit_xor:
        return before ^ change.operand;
    }
    return before;
  }

  Side& self_;
  Side& peer_;
  Wire& wire_;
  std::vector<std::byte> heap_ = std::vector<std::byte>(kHeapBytes);
  std::vector<std::byte> data_ = std::vector<std::byte>(kDataBytes);
  std::deque<std::vector<std::byte>> lent_;
  std::vector<std::unique_ptr<Get>> gets_;
  std::vector<std::unique_ptr<Changed>> changes_;
};

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
      {.kind = static_cast<K>(11)},
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
