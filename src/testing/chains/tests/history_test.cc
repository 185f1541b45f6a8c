#include <gtest/gtest.h>

#include "penstock/testing_chains.h"

namespace penstock::test {
namespace {

constexpr History::Register kA{1, 0};

TEST(History, reads_after_a_write_find_it) {
  History history;
  history.end_write(history.begin_write(kA, 7));
  history.end_read(history.begin_read(kA), 7);
  EXPECT_EQ(history.check(), "");
  history.end_read(history.begin_read(kA), 0);
  EXPECT_NE(history.check(), "") << "the first value is gone";
}

TEST(History, an_unknown_write_may_happen_late_or_never_but_not_come_back) {
  History history;
  history.begin_write(kA, 1);
  history.end_read(history.begin_read(kA), 0);
  history.end_write(history.begin_write(kA, 2));
  history.end_read(history.begin_read(kA), 2);
  EXPECT_EQ(history.check(), "");
  history.end_read(history.begin_read(kA), 1);
  EXPECT_EQ(history.check(), "");
  history.end_read(history.begin_read(kA), 2);
  EXPECT_NE(history.check(), "") << "2 was written once";
}

TEST(History, writes_at_the_same_time_have_one_order_for_all) {
  History history;
  const auto a = history.begin_write(kA, 1);
  const auto b = history.begin_write(kA, 2);
  history.end_read(history.begin_read(kA), 1);
  history.end_read(history.begin_read(kA), 2);
  history.end_write(a);
  history.end_write(b);
  EXPECT_EQ(history.check(), "");
  history.end_read(history.begin_read(kA), 1);
  EXPECT_NE(history.check(), "");
}

TEST(History, registers_are_independent) {
  History history;
  history.end_write(history.begin_write({1, 0}, 1));
  history.end_read(history.begin_read({1, 1}), 0);
  history.end_read(history.begin_read({2, 0}), 0);
  EXPECT_EQ(history.check(), "");
}

}  // namespace
}  // namespace penstock::test
