#include <gtest/gtest.h>

#include "penstock/console.h"

namespace penstock::console {
namespace {

TEST(Text, figures_keep_three_digits) {
  EXPECT_EQ(human_bytes(1536), "1.50 KiB");
  EXPECT_EQ(human_bytes(999), "999 B");
  EXPECT_EQ(human_rate(2.31e9), "2.31 GB/s");
  EXPECT_EQ(human_count(52300), "52.3 k");
  EXPECT_EQ(human_count(12), "12");
  EXPECT_EQ(human_duration(65), "1 m 05 s");
}

TEST(Text, a_word_written_wrong_is_near_the_one_that_was_meant) {
  const std::vector<std::string> words = {"up", "down", "status", "mount", "unmount", "import"};
  EXPECT_EQ(nearest_word("umount", words), "unmount");
  EXPECT_EQ(nearest_word("statsu", words), "status");
  EXPECT_EQ(nearest_word("stat", words), "status");
  EXPECT_EQ(nearest_word("imprt", words), "import");
  EXPECT_EQ(nearest_word("donw", words), "down");
  for (const char* other : {"", "x", "ls", "frobnicate", "sauces"}) {
    EXPECT_EQ(nearest_word(other, words), "") << other;
  }
  EXPECT_EQ(nearest_word(std::string(100'000, 'm'), words), "");
}

TEST(Table, aligns_columns_also_with_other_letters) {
  Table table({"name", "µs"});
  table.add({"a", "10"});
  EXPECT_EQ(table.text(), "name  µs\n--------\na     10\n");
}

}  // namespace
}  // namespace penstock::console
