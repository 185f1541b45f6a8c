#include "penstock/symm/size_text.h"

#include <gtest/gtest.h>

namespace penstock::symm {
namespace {

TEST(ParseSize, takes_numbers_with_units) {
  EXPECT_EQ(*parse_size("1"), 1u);
  EXPECT_EQ(*parse_size("20m"), 20971520u);
  EXPECT_EQ(*parse_size("3.1m"), 3250586u);
  EXPECT_EQ(*parse_size("1K"), 1024u);
  EXPECT_EQ(*parse_size("2g"), uint64_t{2} << 30);
  EXPECT_EQ(*parse_size("1.5T"), uint64_t{3} << 39);
  EXPECT_EQ(*parse_size("1e9"), 1000000000u);
  EXPECT_EQ(*parse_size(".5k"), 512u);
  EXPECT_EQ(*parse_size("1.5e1k"), 15360u);
}

TEST(ParseSize, refuses_what_is_no_size) {
  for (const char* text : {"",     "m",   "20kk", "20 m",  "-1",    "+1",   "0",    "0k",  "1x",
                           "0x10", "nan", "inf",  "1e400", "9e18t", "1..2", "1e",   "1e+", " 1",
                           "1 ",   "1i",  "1ib",  "1mi",   "1bm",   "b",    "64MB", "1GiB"}) {
    EXPECT_FALSE(parse_size(text)) << text;
  }
}

}  // namespace
}  // namespace penstock::symm
