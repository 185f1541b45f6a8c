// The names of a store as text, and brought back: real stores, real losses.
#include <atomic>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <thread>

#include "penstock/testing.h"
#include "penstock/testing_node.h"

namespace penstock::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class MetadataCommand : public testing::Test {
 protected:
  MetadataCommand() {
    fs::create_directories(source_ + "/below/deeper");
    fs::create_directory(source_ + "/empty");
    write_file(source_ + "/below/large", std::string(3'000'001, 'l'));
    write_file(source_ + "/below/odd \n name \xc3\xa9*", "odd");
    for (int i = 0; i < 200; ++i) {
      write_file(source_ + "/below/deeper/" + std::to_string(i), std::to_string(i));
    }
    fs::create_symlink("../below", source_ + "/below/link");
    fs::create_hard_link(source_ + "/below/large", source_ + "/second name");
    fs::permissions(source_ + "/below/large", fs::perms(0640));
  }
  ~MetadataCommand() override { penstock({"down", store_}); }

  void good(const std::vector<std::string>& words, const std::string& text = "") const {
    const Output output = penstock(words);
    EXPECT_EQ(output.exit_code, 0) << words[0] << ": " << output.err;
    EXPECT_THAT(output.out + output.err, HasSubstr(text));
  }
  void bad(const std::vector<std::string>& words, const std::string& text) const {
    const Output output = penstock(words);
    EXPECT_EQ(output.exit_code, 1) << words[0] << ": " << output.out;
    EXPECT_THAT(output.err, HasSubstr(text));
  }
  void up() const { good({"up", store_, "--background"}); }
  void down() const { good({"down", store_}); }
  void make() const {
    good({"up", store_, "--background", "--shards", "2"});
    good({"import", source_, store_ + ":/in", "-q"});
    down();
  }
  void verify() const { good({"verify", source_, store_ + ":/in", "-q"}); }
  void lose_names() const { fs::rename(store_ + "/meta", scratch_ / "lost"); }

  const ScratchDirectory scratch_;
  const std::string store_ = scratch_ / "store";
  const std::string source_ = scratch_ / "source";
  const std::string dump_ = scratch_ / "names.txt";
};

TEST_F(MetadataCommand, brings_names_back_whose_directory_is_lost) {
  make();
  good({"metadata", "dump", store_, dump_}, "dumped " + store_ + ": 208 inodes, 208 names");
  struct stat facts {};
  ASSERT_EQ(::stat(dump_.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
  EXPECT_FALSE(fs::exists(dump_ + ".part"));
  EXPECT_THAT(read_file(dump_), HasSubstr("name=odd\\x20\\x0a\\x20name\\x20\\xc3\\xa9*\n"));
  lose_names();
  bad({"up", store_, "--background"}, "penstock metadata load");
  good({"metadata", "load", dump_, store_}, "loaded " + store_ + ": 208 inodes");
  // What is there is what was dumped, but for the next number.
  const std::string again = scratch_ / "again.txt";
  good({"metadata", "dump", store_, again});
  EXPECT_EQ(read_file(again).size(), read_file(dump_).size());
  up();
  verify();
  good({"scrub", store_}, "0 bad blocks");
  // It goes on.
  good({"import", source_, store_ + ":/more", "-q"});
  good({"verify", source_, store_ + ":/more", "-q"});
}

TEST_F(MetadataCommand, gives_new_files_no_numbers_of_lost_ones) {
  make();
  good({"metadata", "dump", store_, dump_});
  // Files that the dump does not know, with the numbers that come next.
  up();
  const std::string lost = scratch_ / "made since";
  fs::create_directory(lost);
  for (int i = 0; i < 50; ++i) {
    write_file(lost + "/" + std::to_string(i), std::string(100'000, 'x'));
  }
  good({"import", lost, store_ + ":/since", "-q"});
  down();
  lose_names();
  good({"metadata", "load", dump_, store_});
  // New ones that are all holes: bytes that show are those of a lost file.
  const std::string holes = scratch_ / "holes";
  fs::create_directory(holes);
  for (int i = 0; i < 50; ++i) {
    std::ofstream(holes + "/" + std::to_string(i)).close();
    fs::resize_file(holes + "/" + std::to_string(i), 100'000);
  }
  up();
  good({"import", holes, store_ + ":/holes", "-q"});
  good({"verify", holes, store_ + ":/holes", "-q"});
  verify();
}

TEST_F(MetadataCommand, dumps_what_a_killed_node_left) {
  make();
  up();
  good({"import", source_, store_ + ":/more", "-q"});
  const std::string status = penstock({"status", store_, "--json"}).out;
  const size_t at = status.find("\"pid\"");
  ASSERT_NE(at, std::string::npos);
  const pid_t pid = std::atoi(status.c_str() + status.find(':', at) + 1);
  ASSERT_EQ(::kill(pid, SIGKILL), 0);
  ASSERT_TRUE(eventually([&] { return ::kill(pid, 0) != 0; }));
  good({"metadata", "dump", store_, dump_}, "415 inodes");
  lose_names();
  good({"metadata", "load", dump_, store_});
  up();
  verify();
  good({"verify", source_, store_ + ":/more", "-q"});
}

TEST_F(MetadataCommand, dumps_a_running_node_without_stopping_it) {
  make();
  good({"metadata", "dump", store_, dump_});
  up();
  const std::string running = scratch_ / "running.txt";
  good({"metadata", "dump", store_, running}, "208 inodes");
  // At rest it is the same store.
  EXPECT_EQ(read_file(running), read_file(dump_));
  EXPECT_FALSE(fs::exists(store_ + "/meta.checkpoint"));
  // Dumps while files are made: each is of one moment.
  std::atomic<bool> over{false};
  std::thread importer([&] {
    for (int i = 0; !over; ++i) {
      penstock({"import", source_, store_ + ":/again" + std::to_string(i % 3), "-q"});
    }
  });
  for (int i = 0; i < 5; ++i) good({"metadata", "dump", store_, running});
  over = true;
  importer.join();
  verify();
  down();
  lose_names();
  good({"metadata", "load", running, store_});
  up();
  verify();
  good({"scrub", store_}, "0 bad blocks");
}

TEST_F(MetadataCommand, takes_pipes_and_says_counts_as_json) {
  make();
  const Output dumped = penstock({"metadata", "dump", store_});
  EXPECT_EQ(dumped.exit_code, 0) << dumped.err;
  EXPECT_THAT(dumped.out, testing::StartsWith("penstock-metadata 1\n"));
  EXPECT_THAT(dumped.err, HasSubstr("208 inodes"));
  good({"metadata", "dump", store_, dump_, "--json"}, "\"entries\": 208");
  EXPECT_EQ(read_file(dump_), dumped.out);
  lose_names();
  const std::string through_a_pipe = command_path() + " metadata dump " + (scratch_ / "nowhere") +
                                     " | cat; cat " + dump_ + " | " + command_path() +
                                     " metadata load - " + store_ + " --json";
  const Output loaded = run({"/bin/sh", "-c", through_a_pipe});
  EXPECT_EQ(loaded.exit_code, 0) << loaded.err;
  EXPECT_THAT(loaded.out, HasSubstr("\"inodes\": 208"));
  up();
  verify();
}

TEST_F(MetadataCommand, refuses_a_damaged_dump_and_leaves_nothing) {
  make();
  good({"metadata", "dump", store_, dump_});
  lose_names();
  std::string text = read_file(dump_);
  text[text.size() / 2] = static_cast<char>(text[text.size() / 2] ^ 1);
  const std::string damaged = scratch_ / "damaged.txt";
  write_file(damaged, text);
  bad({"metadata", "load", damaged, store_}, "nothing was changed");
  write_file(damaged, text.substr(0, text.size() / 2));
  bad({"metadata", "load", damaged, store_}, "line ");
  EXPECT_FALSE(fs::exists(store_ + "/meta"));
  EXPECT_FALSE(fs::exists(store_ + "/meta.loading"));
  bad({"up", store_, "--background"}, "penstock metadata load");
  good({"metadata", "load", dump_, store_});
  up();
  verify();
}

TEST_F(MetadataCommand, loads_only_where_names_are_missing_and_targets_can_be_read) {
  make();
  good({"metadata", "dump", store_, dump_});
  bad({"metadata", "load", dump_, store_}, "there is a namespace already");
  bad({"metadata", "load", dump_, scratch_ / "nowhere"}, "nowhere");
  bad({"metadata", "load", scratch_ / "none.txt", store_}, "none.txt");
  up();
  bad({"metadata", "load", dump_, store_}, "in use");
  down();
  lose_names();
  const std::string target = store_ + "/targets/1/data/target";
  const std::string kept = read_file(target);
  write_file(target, "damaged");
  bad({"metadata", "load", dump_, store_}, "targets/1");
  EXPECT_FALSE(fs::exists(store_ + "/meta"));
  write_file(target, kept);
  good({"metadata", "load", dump_, store_});
}

TEST_F(MetadataCommand, refuses_the_dump_of_a_store_with_more_targets) {
  make();
  good({"metadata", "dump", store_, dump_});
  const std::string other = scratch_ / "other";
  good({"up", other, "--background"});
  good({"down", other});
  fs::remove_all(other + "/meta");
  bad({"metadata", "load", dump_, other}, "lie on 2 chains, and there are 1");
}

TEST_F(MetadataCommand, does_not_replace_a_dump_by_a_part_of_one) {
  make();
  good({"metadata", "dump", store_, dump_});
  const std::string before = read_file(dump_);
  fs::remove_all(store_ + "/meta");
  bad({"metadata", "dump", store_, dump_}, "there is no database");
  EXPECT_EQ(read_file(dump_), before);
  EXPECT_FALSE(fs::exists(dump_ + ".part"));
  bad({"metadata", "dump", store_, scratch_ / "no/where.txt"}, "no/where.txt");
}

}  // namespace
}  // namespace penstock::test
