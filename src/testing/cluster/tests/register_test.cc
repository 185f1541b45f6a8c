#include <gtest/gtest.h>

#include "penstock/testing_cluster.h"

namespace penstock::test {
namespace {

using Written = Register::Written;

void write(Register& it, uint64_t value, Written how) {
  it.begin_write(value);
  it.end_write(how);
}

bool may_find(Register it, uint64_t value) {
  return it.check(it.begin_read(), value).empty();
}

TEST(RegisterTest, finds_the_last_write_that_succeeded_or_one_begun_since) {
  Register it;
  EXPECT_TRUE(may_find(it, 0));
  write(it, 5, Written::for_now);
  EXPECT_TRUE(may_find(it, 5));
  EXPECT_FALSE(may_find(it, 0));
  EXPECT_FALSE(may_find(it, 6)) << "never written";
  write(it, 6, Written::perhaps);
  EXPECT_TRUE(may_find(it, 5));
  EXPECT_TRUE(may_find(it, 6));
  write(it, 0, Written::for_now);
  EXPECT_TRUE(may_find(it, 0));
  EXPECT_FALSE(may_find(it, 6));
}

TEST(RegisterTest, finds_nothing_older_than_an_earlier_read_has_found) {
  Register it;
  write(it, 5, Written::for_now);
  write(it, 6, Written::perhaps);
  const uint64_t beside = it.begin_read();
  EXPECT_EQ(it.check(it.begin_read(), 6), "");
  EXPECT_FALSE(may_find(it, 5));
  EXPECT_EQ(it.check(beside, 5), "") << "a read that began before the other had ended";
}

TEST(RegisterTest, falls_to_what_is_durable_when_a_node_dies) {
  Register it;
  write(it, 5, Written::durably);
  write(it, 6, Written::for_now);
  write(it, 7, Written::for_now);
  it.die();
  EXPECT_TRUE(may_find(it, 5));
  EXPECT_FALSE(may_find(it, 0));
  // What has survived is there from then on, and may go with the next death.
  EXPECT_EQ(it.check(it.begin_read(), 7), "");
  EXPECT_FALSE(may_find(it, 5));
  it.die();
  EXPECT_TRUE(may_find(it, 5));
}

TEST(RegisterTest, lets_reads_and_writes_that_a_death_came_between_say_less) {
  Register it;
  write(it, 5, Written::for_now);
  const uint64_t begun_at = it.begin_read();
  it.begin_write(6);
  it.die();
  it.end_write(Written::for_now);
  EXPECT_TRUE(may_find(it, 0));
  EXPECT_EQ(it.check(begun_at, 5), "");
  EXPECT_TRUE(may_find(it, 0)) << "5 may have been read before it was lost";
  it.begin_write(7);
  it.die();
  it.end_write(Written::durably);
  EXPECT_FALSE(may_find(it, 6));
}

TEST(RegisterFileTest, counts_a_sync_only_where_no_node_died_meanwhile) {
  const std::string nothing(RegisterFile::kBlock, '\0');
  RegisterFile file(1);
  file.begin_write(0);
  file.end_write(0, true, false);
  const RegisterFile::Sync cut_short = file.begin_sync();
  file.node_died();
  file.end_sync(cut_short, true);
  EXPECT_EQ(file.check(0, file.begin_read(0), nothing), "");

  file.begin_write(0);
  file.end_write(0, true, false);
  const RegisterFile::Sync sync = file.begin_sync();
  file.begin_write(0);
  file.end_write(0, true, false);
  file.end_sync(sync, true);
  file.node_died();
  EXPECT_NE(file.check(0, file.begin_read(0), nothing), "");
  EXPECT_EQ(file.check(0, file.begin_read(0), bytes_of_number(2, RegisterFile::kBlock)), "");
}

TEST(RegisterFileTest, wants_nothing_behind_a_cut_and_whole_blocks_before_it) {
  const std::string nothing(RegisterFile::kBlock, '\0');
  RegisterFile file(2);
  const std::string first = file.begin_write(0);
  file.end_write(0, true);
  const std::string second = file.begin_write(1);
  file.end_write(1, true);
  file.begin_cut(1);
  file.end_cut(1, true);
  EXPECT_EQ(file.check(1, file.begin_read(1), nothing), "");
  EXPECT_NE(file.check(1, file.begin_read(1), second), "");
  EXPECT_NE(file.check(0, file.begin_read(0), nothing), "");
  EXPECT_NE(file.check(0, file.begin_read(0), second), "") << "of another block";
  std::string torn = first;
  torn[4000] = 'x';
  EXPECT_NE(file.check(0, file.begin_read(0), torn), "");
  // Something of the file was durable, so the cut is.
  file.node_died();
  EXPECT_NE(file.check(1, file.begin_read(1), second), "");
}

}  // namespace
}  // namespace penstock::test
