#include "sizes.h"

#include <gtest/gtest.h>
#include <string>
#include <utility>
#include <vector>

namespace penstock::apps {
namespace {

// What the command line gets from `text`; empty if it is refused.
std::string bytes_of(std::string text) {
  const std::string error = byte_size()(text);
  return error.empty() ? text : "";
}

TEST(Sizes, parse_with_and_without_unit) {
  const std::vector<std::pair<std::string, std::string>> sizes = {
      {"0", "0"},         {"4096", "4096"},    {"4096b", "4096"},  {"4k", "4096"},
      {"64KiB", "65536"}, {"64 KiB", "65536"}, {"1MB", "1048576"}, {"2g", "2147483648"},
      {"010", "10"},      {"008k", "8192"},    {"00", "0"},        {"3TiB", "3298534883328"},
  };
  for (const auto& [text, expected] : sizes) EXPECT_EQ(bytes_of(text), expected) << text;
}

TEST(Sizes, are_refused_when_malformed_or_too_large) {
  for (const char* text : {"", "k", "4x", "4kk", "-1", "-1k", "+1", "0x10", "1.5g", "4 4k", "4k4",
                           "18446744073709551616", "99999999999999999999", "99999999999g"}) {
    EXPECT_EQ(bytes_of(text), "") << text;
  }
}

TEST(Sizes, of_a_chunk_are_powers_of_two_within_bounds) {
  const auto refused = [](std::string text) { return !chunk_size()(text).empty(); };
  for (const char* text : {"64KiB", "1m", "64MiB", "65536"}) EXPECT_FALSE(refused(text)) << text;
  for (const char* text : {"32KiB", "128MiB", "100000", "1x", "0"}) {
    EXPECT_TRUE(refused(text)) << text;
  }
}

}  // namespace
}  // namespace penstock::apps
