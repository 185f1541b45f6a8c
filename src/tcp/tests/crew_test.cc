// Threads that help: all is done, once, whoever shares; and records are the same as without them.
#include "crew.h"

#include "seal.h"

#include <array>
#include <gtest/gtest.h>
#include <thread>
#include <vector>

namespace penstock::tcp {
namespace {

using tls::limits::kContentMax;
using tls::limits::kRecordExtraBytes;

TEST(Crew, every_part_is_done_once_by_one_hand_at_a_time) {
  constexpr uint32_t kParts = 40;
  constexpr int kTasks = 2000;
  Crew crew(2);
  // Of whom one at a time is helped.
  std::vector<std::thread> sharers;
  std::array<int, 3> done{};
  for (int& total : done) {
    sharers.emplace_back([&crew, &total] {
      for (int task = 0; task < kTasks; ++task) {
        std::array<int, kParts> times{};
        std::array<std::atomic<bool>, 3> busy{};
        crew.share(kParts, [&](uint32_t part, uint32_t hand) {
          EXPECT_FALSE(busy[hand].exchange(true));
          ++times[part];
          busy[hand] = false;
        });
        for (const int one : times) total += one == 1 ? 1 : 0;
      }
    });
  }
  for (std::thread& sharer : sharers) sharer.join();
  for (const int total : done) EXPECT_EQ(total, kTasks * static_cast<int>(kParts));
}

TEST(Crew, what_is_done_meanwhile_is_done_once_by_who_shares) {
  constexpr int kTasks = 200;
  for (const uint32_t helpers : {0U, 2U}) {
    Crew crew(helpers);
    int meanwhile = 0;
    std::atomic<int> done = 0;
    for (int task = 0; task < kTasks; ++task) {
      crew.share(
          3, [&](uint32_t, uint32_t) { ++done; }, [&] { ++meanwhile; });
    }
    EXPECT_EQ(meanwhile, kTasks);
    EXPECT_EQ(done, 3 * kTasks);
  }
}

TEST(Crew, helpers_do_not_wait_for_what_is_done_meanwhile) {
  Crew crew(1);
  bool began = false;
  for (int i = 0; i < 100 && !began; ++i) {
    std::atomic<bool> helped = false;
    const auto end = engine::system_clock().now() + std::chrono::milliseconds(20);
    crew.share(
        2,
        [&](uint32_t, uint32_t hand) {
          if (hand == 1) helped = true;
        },
        [&] {
          while (!helped && engine::system_clock().now() < end) std::this_thread::yield();
          began = helped;
        });
  }
  EXPECT_TRUE(began);
}

TEST(Crew, helpers_that_sleep_are_called) {
  Crew crew(1);
  bool helped = false;
  for (int i = 0; i < 1000 && !helped; ++i) {
    std::this_thread::sleep_for(2 * limits::kHelperSpin);
    const auto end = engine::system_clock().now() + std::chrono::milliseconds(1);
    crew.share(2, [&](uint32_t, uint32_t hand) {
      while (engine::system_clock().now() < end) {
      }
      if (hand == 1) helped = true;
    });
  }
  EXPECT_TRUE(helped);
}

class SharedRecords : public testing::Test {
 protected:
  // One payload, and its place.
  class Sink final : public FrameReader::Sink {
   public:
    explicit Sink(size_t bytes) : memory(bytes) {}
    Result<MutableBytes> on_frame(const Header& header, Bytes) override {
      if (header.payload_bytes == 0) return MutableBytes();
      return MutableBytes(memory).first(header.payload_bytes);
    }
    Status on_payload(const Header&) override {
      came = true;
      return Code::ok;
    }
    std::vector<std::byte> memory;
    bool came = false;
  };

  SharedRecords() {
    for (size_t i = 0; i < payload_.size(); ++i) payload_[i] = static_cast<std::byte>(mix64(i));
  }
  static tls::Secured one_side(uint8_t sends, uint8_t receives) {
    const auto secret_of = [](uint8_t fill) {
      std::array<std::byte, tls::TrafficSecret::kBytes> bytes{};
      bytes.fill(static_cast<std::byte>(fill));
      return tls::TrafficSecret(bytes);
    };
    tls::Secured secured;
    secured.sends = secret_of(sends);
    secured.receives = secret_of(receives);
    return secured;
  }
  std::vector<std::byte> sealed(Crew* crew) {
    Seal sender(one_side(1, 2));
    sender.share_with(crew);
    const auto batch = std::make_unique<Batch>();
    batch->append({.kind = FrameKind::data,
                   .call = 3,
                   .payload_bytes = static_cast<uint32_t>(payload_.size())});
    batch->append_payload(payload_, owner_);
    batch->append({.kind = FrameKind::ping, .call = 4});
    std::vector<std::byte> stream;
    std::vector<std::byte> part(limits::kSealedBytes);
    while (const size_t length = sender.seal(*batch, part)) {
      stream.insert(stream.end(), part.begin(), part.begin() + static_cast<ptrdiff_t>(length));
    }
    batch->end([](engine::Op&) {});
    return stream;
  }

  std::vector<std::byte> payload_ = std::vector<std::byte>(kMiB - 5);
  engine::Op owner_;
  Crew crew_{2};
};

TEST_F(SharedRecords, are_the_same) {
  EXPECT_EQ(sealed(&crew_), sealed(nullptr));
}

TEST_F(SharedRecords, are_opened_however_the_stream_is_cut) {
  const std::vector<std::byte> stream = sealed(&crew_);
  for (const size_t piece : {100'000ul, 300'000ul, 500'001ul, stream.size()}) {
    Seal receiver(one_side(2, 1));
    receiver.share_with(&crew_);
    Sink sink(payload_.size());
    FrameReader reader(sink);
    for (Bytes rest = stream; !rest.empty(); rest = rest.subspan(std::min(piece, rest.size()))) {
      ASSERT_TRUE(receiver.take(rest.first(std::min(piece, rest.size())), reader).ok());
    }
    EXPECT_TRUE(sink.came);
    EXPECT_EQ(sink.memory, payload_) << "in pieces of " << piece;
  }
}

TEST_F(SharedRecords, that_were_changed_end_the_stream) {
  const std::vector<std::byte> stream = sealed(&crew_);
  for (size_t at = 0; at + 1000 < stream.size(); at += 29'989) {
    std::vector<std::byte> changed = stream;
    changed[at] ^= std::byte{0x40};
    Seal receiver(one_side(2, 1));
    receiver.share_with(&crew_);
    Sink sink(payload_.size());
    FrameReader reader(sink);
    EXPECT_FALSE(receiver.take(changed, reader).ok()) << "byte " << at;
    EXPECT_FALSE(sink.came) << "byte " << at;
  }
}

TEST_F(SharedRecords, of_another_kind_do_not_go_for_bytes) {
  tls::Sealer other(tls::TrafficSecret(one_side(1, 2).sends));
  std::vector<std::byte> stream;
  const auto send = [&](tls::Content kind, Bytes content) {
    const size_t at = stream.size();
    stream.resize(at + content.size() + kRecordExtraBytes);
    other.seal(kind, {&content, 1}, MutableBytes(stream).subspan(at));
  };
  const HeaderBytes header = encode_header(
      {.kind = FrameKind::data, .call = 3, .payload_bytes = static_cast<uint32_t>(kMiB - 5)});
  send(tls::Content::bytes, header);
  for (uint32_t i = 0; i < 2 * limits::kSharedRecordsMin; ++i) {
    const auto kind = i == 3 ? tls::Content::handshake : tls::Content::bytes;
    send(kind, Bytes(payload_).subspan(size_t{i} * kContentMax, kContentMax));
  }
  Seal receiver(one_side(2, 1));
  receiver.share_with(&crew_);
  Sink sink(payload_.size());
  FrameReader reader(sink);
  EXPECT_EQ(receiver.take(stream, reader), Code::bad_message);
}

TEST_F(SharedRecords, of_a_key_that_is_used_up_are_not_taken) {
  tls::Secured sends = one_side(1, 2);
  tls::Secured receives = one_side(2, 1);
  receives.received = tls::limits::kRecordsOfKeyMax - 4;
  tls::Sealer other(sends.sends, receives.received);
  const HeaderBytes header = encode_header(
      {.kind = FrameKind::data, .call = 3, .payload_bytes = static_cast<uint32_t>(kMiB - 5)});
  std::vector<std::byte> stream(header.size() + kRecordExtraBytes);
  Bytes content = header;
  other.seal(tls::Content::bytes, {&content, 1}, stream);
  for (uint32_t i = 0; i < 2 * limits::kSharedRecordsMin; ++i) {
    content = Bytes(payload_).subspan(size_t{i} * kContentMax, kContentMax);
    const size_t at = stream.size();
    stream.resize(at + content.size() + kRecordExtraBytes);
    other.seal(tls::Content::bytes, {&content, 1}, MutableBytes(stream).subspan(at));
  }
  Seal receiver(receives);
  receiver.share_with(&crew_);
  Sink sink(payload_.size());
  FrameReader reader(sink);
  EXPECT_EQ(receiver.take(stream, reader), Code::bad_message);
}

// Also where small frames stand in front, and no whole number of them has room.
TEST_F(SharedRecords, are_cut_by_nothing_but_their_payload) {
  Seal sender(one_side(1, 2));
  const auto batch = std::make_unique<Batch>();
  batch->append({.kind = FrameKind::data, .call = 3, .payload_bytes = 10 * kContentMax + 7});
  batch->append_payload(Bytes(payload_).first(10 * kContentMax + 7), owner_);
  constexpr size_t kRecord = kContentMax + kRecordExtraBytes;
  constexpr size_t kFrame = sizeof(HeaderBytes) + kRecordExtraBytes;
  std::vector<std::byte> part(4 * kRecord);
  EXPECT_EQ(sender.seal(*batch, part), kFrame + 3 * kRecord);
  EXPECT_EQ(sender.seal(*batch, part), 4 * kRecord);
  EXPECT_EQ(sender.seal(*batch, part), 3 * kRecord + 7 + kRecordExtraBytes);
  EXPECT_EQ(sender.seal(*batch, part), 0U);
  batch->end([](engine::Op&) {});
}

TEST(SealedPool, the_second_half_is_for_who_has_none) {
  SealedPool pool(4);
  std::vector<SealedPool::Buffer> taken;
  for (int i = 0; i < 2; ++i) taken.push_back(pool.take_second());
  EXPECT_TRUE(taken[0] != nullptr && taken[1] != nullptr);
  EXPECT_EQ(pool.take_second(), nullptr);
  for (int i = 0; i < 2; ++i) taken.push_back(pool.take());
  EXPECT_TRUE(taken[2] != nullptr && taken[3] != nullptr);
  EXPECT_EQ(pool.take(), nullptr);
  pool.give_back(std::move(taken[0]));
  EXPECT_EQ(pool.take_second(), nullptr);
  EXPECT_NE(pool.take(), nullptr);
}

TEST_F(SharedRecords, what_is_received_ends_with_a_record) {
  const std::vector<std::byte> stream = sealed(nullptr);
  constexpr size_t kRecord = kContentMax + kRecordExtraBytes;
  constexpr size_t kFirst = sizeof(HeaderBytes) + kRecordExtraBytes;
  // In the header of a record, its content, its tag, and between two.
  for (const size_t into : {1ul, 5ul, 6ul, 9000ul, kRecord - 3, kRecord}) {
    Seal receiver(one_side(2, 1));
    Sink sink(payload_.size());
    FrameReader reader(sink);
    ASSERT_TRUE(receiver.take(Bytes(stream).first(kFirst + into), reader).ok());
    const size_t piece = receiver.piece(receiver.expected(reader), limits::kSealedBytes);
    EXPECT_EQ((into + piece) % kRecord, 0U) << into;
    EXPECT_LE(piece, limits::kSealedBytes);
    EXPECT_GT(piece, limits::kSealedBytes - kRecord);
  }
}

}  // namespace
}  // namespace penstock::tcp
