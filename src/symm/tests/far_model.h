// A PE's side of a connection, chance, and a model of what one side's requests do to the other's
// memory: over bytes alone, and with a queue pair beside them.
#pragma once

#include "../far_pair.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>

namespace penstock::symm::test {

inline constexpr uint64_t kHeapBytes = 64 << 10;
inline constexpr uint64_t kDataBytes = 4 << 10;

// A PE's memory, and its side of the connection.
struct FarSide {
  // Behind what the peer is asked to change is `own_bytes` of memory that it is not.
  explicit FarSide(uint64_t own_bytes = 0) : heap(kHeapBytes + own_bytes) {}
  MutableBytes own() { return MutableBytes(heap).subspan(kHeapBytes); }

  std::vector<std::byte> heap;
  std::vector<std::byte> data = std::vector<std::byte>(kDataBytes);
  FarStream stream{FarSegments{MutableBytes(heap), MutableBytes(data)}};
  FarPair* pair = nullptr;  // where there is one
};

// Moves some bytes from one side to the other; how many is chance. False: there were none, or what
// came is not taken.
class Wire {
 public:
  explicit Wire(uint64_t seed) : random_(seed) {}

  uint64_t below(uint64_t bound) { return random_() % bound; }

  bool carry(FarSide& from, FarSide& to, Status* taken) {
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

  static Status put_in(FarSide& to, Bytes bytes) {
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
  Asking(FarSide& self, FarSide& peer, Wire& wire) : self_(self), peer_(peer), wire_(wire) {}

  // Whoever has a pair waits for large ones, before he asks for more.
  bool is_blocked() const { return large_.awaited != 0; }

  void ask() {
    if (is_blocked()) return;
    end_large();
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
        return wire_.below(2) == 0 && has_card() ? get_large()
                                                 : get(1 + wire_.below(limits::kFarCopied));
      case 6:
        return get_row();
      default:
        if (self_.stream.may_ask()) self_.stream.flush();
    }
  }
  // What was asked for before is there.
  void check() {
    EXPECT_FALSE(is_blocked());
    end_large();
    for (const auto& each : gets_) EXPECT_EQ(each->dest, each->expected);
    for (const auto& each : changes_) EXPECT_EQ(each->answer.value, each->expected);
    EXPECT_TRUE(std::equal(heap_.begin(), heap_.end(), peer_.heap.begin()));
    EXPECT_EQ(peer_.data, data_);
    EXPECT_EQ(self_.stream.applied(), self_.stream.puts());
    for (const auto& each : gets_) EXPECT_TRUE(each->answer.awaited == 0);
  }
  bool is_awaiting() const {
    if (is_blocked()) return true;
    const auto awaits = [](const auto& each) { return each->answer.awaited != 0; };
    return std::any_of(gets_.begin(), gets_.end(), awaits) ||
           std::any_of(changes_.begin(), changes_.end(), awaits);
  }
  void forget() {
    gets_.clear();
    changes_.clear();
  }
  size_t failed() const {
    size_t count = large_.status.ok() ? 0 : 1;
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

  bool has_card() const { return self_.pair != nullptr && self_.pair->has_moved(); }
  // From or to symmetric memory, or not.
  MutableBytes some_memory(uint64_t bytes) {
    if (wire_.below(2) == 0 && bytes <= self_.own().size())
      return self_.own().subspan(wire_.below(self_.own().size() - bytes + 1), bytes);
    lent_.emplace_back(bytes);
    return lent_.back();
  }
  void put_large(uint64_t bytes) {
    const FarPlace at = place(bytes);
    const MutableBytes source = some_memory(bytes);
    for (std::byte& byte : source) byte = static_cast<std::byte>(wire_.below(256));
    std::copy(source.begin(), source.end(), model(at).begin() + static_cast<ptrdiff_t>(at.offset));
    large_ = {};
    self_.pair->put(at, source, &large_);
  }
  void get_large() {
    const uint64_t bytes = limits::kFarCopied + 1 + wire_.below(30'000);
    const FarPlace at = place(bytes);
    const auto begin = model(at).begin() + static_cast<ptrdiff_t>(at.offset);
    large_expected_.assign(begin, begin + static_cast<ptrdiff_t>(bytes));
    large_dest_ = some_memory(bytes);
    large_ = {};
    self_.pair->get(at, large_dest_, &large_);
  }
  void end_large() {
    if (large_.status.ok()) {
      EXPECT_TRUE(std::equal(large_dest_.begin(), large_dest_.end(), large_expected_.begin()));
    }
    large_dest_ = {};
  }
  void put(uint64_t bytes) {
    if (has_card() && bytes > limits::kFarCopied) return put_large(bytes);
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

  FarSide& self_;
  FarSide& peer_;
  Wire& wire_;
  std::vector<std::byte> heap_ = std::vector<std::byte>(kHeapBytes);
  std::vector<std::byte> data_ = std::vector<std::byte>(kDataBytes);
  std::deque<std::vector<std::byte>> lent_;
  FarAnswer large_;
  MutableBytes large_dest_;
  std::vector<std::byte> large_expected_;
  std::vector<std::unique_ptr<Get>> gets_;
  std::vector<std::unique_ptr<Changed>> changes_;
};

}  // namespace penstock::symm::test
