// Peers whose cards keep to nothing.
#include "card_side.h"

namespace penstock::symm {
namespace {

using penstock::test::SimDevice;
using penstock::test::SimFabric;
using test::CardSide;
using test::HandClock;
using test::kPartBytes;
using test::Wire;

// One that does what a test says, in the place of b.
class RawPeer {
 public:
  RawPeer(SimFabric& fabric, CardSide& at) : device_(fabric), at_(at), memory_(kBytes) {
    id_ = *device_.create_queue_pair();
    registered_ = *device_.register_memory(memory_, true);
    for (uint64_t i = 0; i < 20; ++i) {
      EXPECT_TRUE(device_.post_receive(i, buffer(i), registered_).ok());
    }
  }
  ~RawPeer() {
    device_.break_queue_pair(id_);
    device_.destroy_queue_pair(id_);
    device_.deregister_memory(registered_);
  }
  MutableBytes buffer(uint64_t index) {
    return MutableBytes(memory_).subspan(index * limits::kFarMessageBytes,
                                         limits::kFarMessageBytes);
  }
  Status say(const FarFrame& frame, Bytes after = {}) {
    std::vector<std::byte> bytes(sizeof frame);
    std::memcpy(bytes.data(), &frame, sizeof frame);
    bytes.insert(bytes.end(), after.begin(), after.end());
    TRY(Wire::put_in(at_, bytes));
    return at_.pair->hear_all();
  }
  Status say(FarCardWord word, FarLack lack = FarLack::none) {
    return say({.kind = FarKind::card,
                .op = static_cast<uint8_t>(word),
                .width = static_cast<uint8_t>(lack)});
  }
  Status offer(uint32_t credits = limits::kFarCredits) {
    const verbs::OfferBytes bytes = verbs::encode_offer({device_.endpoint(id_), credits, 1});
    return say({.kind = FarKind::card, .op = 0}, bytes);
  }
  // Until both have moved; what the other one says by the connection is taken here.
  void join() {
    at_.pair->begin();
    take();
    ASSERT_TRUE(offer().ok());
    const auto other = verbs::decode_offer(Bytes(heard_).subspan(sizeof(FarFrame), 48));
    ASSERT_TRUE(other);
    ASSERT_TRUE(device_.connect(id_, other->endpoint).ok());
    ASSERT_TRUE(say(FarCardWord::ready).ok());
    for (int i = 0; i < 10'000 && at_.pair->has_times() && !has_said(FarCardWord::passed); ++i) {
      ASSERT_TRUE(turn().ok());
      take();
    }
    ASSERT_TRUE(say(FarCardWord::passed).ok());
    ASSERT_TRUE(say(FarCardWord::moved).ok());
    ASSERT_TRUE(at_.pair->has_moved() && at_.pair->has_moved_in());
    take();
  }
  Status turn() {
    std::array<verbs::Completion, 16> done;
    const size_t count = device_.poll(done);
    for (size_t i = 0; i < count; ++i) {
      if (!done[i].status.ok()) failed_ = done[i].status;
    }
    return at_.turn();
  }
  // A message of these bytes; and what its taking comes to.
  Status send(Bytes bytes) {
    std::copy(bytes.begin(), bytes.end(), buffer(20).begin());
    EXPECT_TRUE(device_
                    .post(id_, {.verb = verbs::Verb::send,
                                .local = buffer(20).first(bytes.size()),
                                .memory = registered_})
                    .ok());
    Status status;
    for (int i = 0; i < 3000 && status.ok(); ++i) status = turn();
    return status;
  }
  Status send(FarMessage header, const FarFrame& frame) {
    std::vector<std::byte> bytes(sizeof header + sizeof frame);
    std::memcpy(bytes.data(), &header, sizeof header);
    std::memcpy(bytes.data() + sizeof header, &frame, sizeof frame);
    return send(bytes);
  }
  void write(uint64_t address, uint32_t key, uint64_t bytes) {
    EXPECT_TRUE(device_
                    .post(id_, {.verb = verbs::Verb::write,
                                .local = MutableBytes(memory_).first(bytes),
                                .memory = registered_,
                                .remote_address = address,
                                .key = key})
                    .ok());
    for (int i = 0; i < 3000; ++i) (void)turn();
  }
  // The first frame behind the header of the message in a buffer.
  FarFrame frame_in(uint64_t index) {
    FarFrame frame;
    std::memcpy(&frame, buffer(index).data() + sizeof(FarMessage), sizeof frame);
    return frame;
  }
  Status failed() const { return failed_; }
  std::vector<std::byte>& memory() { return memory_; }

 private:
  static constexpr uint64_t kBytes = 21 * limits::kFarMessageBytes;

  void take() {
    iovec out[8];
    while (at_.unsent() != 0) {
      ASSERT_GT(at_.stream.unsent(out, 8), 0u);
      const uint64_t some = std::min<uint64_t>(at_.unsent(), out[0].iov_len);
      const auto* const from = static_cast<const std::byte*>(out[0].iov_base);
      heard_.insert(heard_.end(), from, from + some);
      at_.stream.sent(some);
    }
  }
  bool has_said(FarCardWord word) const {
    for (size_t at = 0; at + sizeof(FarFrame) <= heard_.size();) {
      FarFrame frame;
      std::memcpy(&frame, heard_.data() + at, sizeof frame);
      if (frame.kind == FarKind::card && frame.op == static_cast<uint8_t>(word)) return true;
      at += sizeof frame + (frame.op == 0 ? limits::kFarOfferBytes : 0);
    }
    return false;
  }

  SimDevice device_;
  CardSide& at_;
  std::vector<std::byte> memory_;
  verbs::QueuePairId id_;
  verbs::MemoryId registered_;
  std::vector<std::byte> heard_;
  Status failed_;
};

class HostilePeerTest : public testing::Test {
 protected:
  void SetUp() override { peer_.join(); }

  HandClock clock_;
  SimFabric fabric_{7};
  CardSide side_{fabric_, clock_};
  RawPeer peer_{fabric_, side_};
};

FarMessage header_of(FarMessage::Kind kind, uint32_t taken = 0) {
  return {taken, kind, {}};
}

TEST_F(HostilePeerTest, is_heard_when_it_says_what_a_peer_says) {
  EXPECT_TRUE(peer_.send(header_of(FarMessage::Kind::bytes, 1), {.kind = FarKind::flush}).ok());
}

TEST_F(HostilePeerTest, is_lost_by_messages_that_are_none) {
  EXPECT_EQ(peer_.send(Bytes(peer_.memory()).first(4)).code(), Code::bad_message);
}

TEST_F(HostilePeerTest, is_lost_by_a_kind_that_is_none) {
  EXPECT_EQ(peer_.send(header_of(static_cast<FarMessage::Kind>(9)), {}).code(), Code::bad_message);
}

TEST_F(HostilePeerTest, is_lost_when_it_has_taken_more_than_was_sent) {
  EXPECT_EQ(peer_.send(header_of(FarMessage::Kind::bytes, 2), {.kind = FarKind::flush}).code(),
            Code::bad_message);
}

TEST_F(HostilePeerTest, is_lost_by_credit_that_is_none) {
  EXPECT_EQ(peer_.send(header_of(FarMessage::Kind::credit, 1), {}).code(), Code::bad_message);
}

TEST_F(HostilePeerTest, is_lost_by_an_empty_message) {
  const FarMessage header = header_of(FarMessage::Kind::bytes);
  EXPECT_EQ(peer_.send(std::as_bytes(std::span(&header, 1))).code(), Code::bad_message);
}

TEST_F(HostilePeerTest, is_lost_when_it_asks_for_windows_that_there_are_not_or_twice) {
  const auto ask = [&](FarFrame frame) {
    frame.kind = FarKind::window_wanted;
    return peer_.send(header_of(FarMessage::Kind::bytes), frame);
  };
  EXPECT_TRUE(ask({.offset = 0}).ok());
  EXPECT_TRUE(ask({.segment = 1, .offset = 0}).ok());
  EXPECT_EQ(ask({.offset = 0}).code(), Code::bad_message);
}

TEST_F(HostilePeerTest, is_lost_when_it_asks_for_windows_beyond_the_end) {
  EXPECT_EQ(peer_
                .send(header_of(FarMessage::Kind::bytes),
                      {.kind = FarKind::window_wanted, .offset = 1000})
                .code(),
            Code::bad_message);
}

TEST_F(HostilePeerTest, is_lost_when_it_shows_windows_that_nobody_wanted) {
  EXPECT_EQ(
      peer_.send(header_of(FarMessage::Kind::bytes), {.kind = FarKind::window, .count = 1}).code(),
      Code::bad_message);
}

TEST_F(HostilePeerTest, is_lost_when_it_refuses_what_it_has_passed) {
  EXPECT_EQ(peer_.say(FarCardWord::refused, FarLack::off).code(), Code::bad_message);
}

// By its window it writes where it may, and not one byte beyond.
TEST_F(HostilePeerTest, writes_within_what_it_is_shown) {
  ASSERT_TRUE(
      peer_.send(header_of(FarMessage::Kind::bytes, 1), {.kind = FarKind::window_wanted}).ok());
  // The trial was the first message.
  const FarFrame shown = peer_.frame_in(1);
  ASSERT_EQ(shown.kind, FarKind::window);
  ASSERT_EQ(shown.count, 1u);
  EXPECT_EQ(shown.length, reinterpret_cast<uintptr_t>(side_.heap.data()));
  std::fill(peer_.memory().begin(), peer_.memory().end(), std::byte{9});
  const auto key = static_cast<uint32_t>(shown.extra);
  peer_.write(shown.length + kPartBytes - 100, key, 100);
  EXPECT_TRUE(peer_.failed().ok());
  EXPECT_EQ(side_.heap[kPartBytes - 1], std::byte{9});
  const std::vector<std::byte> before = side_.heap;
  peer_.write(shown.length + kPartBytes - 100, key, 101);
  EXPECT_EQ(peer_.failed().code(), Code::access_denied);
  EXPECT_EQ(side_.heap, before);
  EXPECT_TRUE(side_.pair->is_broken());
}

TEST_F(HostilePeerTest, writes_nothing_by_a_key_to_read) {
  ASSERT_TRUE(
      peer_.send(header_of(FarMessage::Kind::bytes, 1), {.kind = FarKind::window_wanted}).ok());
  const FarFrame shown = peer_.frame_in(1);
  const std::vector<std::byte> before = side_.heap;
  std::fill(peer_.memory().begin(), peer_.memory().end(), std::byte{9});
  peer_.write(shown.length, static_cast<uint32_t>(shown.extra >> 32), 8);
  EXPECT_EQ(peer_.failed().code(), Code::access_denied);
  EXPECT_EQ(side_.heap, before);
}

TEST(HostileOffer, is_refused) {
  HandClock clock;
  SimFabric fabric{7};
  {
    CardSide side(fabric, clock);
    RawPeer peer(fabric, side);
    side.pair->begin();
    EXPECT_EQ(peer.offer(3).code(), Code::bad_message);
  }
  for (const FarCardWord word : {FarCardWord::passed, FarCardWord::moved}) {
    CardSide side(fabric, clock);
    RawPeer peer(fabric, side);
    side.pair->begin();
    EXPECT_EQ(peer.say(word).code(), Code::bad_message);
  }
  CardSide side(fabric, clock);
  RawPeer peer(fabric, side);
  side.pair->begin();
  EXPECT_EQ(peer.say(FarCardWord::refused, FarLack::none).code(), Code::bad_message);
  // A second one of the same.
  EXPECT_TRUE(peer.say(FarCardWord::ready).ok());
  EXPECT_EQ(peer.say(FarCardWord::ready).code(), Code::bad_message);
}

}  // namespace
}  // namespace penstock::symm
