// How two sides of other releases agree on what they speak.
#include "round_trip.h"

#include <gtest/gtest.h>

#include "penstock/wire.h"

namespace penstock::wire {
namespace {

TEST(SessionVersion, is_the_highest_that_both_speak) {
  EXPECT_EQ(*agree({3, 3, 0}, {3, 3, 0}), (Agreement{3, 0}));
  EXPECT_EQ(agree({3, 5, 0}, {3, 4, 0})->version, 4u) << "an older application";
  EXPECT_EQ(agree({3, 4, 0}, {4, 7, 0})->version, 4u) << "a newer application";
  EXPECT_EQ(agree({2, 9, 0}, {4, 6, 0})->version, 6u);
  EXPECT_EQ(agree({4, 6, 0}, {2, 9, 0})->version, 6u);
}

TEST(SessionVersion, is_refused_when_there_is_none_in_common) {
  EXPECT_EQ(agree({3, 4, 0}, {5, 6, 0}).error(), Code::wrong_version);
  EXPECT_EQ(agree({5, 6, 0}, {3, 4, 0}).error(), Code::wrong_version);
  const std::string newer = no_common_version({3, 4, 0}, {5, 6, 0});
  EXPECT_NE(newer.find("agent is older"), std::string::npos) << newer;
  EXPECT_NE(newer.find("versions 3 to 4"), std::string::npos) << newer;
  EXPECT_NE(newer.find("versions 5 to 6"), std::string::npos) << newer;
  const std::string older = no_common_version({3, 3, 0}, {2, 2, 0});
  EXPECT_NE(older.find("agent is newer"), std::string::npos) << older;
  EXPECT_NE(older.find("the library version 2"), std::string::npos) << older;
}

TEST(SessionVersion, takes_only_features_that_both_have) {
  EXPECT_EQ(agree({3, 3, 0b0110}, {3, 3, 0b1100})->features, 0b0100u);
  EXPECT_EQ(agree({3, 3, 0}, {3, 3, UINT64_MAX})->features, 0u) << "unknown ones are ignored";
}

TEST(SessionVersion, is_not_taken_from_an_agent_that_says_what_was_not_offered) {
  EXPECT_EQ(*agreed({3, 5, 0b11}, {4, 0b01}), (Agreement{4, 0b01}));
  EXPECT_EQ(agreed({3, 5, 0}, {6, 0}).error(), Code::wrong_version);
  EXPECT_EQ(agreed({3, 5, 0}, {2, 0}).error(), Code::wrong_version);
  EXPECT_EQ(agreed({3, 5, 0b11}, {4, 0b100}).error(), Code::wrong_version);
}

TEST(SessionVersion, travels_in_the_hello) {
  const auto back = decode_request(bytes_of(*encode(Request{1, Hello{4, 6, UINT64_MAX}})));
  ASSERT_TRUE(back);
  EXPECT_EQ(std::get<Hello>(back->body).protocol(), (Protocol{4, 6, UINT64_MAX}));
  const auto ours = decode_request(bytes_of(*encode(Request{1, Hello{}})));
  ASSERT_TRUE(ours);
  EXPECT_EQ(std::get<Hello>(ours->body).protocol(), kProtocol);
  EXPECT_FALSE(decode_request(bytes_of(*encode(Request{1, Hello{6, 4, 0}}))));
  EXPECT_FALSE(decode_request(bytes_of(*encode(Request{1, Hello{0, 4, 0}}))));
}

// The bytes of the first message that a library of version 2 sends, and of the answer that it
// understands: both stay as they are for ever.
TEST(SessionVersion, understands_the_hello_of_version_2_and_is_understood) {
  const std::string hello("\x08\x01\x12\x02\x08\x02", 6);
  const auto request = decode_request(bytes_of(hello));
  ASSERT_TRUE(request);
  EXPECT_EQ(std::get<Hello>(request->body).protocol(), (Protocol{2, 2, 0}));
  // Id 1; then the code in the low half of field 2, which version 2 reads as 32 bits; the text.
  const auto refusal = encode(Reply{1, Code::wrong_version, "why", {}});
  ASSERT_TRUE(refusal);
  const std::string code(1, static_cast<char>(Code::wrong_version));
  EXPECT_EQ(*refusal, std::string("\x08\x01\x10", 3) + code + "\x22\x03why");
}

TEST(SessionMessages, skip_fields_that_only_a_newer_side_knows) {
  std::string message = *encode(Request{7, CloseFile{3}});
  message += std::string("\xf8\x3f\x05", 3);      // number 1023, a varint
  message += std::string("\xf2\x3f\x02xx", 5);    // number 1022, two bytes
  message += std::string("\xed\x3f\1\2\3\4", 6);  // number 1021, 32 bits
  const auto back = decode_request(bytes_of(message));
  ASSERT_TRUE(back);
  EXPECT_EQ(std::get<CloseFile>(back->body).file, 3u);
  EXPECT_FALSE(decode_request(bytes_of(message + "\xf8\x3f"))) << "one that is cut";
}

TEST(SessionMessages, are_refused_with_what_no_encoder_writes) {
  const auto is_refused = [](const std::string& message) {
    return !decode_request(bytes_of(message));
  };
  const std::string good("\x08\x07\x62\x02\x08\x03", 6);  // id 7; close file 3
  EXPECT_FALSE(is_refused(good));
  EXPECT_TRUE(is_refused(good + std::string("\x08\x07", 2))) << "an id twice";
  EXPECT_TRUE(is_refused(good + std::string("\x62\x02\x08\x03", 4))) << "two bodies";
  EXPECT_TRUE(is_refused(std::string("\x08\x07\x62\x04\x08\x03\x08\x03", 8))) << "a field twice";
  EXPECT_TRUE(is_refused(std::string("\x08\x07\x62\x03\x0a\x01\x03", 7))) << "bytes for a number";
  EXPECT_TRUE(is_refused(std::string("\x08\x07\x62\x07\x08\x83\x80\x80\x80\x80\x01", 11)))
      << "a number beyond its 32 bits";
  EXPECT_TRUE(is_refused(std::string("\x08\x07\xb2\x02\x02\x08\x02", 7)));
  EXPECT_TRUE(is_refused(std::string("\x08\x07\xfa\x01\x00", 5))) << "an id that must be there";
}

}  // namespace
}  // namespace penstock::wire
