#include "frame_reader.h"

#include <cstring>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace penstock::tcp {
namespace {

// Writes down what it is told, and has a place for payload of calls with an even number.
class Notes final : public FrameReader::Sink {
 public:
  Result<MutableBytes> on_frame(const Header& header, Bytes message) override {
    std::string text(message.size(), ' ');
    if (!message.empty()) std::memcpy(text.data(), message.data(), message.size());
    lines.push_back(fmt::format("frame {} '{}'", header.call, text));
    if (header.call == 99) return Code::access_denied;
    if (header.payload_bytes == 0 || header.call % 2 != 0) return MutableBytes();
    place.assign(header.payload_bytes, std::byte{0});
    return MutableBytes(place);
  }
  Status on_payload(const Header& header) override {
    lines.push_back(fmt::format("payload {} of {}", header.payload_bytes, header.call));
    return Code::ok;
  }
  std::vector<std::string> lines;
  std::vector<std::byte> place;
};

void append(std::vector<std::byte>& stream, Header header, const std::string& message,
            size_t payload) {
  header.message_bytes = static_cast<uint32_t>(message.size());
  header.payload_bytes = static_cast<uint32_t>(payload);
  const HeaderBytes bytes = encode_header(header);
  stream.insert(stream.end(), bytes.begin(), bytes.end());
  const Bytes text = std::as_bytes(std::span(message));
  stream.insert(stream.end(), text.begin(), text.end());
  for (size_t i = 0; i < payload; ++i) stream.push_back(static_cast<std::byte>(i));
}

std::vector<std::byte> some_frames() {
  std::vector<std::byte> stream;
  append(stream, {.kind = FrameKind::response, .call = 1}, "first", 0);
  append(stream, {.kind = FrameKind::ping, .call = 2}, "", 0);
  append(stream, {.kind = FrameKind::data, .call = 3}, "", 100);  // goes nowhere
  append(stream, {.kind = FrameKind::response, .call = 5}, std::string(1024, 'x'), 0);
  append(stream, {.kind = FrameKind::data, .call = 6}, "", 200);
  return stream;
}

void expect_some_frames(const Notes& notes) {
  const std::vector<std::string> expected = {"frame 1 'first'",
                                             "frame 2 ''",
                                             "frame 3 ''",
                                             "payload 100 of 3",
                                             "frame 5 '" + std::string(1024, 'x') + "'",
                                             "frame 6 ''",
                                             "payload 200 of 6"};
  EXPECT_EQ(notes.lines, expected);
  ASSERT_EQ(notes.place.size(), 200u);
  for (size_t i = 0; i < 200; ++i) ASSERT_EQ(notes.place[i], static_cast<std::byte>(i));
}

TEST(FrameReader, finds_the_same_frames_however_the_stream_is_cut) {
  const std::vector<std::byte> stream = some_frames();
  for (const size_t piece : {1ul, 2ul, 47ul, 48ul, 49ul, 53ul, 1000ul, stream.size()}) {
    Notes notes;
    FrameReader reader(notes);
    for (Bytes rest = stream; !rest.empty(); rest = rest.subspan(std::min(piece, rest.size()))) {
      ASSERT_TRUE(reader.take(rest.first(std::min(piece, rest.size()))).ok());
    }
    expect_some_frames(notes);
  }
}

TEST(FrameReader, takes_payload_that_was_received_into_its_place) {
  const std::vector<std::byte> stream = some_frames();
  Notes notes;
  FrameReader reader(notes);
  const Bytes payload = Bytes(stream).last(150);
  ASSERT_TRUE(reader.take(Bytes(stream).first(stream.size() - 150)).ok());
  ASSERT_EQ(reader.place().size(), 150u);
  std::memcpy(reader.place().data(), payload.data(), 70);
  ASSERT_TRUE(reader.placed(70).ok());
  ASSERT_TRUE(reader.take(payload.subspan(70)).ok());
  EXPECT_FALSE(reader.in_payload());
  expect_some_frames(notes);
}

TEST(FrameReader, leaves_a_place_alone_that_was_taken_from_it) {
  const std::vector<std::byte> stream = some_frames();
  Notes notes;
  FrameReader reader(notes);
  ASSERT_TRUE(reader.take(Bytes(stream).first(stream.size() - 150)).ok());
  reader.divert();
  EXPECT_TRUE(reader.place().empty());
  ASSERT_TRUE(reader.take(Bytes(stream).last(150)).ok());
  EXPECT_EQ(notes.lines.back(), "payload 200 of 6");
  EXPECT_EQ(notes.place[100], std::byte{0});
}

TEST(FrameReader, refuses_a_header_before_the_rest_of_it_is_there) {
  Notes notes;
  FrameReader reader(notes);
  std::vector<std::byte> stream;
  append(stream, {.kind = FrameKind::response, .call = 1}, "never comes", 0);
  stream[20] ^= std::byte{1};
  EXPECT_EQ(reader.take(Bytes(stream).first(limits::kHeaderBytes)), Status(Code::bad_message));
  EXPECT_TRUE(notes.lines.empty());
}

TEST(FrameReader, ends_with_what_its_sink_says) {
  Notes notes;
  FrameReader reader(notes);
  std::vector<std::byte> stream;
  append(stream, {.kind = FrameKind::ping, .call = 99}, "", 0);
  append(stream, {.kind = FrameKind::ping, .call = 2}, "", 0);
  EXPECT_EQ(reader.take(stream), Status(Code::access_denied));
  EXPECT_EQ(notes.lines.size(), 1u);
}

}  // namespace
}  // namespace penstock::tcp
