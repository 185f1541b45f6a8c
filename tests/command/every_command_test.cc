// Every command that `penstock help` lists, run once as a user would.

#include <atomic>
#include <filesystem>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <sys/mount.h>
#include <thread>
#include <unistd.h>

#include "penstock/testing.h"
#include "penstock/testing_node.h"

namespace penstock::test {
namespace {

namespace fs = std::filesystem;
using testing::AnyOf;
using testing::HasSubstr;

class EveryCommand : public testing::Test {
 protected:
  EveryCommand() {
    fs::create_directories(place_);
    fs::create_directories(source_ + "/below");
    write_file(source_ + "/below/small", "small");
    write_file(source_ + "/large", std::string(4 << 20, 'x'));
  }
  ~EveryCommand() override {
    ::umount2(place_.c_str(), MNT_DETACH);
    penstock({"down", store_});
  }

  // Runs it, and expects this end and this text.
  void good(const std::vector<std::string>& words, const std::string& text,
            int exit_code = 0) const {
    const Output output = penstock(words);
    EXPECT_EQ(output.exit_code, exit_code) << words[0] << ": " << output.err;
    EXPECT_THAT(output.out + output.err, HasSubstr(text)) << words[0];
  }

  void mount_and_unmount() const {
    const Output mounted = penstock({"mount", store_, place_});
    if (mounted.exit_code != 0) {
      // Where a user may not mount he is told why.
      EXPECT_THAT(mounted.err, HasSubstr("mount")) << "nothing told";
      return good({"unmount", place_}, "not a mount of Penstock", 1);
    }
    EXPECT_EQ(read_file(place_ + "/in/below/small"), "small");
    good({"top", store_, "--once", "--seconds", "0.1"}, "in flight");
    good({"unmount", place_}, "unmounted " + place_);
    EXPECT_FALSE(fs::exists(place_ + "/in"));
  }

  // Reads while somebody looks.
  void trace_a_verify() const {
    std::atomic<bool> over{false};
    std::thread reader([&] {
      while (!over) penstock({"verify", source_ + "/large", store_ + ":/in/large", "-q"});
    });
    good({"trace", store_, "1"}, "disk-direct");
    good({"trace", store_, "0.5", "--json"}, "\"ph\":\"e\"");
    good({"trace", store_, "0.5", "--output", scratch_ / "trace.json"}, "ui.perfetto.dev");
    over = true;
    reader.join();
    EXPECT_THAT(read_file(scratch_ / "trace.json"), HasSubstr("\"name\":\"store and disk\""));
    good({"trace", store_, "0.1"}, "no operation of a ring ended meanwhile");
  }

  void ask_for_gpus(const std::string& command) const {
    const std::string to = command == "save" ? scratch_ / "copy.safetensors" : "";
    std::vector<std::string> words = {command, scratch_ / "none.safetensors"};
    if (command == "save") words.push_back(to);
    const Output output = penstock(words);
    EXPECT_EQ(output.exit_code, 1);
    EXPECT_THAT(output.err, HasSubstr("penstock " + command));
  }

  const ScratchDirectory scratch_;
  const std::string store_ = scratch_ / "store";
  const std::string source_ = scratch_ / "source";
  const std::string place_ = scratch_ / "place";
};

std::set<std::string> commands_of_help() {
  std::set<std::string> names;
  std::istringstream lines(penstock({"help"}).out);
  const std::regex command("  ([a-z]+)(, ?[a-z]+)* {2,}\\S.*");
  std::smatch match;
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_match(line, match, command)) names.insert(match[1]);
  }
  return names;
}

TEST_F(EveryCommand, of_help_does_what_it_says) {
  // In the order in which a node lives.
  const std::vector<std::pair<std::string, std::function<void()>>> story = {
      {"help",
       [&] {
         good({"help", "up"}, "Usage: penstock up");
       }},
      {"version", [&] { good({"version"}, "penstock "); }},
      {"check",
       [&] {
         const Output output = penstock({"check", "--dir", scratch_.path()});
         EXPECT_THAT(output.exit_code, AnyOf(0, 3));
         EXPECT_EQ(output.exit_code == 3, output.out.find("BAD") != std::string::npos);
         for (const char* part : {"io_uring", "nofile", "memlock", "max_map_count", "O_DIRECT",
                                  "fusermount3", "user_allow_other"}) {
           EXPECT_THAT(output.out, HasSubstr(part));
         }
         EXPECT_EQ(penstock({"doctor", "--dir", scratch_.path()}).out, output.out);
         EXPECT_THAT(penstock({"check", "--json", "--dir", scratch_.path()}).out,
                     HasSubstr("\"findings\": ["));
         EXPECT_EQ(penstock({"check", "--dir", scratch_ / "nowhere"}).exit_code, 3);
         EXPECT_THAT(penstock({"check", "net"}).out, HasSubstr("only this machine was looked at"));
         good({"check", "symm", "-n", "2", "--seconds", "0.02"}, "shared memory");
         good({"check", "symm", "-n", "1"}, "-n", 2);
       }},
      {"up",
       [&] {
         good({"up", store_, "--background", "--log-format", "json"}, "penstock is up: " + store_);
         good({"up", store_, "--log-format", "xml"}, "--log-format", 2);
       }},
      {"status",
       [&] {
         good({"status", store_}, "process ");
       }},
      {"import",
       [&] {
         good({"import", source_, store_ + ":/in"}, "imported 2 files");
       }},
      {"verify",
       [&] {
         good({"verify", source_, store_ + ":/in"}, "every byte is equal");
       }},
      {"warmup",
       [&] {
         good({"warmup", store_ + ":/in"}, "2 files");
       }},
      {"layout",
       [&] {
         good({"layout", store_ + ":/in"}, "4.00 MiB     all       1  any        0  0");
         good({"layout", store_ + ":/in/large", "--json"}, "\"type\": \"file\"");
         good({"layout", store_ + ":/nothing"}, "/nothing: not found", 1);
       }},
      {"set",
       [&] {
         good({"set", store_ + ":/in", "--chunk", "1M", "--stripe", "1"}, "1.00 MiB       1");
         good({"set", store_ + ":/in"}, "penstock layout", 2);
       }},
      {"quota",
       [&] {
         good({"quota", "set", store_, "--path", "/in", "--inodes", "100"}, "none");
         good({"quota", "get", store_, "--path", "/in"}, "/in");
         good({"quota", "check", store_, "--path", "/in"}, "right");
         good({"quota", "list", store_, "--json"}, "\"inodes\": 100");
         good({"quota", "set", store_, "--path", "/in"}, "--capacity", 2);
         good({"quota", "delete", store_, "--path", "/in"}, "deleted");
         good({"quota", "delete", store_, "--path", "/in"}, "there is none", 1);
       }},
      {"trash",
       [&] {
         good({"trash", "get", store_}, "nothing is kept");
         good({"trash", "set", store_ + ":/in", "7"}, "trash of /in: 7 days");
         good({"trash", "get", store_}, "/in");
         good({"trash", "get", store_ + ":/in", "--json"}, "\"days\": 7");
         good({"trash", "list", store_}, "the trash is empty");
         good({"trash", "restore", store_, "/in/nothing"}, "not in the trash", 1);
         good({"trash", "empty", store_}, "--older-than", 2);
         good({"trash", "empty", store_, "--all"}, "0 removed");
         good({"trash", "set", store_ + ":/in", "soon"}, "a number of days", 2);
         good({"trash", "set", store_ + ":/in", "inherit"}, "trash of /in: off");
       }},
      {"scrub",
       [&] {
         good({"scrub", store_}, "0 bad blocks");
       }},
      {"limit",
       [&] {
         good({"limit", store_, "--user", "4711", "--weight", "50"}, "4711");
       }},
      {"top",
       [&] {
         good({"top", store_, "--seconds", "0.1"}, "held back by limits");
         good({"top", store_, "--json", "--seconds", "0.1"}, "\"operations_in_flight\": 0");
         good({"top", scratch_ / "nothing"}, "penstock top", 1);
       }},
      {"trace", [&] { trace_a_verify(); }},
      {"mount", [&] { mount_and_unmount(); }},
      {"unmount",
       [&] {
         good({"unmount", source_}, "not a mount of Penstock", 1);
       }},
      {"cluster",
       [&] {
         good({"cluster", store_}, "this node is alone", 1);
         EXPECT_THAT(penstock({"check", "net", "--store", store_}).out,
                     HasSubstr("this node is alone"));
       }},
      {"nodes",
       [&] {
         good({"nodes", store_}, "this node is alone", 1);
       }},
      {"chains",
       [&] {
         good({"chains", store_}, "this node is alone", 1);
       }},
      {"drain",
       [&] {
         good({"drain", store_, "2"}, "this node is alone", 1);
       }},
      {"remove",
       [&] {
         good({"remove", store_, "2"}, "this node is alone", 1);
       }},
      {"join",
       [&] {
         good({"join", "nonsense", scratch_ / "joins"}, "is no invitation", 1);
         good({"join", std::string(32, 'a') + "@127.0.0.1:9"}, "say a DIR, or --mount", 2);
       }},
      {"token",
       [&] {
         for (const char* what : {"create", "list"}) {
           good({"token", what, store_}, "this node is alone", 1);
         }
         good({"token", "revoke", store_, "1"}, "this node is alone", 1);
         good({"token", "create", store_, "--for", "soon"}, "not a time", 2);
         good({"token"}, "subcommand is required", 2);
       }},
      {"standby",
       [&] {
         good({"standby", store_, scratch_ / "new", "--listen", "127.0.0.1:1"},
              "give the directory of the first node", 1);
         good({"standby", store_, scratch_ / "new"}, "--listen is required", 2);
       }},
      {"restrict",
       [&] {
         good({"restrict", store_, "2", "--read-only"}, "this node is alone", 1);
         good({"restrict", store_, "2"}, "say what the node is limited to", 2);
         good({"restrict", store_, "2", "--nothing", "--read-only"}, "goes with no other", 2);
         good({"restrict", store_, "2", "--uids", "5-1"}, "--uids: '5-1' is no list", 2);
         good({"restrict", store_, "2", "--subtree", "data"}, "begin with a slash", 2);
       }},
      {"identity",
       [&] {
         good({"identity", "begin", store_}, "is of no cluster", 1);
         good({"identity", "renew", store_}, "this node is alone", 1);
         good({"identity", "status", store_}, "this node is alone", 1);
         good({"identity"}, "subcommand is required", 2);
       }},
      {"load", [&] { ask_for_gpus("load"); }},
      {"save", [&] { ask_for_gpus("save"); }},
      {"run",
       [&] {
         good({"run", "-n", "2", "echo", "-n", "said"}, "saidsaid");
         good({"run", "nothing-of-this-name"}, "there is no such program", 127);
         good({"run", "-n", "2"}, "PROGRAM is required", 2);
       }},
      {"bench",
       [&] {
         good({"bench", "ring", "--dir", scratch_.path(), "--size", "16MiB", "--rounds", "1",
               "--seconds", "0.1", "--json", scratch_ / "bench.json"},
              "4.00 KiB random read");
         EXPECT_THAT(read_file(scratch_ / "bench.json"), HasSubstr("ring.read.4k.random.qd64"));
         good({"bench", "ring", "--dir", scratch_ / "missing", "--json", scratch_ / "none.json"},
              "No such file or directory", 1);
         EXPECT_EQ(read_file(scratch_ / "none.json"), "[]\n");
       }},
      {"down",
       [&] {
         good({"down", store_}, "penstock is down");
       }},
      {"metadata",
       [&] {
         good({"metadata", "dump", store_, scratch_ / "names.txt"}, "5 names");
         good({"metadata", "check", store_}, "5 names, 0 open for writing");
         good({"metadata", "check", store_, "--json"}, "\"problems\": 0");
         good({"metadata", "check", scratch_ / "nowhere"}, "is not a store", 1);
         good({"metadata", "move", store_, "--to", "rocksdb"}, "already", 1);
         good({"metadata", "move", store_, "--to", "nonsense"}, "is not understood", 1);
         good({"metadata", "move", store_}, "--to is required", 2);
         EXPECT_THAT(read_file(scratch_ / "names.txt"), HasSubstr("name=small\n"));
         fs::rename(store_ + "/meta", scratch_ / "lost");
         good({"metadata", "load", scratch_ / "names.txt", store_}, "5 names");
         good({"metadata", "load", scratch_ / "names.txt", store_}, "already", 1);
         good({"metadata"}, "subcommand is required", 2);
       }},
  };
  std::set<std::string> told;
  for (const auto& [name, run] : story) {
    SCOPED_TRACE(name);
    told.insert(name);
    run();
  }
  EXPECT_EQ(told, commands_of_help()) << "a command without a test, or a test without its command";
}

}  // namespace
}  // namespace penstock::test
