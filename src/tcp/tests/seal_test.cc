#include "seal.h"

#include <cstring>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace penstock::tcp {
namespace {

using tls::limits::kContentMax;
using tls::limits::kRecordExtraBytes;

constexpr uint32_t kPayload = 100'000;

tls::TrafficSecret some_secret(uint8_t seed) {
  std::array<std::byte, tls::TrafficSecret::kBytes> bytes{};
  bytes.fill(static_cast<std::byte>(seed));
  return tls::TrafficSecret(bytes);
}

tls::Secured one_side(uint8_t sends, uint8_t receives) {
  tls::Secured secured;
  secured.sends = some_secret(sends);
  secured.receives = some_secret(receives);
  return secured;
}

// Writes down what it is told, and has a place for each payload.
class SealedNotes final : public FrameReader::Sink {
 public:
  Result<MutableBytes> on_frame(const Header& header, Bytes message) override {
    lines.push_back(fmt::format("frame {}, {} bytes", header.call, message.size()));
    if (header.payload_bytes == 0) return MutableBytes();
    memory.assign(header.payload_bytes + 1, kBehind);
    place = MutableBytes(memory).first(header.payload_bytes);
    return place;
  }
  Status on_payload(const Header& header) override {
    lines.push_back(fmt::format("payload of {}", header.call));
    EXPECT_EQ(memory.back(), kBehind) << "somebody else's memory was written to";
    return Code::ok;
  }
  std::vector<std::byte> placed() const { return {place.begin(), place.end()}; }

  static constexpr std::byte kBehind{0x77};
  std::vector<std::string> lines;
  std::vector<std::byte> memory;
  MutableBytes place;
};

class SealTest : public testing::Test {
 protected:
  SealTest() {
    for (uint32_t i = 0; i < kPayload; ++i) payload_.push_back(static_cast<std::byte>(mix64(i)));
  }

  // Records of some small frames, a large payload, and one more frame.
  std::vector<std::byte> sealed_frames() {
    const std::string message(100, 'x');
    const auto batch = std::make_unique<Batch>();
    batch->append({.kind = FrameKind::response, .call = 1, .message_bytes = 100},
                  std::as_bytes(std::span(message)));
    batch->append({.kind = FrameKind::ping, .call = 2});
    batch->append({.kind = FrameKind::data, .call = 3, .payload_bytes = kPayload});
    batch->append_payload(payload_, owner_);
    batch->append({.kind = FrameKind::ping, .call = 4});
    return seal_all(*batch);
  }
  std::vector<std::byte> seal_all(Batch& batch) {
    std::vector<std::byte> stream;
    std::vector<std::byte> part(3 * (kContentMax + kRecordExtraBytes));
    while (const size_t length = sender_.seal(batch, part)) {
      stream.insert(stream.end(), part.begin(), part.begin() + static_cast<ptrdiff_t>(length));
    }
    batch.end([](engine::Op&) {});
    return stream;
  }
  void expect_frames() {
    const std::vector<std::string> expected = {"frame 1, 100 bytes", "frame 2, 0 bytes",
                                               "frame 3, 0 bytes", "payload of 3",
                                               "frame 4, 0 bytes"};
    EXPECT_EQ(notes_.lines, expected);
    EXPECT_EQ(notes_.placed(), payload_);
  }

  std::vector<std::byte> payload_;
  engine::Op owner_;
  Seal sender_{one_side(1, 2)};
  Seal receiver_{one_side(2, 1)};
  SealedNotes notes_;
  FrameReader reader_{notes_};
};

TEST_F(SealTest, frames_are_the_same_however_the_stream_is_cut) {
  for (const size_t piece : {1ul, 7ul, 1000ul, 16'406ul, 65'536ul, 1'000'000ul}) {
    const std::vector<std::byte> stream = sealed_frames();
    notes_ = {};
    for (Bytes rest = stream; !rest.empty(); rest = rest.subspan(std::min(piece, rest.size()))) {
      ASSERT_TRUE(receiver_.take(rest.first(std::min(piece, rest.size())), reader_).ok());
    }
    expect_frames();
  }
}

TEST_F(SealTest, a_payload_has_come_when_its_last_record_has_proved_to_be_true) {
  const std::vector<std::byte> stream = sealed_frames();
  const size_t last = sizeof(HeaderBytes) + kRecordExtraBytes;  // of the frame behind it
  const Bytes before = Bytes(stream).first(stream.size() - last - 1);
  ASSERT_TRUE(receiver_.take(before, reader_).ok());
  EXPECT_EQ(notes_.lines.back(), "frame 3, 0 bytes");
  ASSERT_TRUE(receiver_.take(Bytes(stream).subspan(before.size(), 1), reader_).ok());
  EXPECT_EQ(notes_.lines.back(), "payload of 3");
}

TEST_F(SealTest, a_changed_stream_ends_before_anybody_believes_it) {
  const std::vector<std::byte> stream = sealed_frames();
  for (size_t at = 0; at < stream.size(); at += 997) {
    std::vector<std::byte> changed = stream;
    changed[at] ^= std::byte{0x40};
    Seal receiver(one_side(2, 1));
    SealedNotes notes;
    FrameReader reader(notes);
    const Status status = receiver.take(changed, reader);
    EXPECT_FALSE(status.ok()) << "byte " << at;
    EXPECT_TRUE(notes.lines.empty() || notes.lines.back() != "frame 4, 0 bytes") << "byte " << at;
  }
}

TEST_F(SealTest, a_diverted_payload_touches_its_place_no_more) {
  const std::vector<std::byte> stream = sealed_frames();
  constexpr size_t kHalf = 50'000;  // in the middle of a record
  ASSERT_TRUE(receiver_.take(Bytes(stream).first(kHalf), reader_).ok());
  reader_.divert();
  std::fill(notes_.place.begin(), notes_.place.end(), std::byte{0x5a});
  ASSERT_TRUE(receiver_.take(Bytes(stream).subspan(kHalf), reader_).ok());
  EXPECT_EQ(notes_.lines.back(), "frame 4, 0 bytes") << "the stream goes on";
  for (const std::byte byte : notes_.place) ASSERT_EQ(byte, std::byte{0x5a});
}

TEST_F(SealTest, both_go_on_with_new_keys) {
  // The other side's own keys are new from the record on in which it says so, and it asks for new
  // ones of ours.
  tls::Sealer other(some_secret(1));
  const std::array<std::byte, 5> update{std::byte{24}, {}, {}, std::byte{1}, std::byte{1}};
  const Bytes content = update;
  std::array<std::byte, 5 + kRecordExtraBytes> record{};
  ASSERT_EQ(other.seal(tls::Content::handshake, {&content, 1}, record), record.size());
  ASSERT_TRUE(receiver_.take(record, reader_).ok());
  other.renew();
  const HeaderBytes header = encode_header({.kind = FrameKind::ping, .call = 9});
  const Bytes frame = header;
  std::array<std::byte, sizeof header + kRecordExtraBytes> sealed{};
  ASSERT_EQ(other.seal(tls::Content::bytes, {&frame, 1}, sealed), sealed.size());
  ASSERT_TRUE(receiver_.take(sealed, reader_).ok());
  EXPECT_EQ(notes_.lines, std::vector<std::string>{"frame 9, 0 bytes"});
  // Ours are new, too, and said to be.
  const auto batch = std::make_unique<Batch>();
  std::vector<std::byte> to(1000);
  EXPECT_EQ(receiver_.seal(*batch, to), 0U) << "new keys of which nothing is said";
  batch->append({.kind = FrameKind::ping, .call = 10});
  const size_t length = receiver_.seal(*batch, to);
  batch->end([](engine::Op&) {});
  ASSERT_TRUE(sender_.take(Bytes(to).first(length), reader_).ok());
  EXPECT_EQ(notes_.lines.back(), "frame 10, 0 bytes");
}

TEST_F(SealTest, new_keys_with_which_nothing_was_said_are_not_renewed_again) {
  tls::Sealer other(some_secret(1));
  const auto send = [&](tls::Content kind, Bytes content) {
    std::vector<std::byte> record(content.size() + kRecordExtraBytes);
    EXPECT_EQ(other.seal(kind, {&content, 1}, record), record.size());
    if (kind == tls::Content::handshake) other.renew();
    return receiver_.take(record, reader_);
  };
  const std::array<std::byte, 5> update{std::byte{24}, {}, {}, std::byte{1}, {}};
  const HeaderBytes header = encode_header({.kind = FrameKind::ping, .call = 9});
  ASSERT_TRUE(send(tls::Content::handshake, update).ok());
  ASSERT_TRUE(send(tls::Content::bytes, header).ok());
  ASSERT_TRUE(send(tls::Content::handshake, update).ok());
  EXPECT_EQ(send(tls::Content::handshake, update), Code::bad_message);
}

TEST_F(SealTest, what_is_waited_for_comes_until_the_payload_is_whole) {
  const std::vector<std::byte> stream = sealed_frames();
  const size_t end = stream.size() - sizeof(HeaderBytes) - kRecordExtraBytes;
  size_t told = 0;
  EXPECT_EQ(receiver_.expected(reader_), 0U);
  for (size_t at = 0; at < stream.size();) {
    const size_t piece = std::min<size_t>(1 + mix64(at) % 3, stream.size() - at);
    ASSERT_TRUE(receiver_.take(Bytes(stream).subspan(at, piece), reader_).ok());
    at += piece;
    const size_t expected = receiver_.expected(reader_);
    if (expected == 0) continue;
    ++told;
    ASSERT_EQ(at + expected, end);
  }
  EXPECT_GT(told, kPayload / 4);
  expect_frames();
}

TEST_F(SealTest, no_more_is_waited_for_than_small_records_bring) {
  tls::Sealer other(some_secret(1));
  std::vector<std::byte> stream;
  const auto send = [&](Bytes content) {
    const size_t at = stream.size();
    stream.resize(at + content.size() + kRecordExtraBytes);
    other.seal(tls::Content::bytes, {&content, 1}, MutableBytes(stream).subspan(at));
  };
  const HeaderBytes header =
      encode_header({.kind = FrameKind::data, .call = 3, .payload_bytes = kPayload});
  send(header);
  for (Bytes rest = payload_; !rest.empty();) {
    // Of which some are not opened into their place.
    const size_t count = std::min<size_t>(1 + mix64(rest.size()) % 2000, rest.size());
    send(rest.first(count));
    rest = rest.subspan(count);
  }
  for (size_t at = 0; at < stream.size(); ++at) {
    ASSERT_LE(at + receiver_.expected(reader_), stream.size());
    ASSERT_TRUE(receiver_.take(Bytes(stream).subspan(at, 1), reader_).ok());
  }
  EXPECT_EQ(notes_.placed(), payload_);
}

TEST_F(SealTest, new_keys_may_come_between_the_records_of_a_payload) {
  tls::Sealer other(some_secret(1));
  const auto send = [&](tls::Content kind, Bytes content) {
    std::vector<std::byte> record(content.size() + kRecordExtraBytes);
    EXPECT_EQ(other.seal(kind, {&content, 1}, record), record.size());
    return receiver_.take(record, reader_);
  };
  const HeaderBytes header =
      encode_header({.kind = FrameKind::data, .call = 3, .payload_bytes = 2000});
  const std::array<std::byte, 5> update{std::byte{24}, {}, {}, std::byte{1}, {}};
  ASSERT_TRUE(send(tls::Content::bytes, header).ok());
  ASSERT_TRUE(send(tls::Content::bytes, Bytes(payload_).first(1000)).ok());
  ASSERT_TRUE(send(tls::Content::handshake, update).ok());
  other.renew();
  ASSERT_TRUE(send(tls::Content::bytes, Bytes(payload_).subspan(1000, 1000)).ok());
  EXPECT_EQ(notes_.lines.back(), "payload of 3");
  EXPECT_TRUE(std::equal(notes_.place.begin(), notes_.place.end(), payload_.begin()));
}

TEST_F(SealTest, what_is_no_record_or_no_message_of_tls_ends_it) {
  const auto take = [](tls::Content kind, std::vector<uint8_t> values) {
    tls::Sealer other(some_secret(1));
    const Bytes content = std::as_bytes(std::span(values));
    std::vector<std::byte> record(content.size() + kRecordExtraBytes);
    EXPECT_EQ(other.seal(kind, {&content, 1}, record), record.size());
    Seal receiver(one_side(2, 1));
    SealedNotes notes;
    FrameReader reader(notes);
    return receiver.take(record, reader);
  };
  EXPECT_EQ(take(tls::Content::alert, {1, 0}), Code::peer_gone);
  EXPECT_EQ(take(tls::Content::alert, {2, 42}), Code::access_denied)
      << "its certificate was refused";
  EXPECT_EQ(take(tls::Content::handshake, {4, 0, 0, 1, 0}), Code::bad_message);
  EXPECT_EQ(take(tls::Content::handshake, {24, 0, 0, 1, 2}), Code::bad_message);
  EXPECT_EQ(take(tls::Content::handshake, std::vector<uint8_t>(600, 24)), Code::bad_message);
  const HeaderBytes plain = encode_header({.kind = FrameKind::ping, .call = 1});
  EXPECT_FALSE(receiver_.take(plain, reader_).ok()) << "a frame that is not sealed";
}

}  // namespace
}  // namespace penstock::tcp
