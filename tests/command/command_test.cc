// The command as people meet it: real processes, real stores, real damage.

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "penstock/base.h"
#include "penstock/testing.h"
#include "penstock/testing_node.h"

namespace penstock::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

// Starts a node in the background and makes sure that it ends with the test.
class Node {
 public:
  explicit Node(std::string directory, std::vector<std::string> more = {})
      : directory_(std::move(directory)) {
    std::vector<std::string> arguments = {"up", directory_, "--background"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    output = penstock(arguments);
  }
  ~Node() {
    if (running()) down();
  }
  bool running() const { return penstock({"status", directory_}).exit_code == 0; }
  Output down() const { return penstock({"down", directory_}); }
  pid_t pid() const {
    const std::string text = penstock({"status", directory_, "--json"}).out;
    const size_t at = text.find("\"pid\"");
    return at == std::string::npos ? 0 : std::atoi(text.c_str() + text.find(':', at) + 1);
  }
  void kill_hard() const {
    const pid_t process = pid();
    ASSERT_GT(process, 0);
    ASSERT_EQ(::kill(process, SIGKILL), 0);
    EXPECT_TRUE(eventually([&] { return ::kill(process, 0) != 0; }));
  }
  Output output;

 private:
  const std::string directory_;
};

class CommandTest : public testing::Test {
 protected:
  // A small tree with one of everything that a tree may hold.
  void make_tree() {
    fs::create_directories(source_ + "/deep/er/still");
    fs::create_directory(source_ + "/empty");
    write_file(source_ + "/empty file", "");
    write_file(source_ + "/a line", "one\n");
    std::string large(3'000'001, '\0');
    for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 2654435761u >> 13);
    write_file(source_ + "/deep/large", large);
    write_file(source_ + "/deep/er/-odd \n name \xc3\xa9*", "odd");
    fs::create_symlink("../a line", source_ + "/deep/link");
    fs::create_symlink("nowhere", source_ + "/dangling");
    fs::create_hard_link(source_ + "/deep/large", source_ + "/deep/er/still/second name");
    fs::permissions(source_ + "/a line", fs::perms(0640));
    fs::permissions(source_ + "/empty", fs::perms(01777));
    std::ofstream(source_ + "/sparse").close();
    fs::resize_file(source_ + "/sparse", 50'000'000);
    std::fstream(source_ + "/sparse", std::ios::in | std::ios::out).seekp(20'000'000) << "middle";
  }

  const ScratchDirectory scratch_;
  const std::string store_ = scratch_ / "store";
  const std::string source_ = scratch_ / "source";
};

TEST_F(CommandTest, version_and_help_end_well) {
  EXPECT_EQ(penstock({"version"}).exit_code, 0);
  const Output help = penstock({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.out, HasSubstr("Running a node"));
}

TEST_F(CommandTest, help_on_a_command_is_what_the_command_says_of_itself) {
  EXPECT_EQ(penstock({"help"}).out, penstock({"--help"}).out);
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"up"}, {"mount"}, {"check"}, {"check", "gpu"}}) {
    std::vector<std::string> asked = {"help"}, itself = words;
    asked.insert(asked.end(), words.begin(), words.end());
    itself.emplace_back("--help");
    const Output help = penstock(asked);
    EXPECT_EQ(help.exit_code, 0) << words[0];
    EXPECT_THAT(help.out, HasSubstr("Usage: penstock " + words[0])) << words[0];
    EXPECT_EQ(help.out, penstock(itself).out) << words[0];
  }
  const Output unknown = penstock({"help", "umount"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("did you mean 'unmount'?"));
  EXPECT_THAT(penstock({"statsu", "/a"}).err, HasSubstr("did you mean 'status'?"));
}

TEST_F(CommandTest, output_that_cannot_be_written_is_a_failure) {
  const int status = std::system((command_path() + " --help >/dev/full 2>/dev/null").c_str());
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1);
}

TEST_F(CommandTest, wrong_usage_exits_with_2) {
  EXPECT_EQ(penstock({}).exit_code, 2);
  const Output unknown = penstock({"frobnicate"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("'frobnicate'"));
  EXPECT_EQ(penstock({"up"}).exit_code, 2);
  EXPECT_EQ(penstock({"up", store_, "--chunk-size", "100k"}).exit_code, 2);
  EXPECT_FALSE(fs::exists(store_));
}

TEST_F(CommandTest, a_node_starts_tells_what_to_do_next_and_stops) {
  Node node(store_);
  ASSERT_EQ(node.output.exit_code, 0) << node.output.err;
  EXPECT_THAT(node.output.out, HasSubstr("penstock import"));
  const Output status = penstock({"status", store_});
  EXPECT_EQ(status.exit_code, 0);
  EXPECT_THAT(status.out, HasSubstr("shard 0"));
  EXPECT_EQ(node.down().exit_code, 0);
  const Output gone = penstock({"status", store_});
  EXPECT_EQ(gone.exit_code, 1);
  EXPECT_THAT(gone.err, HasSubstr("no node is running"));
}

TEST_F(CommandTest, an_asker_that_says_nothing_holds_up_no_other) {
  Node node(store_);
  const std::string path = store_ + "/admin.sock";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path.size(), sizeof address.sun_path);
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  // The server gives each of them five seconds. Who was answered while it still waits for all of
  // them was not held up; a busy machine may need another attempt to show it.
  std::vector<UniqueFd> silent;
  const auto is_answered_beside_them = [&] {
    silent.clear();
    for (int i = 0; i < 3; ++i) {
      UniqueFd& socket = silent.emplace_back(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
      EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    }
    EXPECT_EQ(penstock({"status", store_}).exit_code, 0);
    return std::all_of(silent.begin(), silent.end(), [](const UniqueFd& socket) {
      pollfd ended{socket.get(), POLLIN, 0};
      return ::poll(&ended, 1, 0) == 0;
    });
  };
  EXPECT_TRUE(eventually(is_answered_beside_them));
  EXPECT_EQ(node.down().exit_code, 0);
}

TEST_F(CommandTest, warmup_says_how_much_is_resident) {
  make_tree();
  Node node(store_, {"--cache", "8MiB"});
  ASSERT_EQ(node.output.exit_code, 0) << node.output.err;
  ASSERT_EQ(penstock({"import", source_, store_ + ":/tree", "-q"}).exit_code, 0);
  const Output warmed = penstock({"warmup", store_ + ":/tree/deep/large", "-q"});
  EXPECT_EQ(warmed.exit_code, 0) << warmed.err;
  EXPECT_THAT(warmed.out, HasSubstr("resident: 2.86 MiB of 2.86 MiB, 1 files"));
  EXPECT_THAT(penstock({"status", store_}).out, HasSubstr("cache of"));
  // The sparse file does not fit.
  const Output all = penstock({"warmup", store_ + ":/tree/sparse", "-q"});
  EXPECT_EQ(all.exit_code, 0) << all.err;
  EXPECT_THAT(all.out, HasSubstr("no room for the rest"));
  EXPECT_EQ(penstock({"warmup", store_ + ":/nothing"}).exit_code, 1);
  ASSERT_EQ(node.down().exit_code, 0);
  Node without(store_, {"--cache", "0"});
  const Output none = penstock({"warmup", store_ + ":/tree"});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.err, HasSubstr("the node has no cache"));
}

TEST_F(CommandTest, set_says_what_new_files_get_and_what_is_possible) {
  make_tree();
  Node node(store_, {"--shards", "2"});
  ASSERT_EQ(node.output.exit_code, 0) << node.output.err;
  ASSERT_EQ(penstock({"import", source_, store_ + ":/tree", "-q"}).exit_code, 0);
  const std::string deep = store_ + ":/tree/deep";
  const Output set = penstock({"set", deep, "--chunk", "64K", "--stripe", "1"});
  EXPECT_EQ(set.exit_code, 0) << set.err;
  EXPECT_THAT(set.out,
              HasSubstr("/tree/deep  new files  64.0 KiB       1       1  any        0  0-1"));
  // What is there keeps what it has; what is made below gets it, by way of the directory below.
  ASSERT_EQ(penstock({"import", source_ + "/deep", store_ + ":/tree/deep/new", "-q"}).exit_code, 0);
  const Output shown = penstock({"layout", deep + "/large", deep + "/new/large"});
  EXPECT_THAT(shown.out, HasSubstr("/tree/deep/large      file  4.00 MiB       -"));
  EXPECT_THAT(shown.out, HasSubstr("/tree/deep/new/large  file  64.0 KiB       -"));
  EXPECT_EQ(penstock({"verify", source_ + "/deep", deep + "/new", "-q"}).exit_code, 0);
  const Output copies = penstock({"set", deep, "--copies", "3", "--chunk", "1M"});
  EXPECT_EQ(copies.exit_code, 1);
  EXPECT_THAT(copies.err, HasSubstr("penstock set: /tree/deep: no table of chains has 3 copies; "
                                    "there is: 1 copy (2 chains)"));
  EXPECT_THAT(penstock({"layout", deep}).out, HasSubstr("64.0 KiB")) << "nothing of it happened";
  EXPECT_THAT(penstock({"set", deep + "/large", "--stripe", "1"}).err, HasSubstr("no directory"));
  EXPECT_EQ(penstock({"set", deep, "--stripe", "0"}).exit_code, 2);
  EXPECT_EQ(penstock({"set", deep, "--stripe", "65"}).exit_code, 2);
  EXPECT_EQ(penstock({"set", deep, "--media", "tape"}).exit_code, 2);
  EXPECT_EQ(penstock({"set", deep, "--chunk", "100k"}).exit_code, 2);
  EXPECT_EQ(penstock({"set", deep, "--copies", "9"}).exit_code, 2);
  EXPECT_EQ(penstock({"set", source_, "--stripe", "1"}).exit_code, 1);
  EXPECT_EQ(penstock({"set", deep, "--stripe", "all", "--json"}).exit_code, 0);
  const Output all = penstock({"set", "-R", store_ + ":/", "--chunk", "128K"});
  EXPECT_THAT(all.out, HasSubstr(" directories below, too")) << all.err;
  for (const char* path : {":/", ":/tree", ":/tree/deep", ":/tree/deep/new"}) {
    EXPECT_THAT(penstock({"layout", store_ + path}).out, HasSubstr("new files  128 KiB"));
  }
}

TEST_F(CommandTest, an_imported_tree_equals_its_source_also_after_a_kill) {
  make_tree();
  Node node(store_);
  ASSERT_EQ(node.output.exit_code, 0) << node.output.err;
  const Output import = penstock({"import", source_, store_ + ":/tree", "-q"});
  ASSERT_EQ(import.exit_code, 0) << import.err;
  const Output verify = penstock({"verify", source_, store_ + ":/tree", "-q"});
  EXPECT_EQ(verify.exit_code, 0) << verify.err;
  // Import ends with a sync: a kill loses nothing.
  node.kill_hard();
  Node again(store_);
  ASSERT_EQ(again.output.exit_code, 0) << again.output.err;
  EXPECT_EQ(penstock({"verify", source_, store_ + ":/tree", "-q"}).exit_code, 0);
  EXPECT_EQ(penstock({"scrub", store_}).exit_code, 0);
  // A second import over the first is a refresh.
  write_file(source_ + "/a line", "two\n");
  const Output different = penstock({"verify", source_, store_ + ":/tree", "-q"});
  EXPECT_EQ(different.exit_code, 3);
  EXPECT_THAT(different.err, HasSubstr("a line"));
  EXPECT_EQ(penstock({"import", source_, store_ + ":/tree", "-q"}).exit_code, 0);
  EXPECT_EQ(penstock({"verify", source_, store_ + ":/tree", "-q"}).exit_code, 0);
}

// More than a few requests take, in many sizes, and some with what root alone may give.
void make_small_files(const std::string& source, int count) {
  for (int d = 0; d < 4; ++d) fs::create_directories(source + "/" + std::to_string(d));
  for (int i = 0; i < count; ++i) {
    const std::string path = source + "/" + std::to_string(i % 4) + "/" + std::to_string(i);
    std::string content(static_cast<size_t>(i) * 7919 % 20'000, '\0');
    for (size_t k = 0; k < content.size(); ++k) content[k] = static_cast<char>(k * i >> 3);
    write_file(path, content);
    if (i % 50 == 0) ::chmod(path.c_str(), i % 100 == 0 ? 04755 : 0600);
    if (i % 70 == 0 && ::geteuid() == 0) {
      (void)::lchown(path.c_str(), 1234, 4321);
      ::chmod(path.c_str(), 06755);
    }
  }
}

TEST_F(CommandTest, many_small_files_are_imported_by_two_at_once_and_over_older_ones) {
  constexpr int kFiles = 2'500;
  make_small_files(source_, kFiles);
  Node node(store_);
  ASSERT_EQ(node.output.exit_code, 0) << node.output.err;
  Output outputs[2];
  std::vector<std::thread> importers;
  for (Output& output : outputs) {
    importers.emplace_back([&] { output = penstock({"import", source_, store_ + ":/x", "-q"}); });
  }
  for (std::thread& importer : importers) importer.join();
  for (const Output& output : outputs) EXPECT_EQ(output.exit_code, 0) << output.err;
  const Output both = penstock({"verify", source_, store_ + ":/x", "-q"});
  EXPECT_EQ(both.exit_code, 0) << both.err;
  write_file(source_ + "/3/7", "changed");
  write_file(source_ + "/3/new", "new");
  ASSERT_EQ(penstock({"import", source_, store_ + ":/x", "-q"}).exit_code, 0);
  node.kill_hard();
  Node again(store_);
  ASSERT_EQ(again.output.exit_code, 0) << again.output.err;
  const Output after = penstock({"verify", source_, store_ + ":/x", "-q"});
  EXPECT_EQ(after.exit_code, 0) << after.err;
  EXPECT_EQ(penstock({"scrub", store_}).exit_code, 0);
}

TEST_F(CommandTest, small_files_that_have_no_room_are_told_and_not_there) {
  fs::create_directory(source_);
  for (int i = 0; i < 800; ++i) {
    write_file(source_ + "/" + std::to_string(i), std::string(200'000, static_cast<char>(i)));
  }
  Node node(store_, {"--capacity", "128MiB"});
  ASSERT_EQ(node.output.exit_code, 0) << node.output.err;
  const Output import = penstock({"import", source_, store_ + ":/x"});
  EXPECT_EQ(import.exit_code, 1);
  EXPECT_THAT(import.err, HasSubstr("No space left on device"));
  EXPECT_THAT(import.out, HasSubstr("could not be imported"));
  const Output verify = penstock({"verify", source_, store_ + ":/x", "-q"});
  EXPECT_EQ(verify.exit_code, 3);
  EXPECT_THAT(verify.err, HasSubstr("not in the store"));
  EXPECT_THAT(verify.err, Not(HasSubstr("bytes")));
  EXPECT_THAT(verify.err, Not(HasSubstr("length")));
}

TEST_F(CommandTest, without_io_uring_threads_serve_and_status_says_so) {
  make_tree();
  Node node(store_, {"--no-io-uring"});
  ASSERT_EQ(node.output.exit_code, 0) << node.output.err;
  EXPECT_THAT(penstock({"status", store_}).out, HasSubstr("threads were asked for"));
  const Output import = penstock({"import", source_, store_ + ":/tree", "-q"});
  ASSERT_EQ(import.exit_code, 0) << import.err;
  EXPECT_EQ(penstock({"verify", source_, store_ + ":/tree", "-q"}).exit_code, 0);
}

TEST_F(CommandTest, a_flipped_bit_is_named_by_scrub_and_spoils_nothing_else) {
  fs::create_directory(source_);
  write_file(source_ + "/good", std::string(100'000, 'g'));
  const std::string marked = std::string(100'000, 'b') + "find me" + std::string(100'000, 'b');
  write_file(source_ + "/bad", marked);
  {
    Node node(store_);
    ASSERT_EQ(penstock({"import", source_, store_ + ":/x", "-q"}).exit_code, 0);
    ASSERT_EQ(node.down().exit_code, 0);
  }
  bool flipped = false;
  for (const auto& file : fs::recursive_directory_iterator(store_)) {
    if (!file.path().filename().string().starts_with("data-")) continue;
    std::string content = read_file(file.path());
    const size_t at = content.find("find me");
    if (at == std::string::npos) continue;
    std::fstream stream(file.path(), std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(static_cast<std::streamoff>(at));
    stream.put('F');
    flipped = true;
  }
  ASSERT_TRUE(flipped);
  Node node(store_);
  const Output scrub = penstock({"scrub", store_});
  EXPECT_EQ(scrub.exit_code, 3);
  EXPECT_THAT(scrub.out, HasSubstr("/x/bad"));
  EXPECT_THAT(scrub.out, Not(HasSubstr("/x/good")));
  const Output verify = penstock({"verify", source_, store_ + ":/x", "-q"});
  EXPECT_EQ(verify.exit_code, 3);
  EXPECT_THAT(verify.err, HasSubstr("Input/output error"));
  EXPECT_THAT(verify.err, Not(HasSubstr("/good")));
  EXPECT_THAT(read_file(store_ + "/agent.log"), HasSubstr("block"));
}

TEST_F(CommandTest, a_full_store_says_so_and_goes_on) {
  fs::create_directory(source_);
  write_file(source_ + "/large", std::string(200'000'000, 'x'));
  Node node(store_, {"--capacity", "128MiB"});
  ASSERT_EQ(node.output.exit_code, 0) << node.output.err;
  const Output import = penstock({"import", source_, store_ + ":/x"});
  EXPECT_EQ(import.exit_code, 1);
  EXPECT_THAT(import.err, HasSubstr("No space left on device"));
  EXPECT_THAT(import.out, HasSubstr("imported 0 files"));
  // No part of it looks like the whole.
  const Output verify = penstock({"verify", source_, store_ + ":/x", "-q"});
  EXPECT_THAT(verify.err, HasSubstr("not in the store"));
  fs::resize_file(source_ + "/large", 50'000'000);
  EXPECT_EQ(penstock({"import", source_, store_ + ":/x", "-q"}).exit_code, 0);
  EXPECT_EQ(penstock({"verify", source_, store_ + ":/x", "-q"}).exit_code, 0);
}

TEST_F(CommandTest, a_full_store_costs_nothing_of_the_file_that_was_to_be_replaced) {
  const std::string newer = scratch_ / "newer";
  fs::create_directory(source_);
  fs::create_directory(newer);
  write_file(source_ + "/file", std::string(1'000'000, 'o'));
  write_file(newer + "/file", std::string(200'000'000, 'n'));
  fs::last_write_time(newer, fs::last_write_time(source_));
  Node node(store_, {"--capacity", "128MiB"});
  ASSERT_EQ(node.output.exit_code, 0) << node.output.err;
  ASSERT_EQ(penstock({"import", source_, store_ + ":/x", "-q"}).exit_code, 0);
  const Output import = penstock({"import", newer, store_ + ":/x", "-q"});
  EXPECT_EQ(import.exit_code, 1);
  EXPECT_THAT(import.err, HasSubstr("No space left on device"));
  // Nor is there half a copy beside it.
  const Output verify = penstock({"verify", source_, store_ + ":/x", "-q"});
  EXPECT_EQ(verify.exit_code, 0) << verify.err;
}

TEST_F(CommandTest, a_link_in_the_way_of_a_directory_is_not_followed) {
  const std::string first = scratch_ / "first";
  fs::create_directories(first + "/elsewhere");
  fs::create_directory_symlink("elsewhere", first + "/d");
  fs::create_directories(source_ + "/d/e");
  write_file(source_ + "/d/f", "new");
  write_file(source_ + "/d/e/g", std::string(1'000'000, 'n'));
  write_file(source_ + "/h", "new");
  Node node(store_);
  ASSERT_EQ(node.output.exit_code, 0) << node.output.err;
  ASSERT_EQ(penstock({"import", first, store_ + ":/x", "-q"}).exit_code, 0);
  const Output import = penstock({"import", source_, store_ + ":/x", "-q"});
  EXPECT_EQ(import.exit_code, 1);
  EXPECT_THAT(import.err, HasSubstr("make directory"));
  // Nothing came to where the link leads, and what is beside it was copied.
  write_file(first + "/h", "new");
  fs::last_write_time(first + "/h", fs::last_write_time(source_ + "/h"));
  fs::last_write_time(first, fs::last_write_time(source_));
  const Output verify = penstock({"verify", first, store_ + ":/x", "-q"});
  EXPECT_EQ(verify.exit_code, 0) << verify.err;
}

TEST_F(CommandTest, names_of_a_file_that_could_not_be_copied_are_left_alone) {
  const std::string newer = scratch_ / "newer";
  fs::create_directory(source_);
  fs::create_directory(newer);
  write_file(source_ + "/a", "old a");
  write_file(source_ + "/b", "old b");
  write_file(newer + "/a", std::string(200'000'000, 'n'));
  fs::create_hard_link(newer + "/a", newer + "/b");
  fs::last_write_time(newer, fs::last_write_time(source_));
  Node node(store_, {"--capacity", "128MiB"});
  ASSERT_EQ(node.output.exit_code, 0) << node.output.err;
  ASSERT_EQ(penstock({"import", source_, store_ + ":/x", "-q"}).exit_code, 0);
  const Output import = penstock({"import", newer, store_ + ":/x", "-q"});
  EXPECT_EQ(import.exit_code, 1);
  EXPECT_THAT(import.err, HasSubstr("was not copied"));
  const Output verify = penstock({"verify", source_, store_ + ":/x", "-q"});
  EXPECT_EQ(verify.exit_code, 0) << verify.err;
}

TEST_F(CommandTest, a_link_in_the_way_of_a_file_is_replaced_and_not_followed) {
  fs::create_directory(source_);
  write_file(source_ + "/kept", "kept");
  for (const char* name : {"/small", "/large"}) fs::create_symlink("kept", source_ + name);
  Node node(store_);
  ASSERT_EQ(node.output.exit_code, 0) << node.output.err;
  ASSERT_EQ(penstock({"import", source_, store_ + ":/x", "-q"}).exit_code, 0);
  for (const char* name : {"/small", "/large"}) fs::remove(source_ + name);
  write_file(source_ + "/small", "small");
  write_file(source_ + "/large", std::string(1'000'000, 'l'));
  fs::rename(source_ + "/kept", scratch_ / "kept");
  const Output import = penstock({"import", source_, store_ + ":/x", "-q"});
  EXPECT_EQ(import.exit_code, 0) << import.err;
  fs::rename(scratch_ / "kept", source_ + "/kept");
  fs::create_symlink("small", source_ + "/link");
  fs::create_hard_link(source_ + "/large", source_ + "/second");
  for (int again = 0; again < 2; ++again) {
    // The first makes the links, the second puts links in the place of links.
    ASSERT_EQ(penstock({"import", source_, store_ + ":/y", "-q"}).exit_code, 0);
  }
  const Output second = penstock({"verify", source_, store_ + ":/y", "-q"});
  EXPECT_EQ(second.exit_code, 0) << second.err;
  fs::remove(source_ + "/link");
  fs::remove(source_ + "/second");
  const Output verify = penstock({"verify", source_, store_ + ":/x", "-q"});
  for (const char* name : {"kept", "small", "large"}) {
    EXPECT_THAT(verify.err, Not(HasSubstr(name)));
  }
}

TEST_F(CommandTest, a_store_in_use_is_refused) {
  Node node(store_);
  const Output second = penstock({"up", store_, "--background"});
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_THAT(second.err, HasSubstr(store_));
  EXPECT_TRUE(node.running());
}

TEST_F(CommandTest, a_directory_that_is_no_store_is_refused_and_left_alone) {
  fs::create_directory(store_);
  write_file(store_ + "/precious", "data");
  const Output up = penstock({"up", store_, "--background"});
  EXPECT_EQ(up.exit_code, 1);
  EXPECT_THAT(up.err, HasSubstr(store_));
  EXPECT_EQ(std::distance(fs::directory_iterator(store_), fs::directory_iterator()), 1);
  EXPECT_EQ(read_file(store_ + "/precious"), "data");
}

TEST_F(CommandTest, a_directory_that_cannot_be_written_is_refused) {
  const Output up = penstock({"up", "/proc/penstock-store", "--background"});
  EXPECT_EQ(up.exit_code, 1);
  EXPECT_THAT(up.err, HasSubstr("/proc/penstock-store"));
}

TEST_F(CommandTest, a_damaged_database_is_refused_and_not_made_anew) {
  make_tree();
  {
    Node node(store_);
    ASSERT_EQ(penstock({"import", source_, store_ + ":/x", "-q"}).exit_code, 0);
    ASSERT_EQ(node.down().exit_code, 0);
  }
  std::string current;
  for (const auto& file : fs::directory_iterator(store_ + "/meta")) {
    if (file.path().filename().string().starts_with("MANIFEST-")) current = file.path();
  }
  ASSERT_FALSE(current.empty());
  const std::string before = read_file(current);
  write_file(current, "nonsense");
  const Output up = penstock({"up", store_, "--background"});
  EXPECT_EQ(up.exit_code, 1);
  EXPECT_THAT(up.err, HasSubstr("meta"));
  EXPECT_EQ(read_file(current), "nonsense");
  write_file(current, before);
  Node node(store_);
  EXPECT_EQ(node.output.exit_code, 0) << node.output.err;
  EXPECT_EQ(penstock({"verify", source_, store_ + ":/x", "-q"}).exit_code, 0);
}

TEST_F(CommandTest, bad_places_are_explained) {
  fs::create_directory(source_);
  const Output nowhere = penstock({"import", source_, "relative/path"});
  EXPECT_EQ(nowhere.exit_code, 1);
  EXPECT_THAT(nowhere.err, HasSubstr("STORE:/path"));
  const Output no_node = penstock({"import", source_, store_ + ":/x"});
  EXPECT_EQ(no_node.exit_code, 1);
  EXPECT_THAT(no_node.err, HasSubstr(store_));
  const Output no_source = penstock({"import", source_ + "/missing", store_ + ":/x"});
  EXPECT_EQ(no_source.exit_code, 1);
  EXPECT_THAT(no_source.err, HasSubstr("missing"));
  const Output no_mount = penstock({"unmount", source_});
  EXPECT_EQ(no_mount.exit_code, 1);
  EXPECT_THAT(no_mount.err, HasSubstr("not a mount"));
}

}  // namespace
}  // namespace penstock::test
