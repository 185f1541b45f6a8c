#include <cstring>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "penstock/model.h"

namespace penstock::model {
namespace {

Outcome<Safetensors> parse(const std::string& json, uint64_t data_bytes) {
  return parse_header(json, kLengthBytes + json.size() + data_bytes);
}

TEST(Safetensors, header_tells_each_tensor_and_its_place) {
  const std::string json = R"({"__metadata__":{"format":"pt"},)"
                           R"("b":{"dtype":"F32","shape":[2,3],"data_offsets":[8,32]},)"
                           R"("a":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]},)"
                           R"("scalar":{"dtype":"I8","shape":[],"data_offsets":[32,33]},)"
                           R"("empty":{"dtype":"F64","shape":[0,7],"data_offsets":[33,33]}})";
  const Outcome<Safetensors> parsed = parse(json, 33);
  ASSERT_TRUE(parsed) << parsed.error().message;
  const uint64_t data = kLengthBytes + json.size();
  ASSERT_EQ(parsed->tensors.size(), 4U);
  EXPECT_EQ(parsed->tensors[0].name, "a");
  EXPECT_EQ(parsed->tensors[0].offset, data);
  EXPECT_EQ(parsed->tensors[0].bytes, 8U);
  EXPECT_EQ(parsed->tensors[1].shape, (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(parsed->tensors[1].offset, data + 8);
  EXPECT_EQ(parsed->tensors[2].bytes, 1U);
  EXPECT_EQ(parsed->tensors[3].bytes, 0U);
  EXPECT_EQ(parsed->metadata.at("format"), "pt");
}

TEST(Safetensors, header_that_lies_is_refused_with_the_reason) {
  const struct {
    const char* json;
    uint64_t data;
    const char* reason;
  } rows[] = {
      {"", 0, "not a JSON object"},
      {"[]", 0, "not a JSON object"},
      {"{", 0, "not a JSON object"},
      {R"({"a":1})", 0, "needs dtype"},
      {R"({"a":{"dtype":"F32","shape":[1]}})", 4, "needs dtype"},
      {R"({"a":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}})", 4, "unknown dtype"},
      {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4, "not of its type"},
      {R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", 4, "not of its type"},
      {R"({"a":{"dtype":"F32","shape":"x","data_offsets":[0,4]}})", 4, "not of its type"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4, "not of its type"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4, "do not fit its shape"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "do not fit its shape"},
      {R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}})", 1, "whole bytes"},
      {R"({"a":{"dtype":"F64","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0, "2^64"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2, "gap or an overlap"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
       3, "gap or an overlap"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 2, "end at byte"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
       1, "twice"},
      {R"({"__metadata__":{"a":1}})", 0, "is not a string"},
      {R"({"__metadata__":7})", 0, "not an object"},
      {R"({"__metadata__":{"a":"b\u0000c"}})", 0, "a zero in it"},
      {R"({"__metadata__":{"a\u0000":"b"}})", 0, "a zero in it"},
      {R"({"a\u0000b":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", 0, "a zero in it"},
      {R"({"a":{"dtype":"U8","shape":[[1]],"data_offsets":[0,1]}})", 1, "not of its type"},
      {R"({"a":{"dtype":"U8","shape":{"b":1},"data_offsets":[0,1]}})", 1, "not of its type"},
      {R"({"a":{"dtype":["U8"],"shape":[1],"data_offsets":[0,1]}})", 1, "not of its type"},
      {R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1, "needs dtype"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}} {})", 1, "not a JSON object"},
  };
  for (const auto& row : rows) {
    const Outcome<Safetensors> parsed = parse(row.json, row.data);
    ASSERT_FALSE(parsed) << row.json;
    EXPECT_EQ(parsed.error().status, Code::corrupt);
    EXPECT_NE(parsed.error().message.find(row.reason), std::string::npos) << parsed.error().message;
  }
}

std::string repeated(const char* text, uint64_t bytes) {
  std::string out = text;
  while (out.size() < bytes) out += out;
  return out;
}

// What the process has ever had of memory, in bytes.
uint64_t memory_peak() {
  rusage usage{};
  EXPECT_EQ(::getrusage(RUSAGE_SELF, &usage), 0);
  return static_cast<uint64_t>(usage.ru_maxrss) * kKiB;
}

TEST(Safetensors, long_header_that_says_nothing_takes_no_memory) {
  constexpr uint64_t kBytes = 8 * kMiB;
  const std::string beginnings[] = {R"({"a":)", R"({"a":{"dtype":"U8","shape":)",
                                    R"({"__metadata__":)", ""};
  for (const std::string& begin : beginnings) {
    for (const char* const more : {"[", "[[],[],", "{\"a\":", "[0,0,", "[{},"}) {
      const std::string json = begin + repeated(more, kBytes);
      const uint64_t before = memory_peak();
      EXPECT_FALSE(parse(json, 0));
      EXPECT_LT(memory_peak() - before, 8 * kMiB) << begin << more;
    }
  }
}

TEST(Safetensors, length_of_the_header_is_believed_within_the_file_only) {
  const auto ask = [](uint64_t length, uint64_t file) {
    std::byte first[kLengthBytes];
    std::memcpy(first, &length, sizeof length);
    return header_bytes(first, file);
  };
  EXPECT_EQ(*ask(100, 108), 100U);
  EXPECT_FALSE(ask(101, 108));
  EXPECT_FALSE(ask(UINT64_MAX, 108));
  EXPECT_FALSE(ask(kHeaderBytesMax + 1, UINT64_MAX));
  EXPECT_FALSE(ask(0, 7));
  EXPECT_FALSE(header_bytes({}, 100));
}

TEST(Safetensors, header_that_was_made_is_read_again) {
  std::vector<Tensor> tensors = {
      {.name = "w\"\xc3\xa4", .dtype = "F16", .shape = {3, 5}, .bytes = 30},
      {.name = "x", .dtype = "U8", .shape = {}, .bytes = 1}};
  const std::string header = make_header(&tensors, {{"step", "7"}});
  const Outcome<uint64_t> length =
      header_bytes(std::as_bytes(std::span(header)), header.size() + 31);
  ASSERT_TRUE(length);
  EXPECT_EQ(header.size() % 8, 0U);
  const Outcome<Safetensors> parsed =
      parse_header(std::string_view(header).substr(kLengthBytes), header.size() + 31);
  ASSERT_TRUE(parsed) << parsed.error().message;
  ASSERT_EQ(parsed->tensors.size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(parsed->tensors[i].name, tensors[i].name);
    EXPECT_EQ(parsed->tensors[i].offset, tensors[i].offset);
  }
  EXPECT_EQ(parsed->metadata.at("step"), "7");
}

}  // namespace
}  // namespace penstock::model
