#include "sample_messages.h"

#include <gtest/gtest.h>

#include "penstock/controller.h"

namespace penstock::membership {
namespace {

// The same bytes again, of all fields.
template <class Message, class Decode>
void expect_the_same(const std::vector<Message>& messages, const Decode& decode) {
  size_t kind = 0;
  for (const Message& message : messages) {
    EXPECT_EQ(message.index(), kind);
    const std::string bytes = encode(message);
    const Result<Message> read = decode(bytes, wire::kNodeVersion);
    ASSERT_TRUE(read.has_value()) << kind;
    EXPECT_EQ(read->index(), kind);
    EXPECT_EQ(encode(*read), bytes) << kind;
    ++kind;
  }
  EXPECT_EQ(kind, std::variant_size_v<Message>) << "a kind has no sample";
}

TEST(Messages, are_read_as_they_were_written) {
  expect_the_same(sample_requests(), decode_request);
  expect_the_same(sample_answers(), decode_answer);
}

TEST(Messages, keep_what_a_heartbeat_and_a_join_say) {
  const auto requests = sample_requests();
  const auto join = decode_request(encode(requests[0]));
  ASSERT_TRUE(join.has_value());
  EXPECT_EQ(std::get<controller::Join>(*join).facts, std::get<controller::Join>(requests[0]).facts);
  const auto beat = decode_request(encode(requests[2]));
  ASSERT_TRUE(beat.has_value());
  const auto& heartbeat = std::get<controller::Heartbeat>(*beat);
  EXPECT_EQ(heartbeat.from.sequence, 3U);
  EXPECT_EQ(heartbeat.answered, 2U);
  EXPECT_TRUE(heartbeat.targets.at(0).failing);
  EXPECT_EQ(heartbeat.reports.at(0).version.value, 9U);
  EXPECT_EQ(heartbeat.accused.at(0), NodeId{2});
}

TEST(Messages, are_refused_when_a_byte_is_missing_added_or_changed) {
  for (const Request& request : sample_requests()) {
    const std::string bytes = encode(request);
    for (size_t i = 0; i < bytes.size(); ++i) {
      EXPECT_EQ(decode_request(bytes.substr(0, i)).error(), Code::bad_message);
      std::string changed = bytes;
      changed[i] = static_cast<char>(changed[i] ^ 0x10);
      EXPECT_FALSE(decode_request(changed).has_value());
    }
    EXPECT_EQ(decode_request(bytes + '\0').error(), Code::bad_message);
  }
}

// With a checksum that fits: what is wrong is what the message says.
std::string sealed(std::string_view body) {
  controller::Writer writer(static_cast<uint8_t>(body[0]));
  for (const char byte : body.substr(1)) writer.word(static_cast<uint8_t>(byte));
  return writer.take();
}
std::string body_of(const std::string& bytes) {
  return bytes.substr(0, bytes.size() - sizeof(uint32_t));
}

TEST(Messages, are_refused_when_they_say_what_cannot_be) {
  std::string plan = body_of(encode(Request(controller::TablePlan{3, {}, false, 8})));
  ASSERT_TRUE(decode_request(sealed(plan)).has_value());
  plan[2] = 7;  // copies
  EXPECT_EQ(decode_request(sealed(plan)).error(), Code::bad_message);

  std::string ask = body_of(encode(Request(AskMap{})));
  ASSERT_TRUE(decode_request(sealed(ask)).has_value());
  ask[10] = 'L';  // the lease is no part of the map
  EXPECT_EQ(decode_request(sealed(ask)).error(), Code::bad_message);

  std::string beat = body_of(encode(Request(controller::Heartbeat{})));
  const size_t targets_at = 2 + 4 + 8 + 8 + 8 + 8;  // how many, behind the fields before the list
  const auto with_targets = [&](size_t count) {
    std::string many = beat;
    many[targets_at] = static_cast<char>(count);
    many[targets_at + 1] = static_cast<char>(count >> 8);
    return sealed(many.insert(targets_at + 2, count * 22, '\0'));
  };
  ASSERT_TRUE(decode_request(with_targets(limits::kTargetsPerNode)).has_value());
  EXPECT_FALSE(decode_request(with_targets(limits::kTargetsPerNode + 1)).has_value());

  std::string later = body_of(encode(Request(AskHealth{})));
  later[0] = 2;
  EXPECT_EQ(decode_request(sealed(later)).error(), Code::wrong_version);
  later[0] = 1;
  later[1] = std::variant_size_v<Request>;
  EXPECT_EQ(decode_request(sealed(later)).error(), Code::bad_message);
}

TEST(Messages, of_all_that_a_node_may_have_fit) {
  using namespace limits;  // NOLINT
  controller::Heartbeat full;
  full.targets.resize(kTargetsPerNode);
  full.reports.resize(kReportsPerHeartbeat);
  full.accused.resize(kAccusedPerHeartbeat);
  EXPECT_TRUE(decode_request(encode(Request(full))).has_value());
  controller::Refused refused{Code::busy, std::string(5000, 'x')};
  const auto read = decode_answer(encode(Answer(refused)));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(std::get<controller::Refused>(*read).reason.size(), kReasonBytesMax);
}

template <class Struct>
Bytes bytes_of(const Struct& message) {
  return {reinterpret_cast<const std::byte*>(&message), sizeof message};
}

TEST(MembershipCall, is_refused_when_a_length_or_the_version_cannot_be) {
  using namespace wire;  // NOLINT
  const auto asked = [](uint32_t version, uint32_t length) {
    return decode_membership_request(bytes_of(MembershipRequest{version, length})).error();
  };
  const MembershipRequest good{kNodeVersion, kMembershipBytesMax};
  EXPECT_EQ(decode_membership_request(bytes_of(good))->length, kMembershipBytesMax);
  EXPECT_EQ(asked(kNodeVersion + 1, 1), Code::wrong_version);
  EXPECT_EQ(asked(0, 1), Code::wrong_version);
  EXPECT_EQ(asked(1, 0), Code::bad_message);
  EXPECT_EQ(asked(1, kMembershipBytesMax + 1), Code::bad_message);
  EXPECT_EQ(decode_membership_request(bytes_of(good).first(7)).error(), Code::bad_message);

  const auto answered = [](const MembershipResponse& response, bool has_answer = true) {
    const auto decoded = decode_membership_response(bytes_of(response), has_answer);
    return decoded ? Code::ok : decoded.error().code();
  };
  EXPECT_EQ(answered({1, 1, 1}), Code::ok);
  EXPECT_EQ(answered({1, 3, 900}), Code::ok) << "of a later release";
  EXPECT_EQ(answered({0, 1, 1}), Code::bad_message);
  EXPECT_EQ(answered({kMembershipBytesMax + 1, 1, 1}), Code::bad_message);
  EXPECT_EQ(answered({1, 0, 1}), Code::bad_message);
  EXPECT_EQ(answered({1, 2, 1}), Code::bad_message);
  EXPECT_EQ(answered({0, 2, 3}, false), Code::ok);
  EXPECT_EQ(answered({1, 2, 3}, false), Code::bad_message);
}

TEST(Membership, messages_say_in_which_version_they_are) {
  const Request asked = AskMap{controller::MapVersion{5}, {}};
  const std::string first = encode(asked, 1);
  const std::string second = encode(asked, 2);
  EXPECT_TRUE(decode_request(first, 1).has_value());
  EXPECT_TRUE(decode_request(second, 2).has_value());
  EXPECT_EQ(decode_request(second, 1).error(), Code::wrong_version);
  EXPECT_EQ(decode_request(first, 2).error(), Code::bad_message) << "the call said 2";
}

}  // namespace
}  // namespace penstock::membership
