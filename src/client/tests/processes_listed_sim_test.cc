// What programs list on one node of what was made on another.
#include "processes.h"

#include <gtest/gtest.h>

#include "penstock/testing_cluster.h"

namespace penstock::client {
namespace {

constexpr size_t kFiles = 6;

class ProcessesListedTest : public testing::Test {
 protected:
  void SetUp() override {
    all_.start();
    for (size_t i = 0; i < kFiles; ++i) {
      FileSystem* const files = all_.process(0).enter();
      std::string bytes(100 + i, 'b');
      const auto file =
          files->open_path(all_.root, path(i), {.write = true, .create = true}, 0644, {}, nullptr);
      ASSERT_TRUE(file.has_value());
      // Its length is only known where it was written, until somebody asks.
      ASSERT_TRUE(files
                      ->write_soon(*file, 0,
                                   {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()},
                                   nullptr, nullptr)
                      .has_value());
      all_.process(0).leave();
    }
    all_.world.run_for(seconds(2));
  }
  void TearDown() override { all_.stop(); }
  static std::string path(size_t i) { return "/f" + std::to_string(i); }

  void list(bool with_attributes) {
    FileSystem* const files = all_.process(1).enter();
    std::vector<meta::DirectoryEntry> entries;
    ASSERT_TRUE(files->meta()
                    .read_directory(meta::kRootInode, 0, SIZE_MAX, false,
                                    [&](const meta::DirectoryEntry& entry, const auto*) {
                                      entries.push_back(entry);
                                      return true;
                                    })
                    .ok());
    files->listed(meta::kRootInode, entries, with_attributes);
    all_.process(1).leave();
  }
  // How often that asks.
  uint64_t look_at(size_t i) {
    const uint64_t before = all_.process(1).kept().asked;
    Credentials who = all_.root;
    who.enforce = false;  // as for a kernel, which checks itself
    const auto found = all_.process(1).enter()->lookup(who, meta::kRootInode, path(i).substr(1));
    all_.process(1).leave();
    EXPECT_EQ(found ? found->length : 0, 100 + i);
    return all_.process(1).kept().asked - before;
  }

  Processes all_{1, 2, {}};
};

TEST_F(ProcessesListedTest, with_attributes_no_look_asks_any_more) {
  list(true);
  // The hold of the directory came on the way, perhaps too late for names.
  list(true);
  for (size_t i = 0; i < kFiles; ++i) EXPECT_EQ(look_at(i), 0U) << i;
}

TEST_F(ProcessesListedTest, the_second_look_brings_the_others) {
  list(false);
  EXPECT_GT(look_at(0), 0U);
  EXPECT_GE(look_at(1), kFiles - 1);
  // The hold of the directory came with it.
  for (size_t i = 1; i < kFiles; ++i) EXPECT_EQ(look_at(i), 0U) << i;
}

TEST_F(ProcessesListedTest, what_was_listed_long_ago_is_left_alone) {
  list(false);
  (void)look_at(0);
  all_.world.run_for(seconds(11));
  for (size_t i = 1; i < kFiles; ++i) EXPECT_LE(look_at(i), 2U) << i;
}

TEST_F(ProcessesListedTest, paths_that_are_looked_at_together_ask_together) {
  const auto resolve = [&] {
    std::vector<std::string> texts;
    for (size_t i = 0; i < kFiles; ++i) texts.push_back(path(i));
    const std::vector<std::string_view> paths(texts.begin(), texts.end());
    const auto all = all_.process(1).enter()->resolve_many(all_.root, paths, true);
    all_.process(1).leave();
    ASSERT_TRUE(all.has_value());
    for (size_t i = 0; i < kFiles; ++i) EXPECT_EQ(all->at(i)->length, 100 + i);
  };
  const engine::Time begin = all_.world.now();
  resolve();
  const engine::Duration together = all_.world.now() - begin;
  // One of them takes its trips, and six together no more than twice as long.
  FileSystem* const files = all_.process(0).enter();
  ASSERT_TRUE(
      files->open_path(all_.root, "/one", {.write = true, .create = true}, 0644, {}, nullptr)
          .has_value());
  all_.process(0).leave();
  const engine::Time before = all_.world.now();
  ASSERT_TRUE(all_.process(1).enter()->resolve(all_.root, "/one", true).has_value());
  all_.process(1).leave();
  EXPECT_LT(together, 2 * (all_.world.now() - before) + milliseconds(1));
}

// What is kept of a file says nothing of what a program here has changed since.
TEST_F(ProcessesListedTest, lengths_that_only_this_process_knows_are_seen) {
  (void)look_at(0);
  (void)look_at(0);
  FileSystem* const files = all_.process(1).enter();
  FileRef file = *files->open_path(all_.root, path(0), {.write = true}, 0644, {}, nullptr);
  const auto length = [&] { return files->resolve(all_.root, path(0), true)->length; };
  EXPECT_EQ(length(), 100U);
  for (size_t longer = 101; longer < 110; ++longer) {
    std::string bytes(longer, 'l');
    ASSERT_TRUE(files
                    ->write_soon(file, 0,
                                 {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()},
                                 nullptr, nullptr)
                    .has_value());
    EXPECT_EQ(length(), longer);
  }
  file = nullptr;
  EXPECT_EQ(length(), 109U);
  all_.process(1).leave();
}

// A file that another node writes all the time holds nobody up for long, nor does one whose node
// does not answer.
TEST_F(ProcessesListedTest, who_does_not_answer_holds_a_listing_up_for_a_moment) {
  all_.world.stop_process(all_.process(0).node().value);
  const engine::Time begin = all_.world.now();
  list(true);
  EXPECT_LT(all_.world.now() - begin, seconds(2));
  all_.world.continue_process(all_.process(0).node().value);
  for (size_t i = 0; i < kFiles; ++i) (void)look_at(i);
}

}  // namespace
}  // namespace penstock::client
