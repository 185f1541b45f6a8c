// Programs that know nothing of nodes, on two mounts of one file system at once: processes that
// write one file together, git, make.
#include "cluster_mounted.h"

#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <sys/wait.h>

#include "penstock/base.h"

namespace penstock::test {
namespace {

namespace fs = std::filesystem;

class ClusterPrograms : public MountedCluster {
 protected:
  ClusterPrograms() : MountedCluster({"a", "b"}) {}
  void SetUp() override {
    MountedCluster::SetUp();
    if (IsSkipped()) return;
    up("first", {"--listen", free_address(), "--mount", place("a")});
    join("second", {"--mount", place("b"), "--cache", "64M"});
  }

  static bool has(const std::string& program) {
    return std::system((program + " --version >/dev/null 2>&1").c_str()) == 0;
  }
  // Runs a shell's words there, and says what they printed where they fail.
  void good_in(const std::string& directory, const std::string& words) const {
    const std::string said = scratch_ / ("said." + directory.substr(0, 1));
    const std::string all =
        "cd '" + place(directory) + "' && { " + words + "; } >'" + said + "' 2>&1 </dev/null";
    EXPECT_EQ(std::system(all.c_str()), 0) << directory << ": " << words << "\n" << read_file(said);
  }
  // On both mounts, side by side.
  void good_in_both(const std::string& words) const {
    std::thread other([&] { good_in("b", words); });
    good_in("a", words);
    other.join();
  }
};

// As ranks of a job do with a file of results: each its own blocks, which lie among all others'.
TEST_F(ClusterPrograms, write_one_file_together) {
  constexpr int kRanks = 4;
  constexpr int kBlocks = 60;             // of each
  constexpr size_t kBlockBytes = 24'000;  // no multiple of anything
  write_file(place("a") + "/results", "");
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child != 0) {
      ranks.push_back(child);
      continue;
    }
    const std::string path = place(rank % 2 == 0 ? "a" : "b") + "/results";
    const int file = ::open(path.c_str(), O_WRONLY);
    const std::string block(kBlockBytes, static_cast<char>('0' + rank));
    bool good = file >= 0;
    for (int i = 0; i < kBlocks && good; ++i) {
      const auto offset = static_cast<off_t>((i * kRanks + rank) * kBlockBytes);
      good =
          ::pwrite(file, block.data(), block.size(), offset) == static_cast<ssize_t>(kBlockBytes);
    }
    good = good && ::fsync(file) == 0;
    ::_exit(good ? 0 : 1);
  }
  for (const pid_t rank : ranks) {
    int status = -1;
    ASSERT_EQ(::waitpid(rank, &status, 0), rank);
    EXPECT_EQ(status, 0);
  }
  for (const char* mount : {"a", "b"}) {
    const std::string all = read_file(place(mount) + "/results");
    ASSERT_EQ(all.size(), kRanks * kBlocks * kBlockBytes) << mount;
    for (size_t at = 0; at < all.size(); at += kBlockBytes / 4) {
      ASSERT_EQ(all[at], '0' + static_cast<char>(at / kBlockBytes % kRanks)) << mount << " " << at;
    }
  }
}

TEST_F(ClusterPrograms, keep_repositories) {
  if (!has("git")) GTEST_SKIP() << "no git";
  const std::string git =
      "git -c user.name=tester -c user.email=tester@localhost -c init.defaultBranch=main ";
  good_in("a", git +
                   "init -q origin && cd origin && for i in $(seq 60); do mkdir -p d$((i % 7)); "
                   "seq $i 400 > d$((i % 7))/f$i; done && git add . && " +
                   git + "commit -q -m first");
  // Two clones at once, of what one of them has just made.
  good_in_both("git clone -q origin $(basename $PWD).clone");
  // Each works in the other's.
  good_in("a/b.clone", "test -z \"$(git status --short)\" && seq 9 > new && git add new && " + git +
                           "commit -q -m second && git push -q origin HEAD:second");
  good_in("b/a.clone",
          "test -z \"$(git status --short)\" && git fetch -q && git merge -q "
          "origin/second && test -e new");
  good_in_both(
      "git -C origin fsck --strict && git -C a.clone fsck && git -C b.clone fsck && "
      "git -C $(basename $PWD).clone gc -q");
  good_in("a/a.clone", "test \"$(git log --format=%s)\" = \"$(printf 'second\\nfirst')\"");
}

TEST_F(ClusterPrograms, build_what_others_look_at) {
  if (!has("make") || !has("cc")) GTEST_SKIP() << "no make, or no compiler";
  const std::string all = place("a");
  for (const char* project : {"/p.a", "/p.b"}) {
    fs::create_directory(all + project);
    std::ofstream make(all + project + "/Makefile");
    make << "program: $(patsubst %.c,%.o,$(wildcard *.c))\n\tcc -o $@ $^\n"
         << "%.o: %.c all.h\n\tcc -O0 -c -o $@ $<\n";
    make.close();
    write_file(all + project + "/all.h", "int part(int);\n");
    write_file(all + project + "/main.c", "#include \"all.h\"\nint main(void) { return 0; }\n");
    for (int i = 0; i < 12; ++i) {
      const std::string number = std::to_string(i);
      write_file(all + project + "/f" + number + ".c",
                 "#include \"all.h\"\nint f" + number + "(int x) { return x + " + number + "; }\n");
    }
  }
  good_in_both("make -s -j 2 -C p.$(basename $PWD) && ./p.$(basename $PWD)/program");
  // The other finds nothing to do, until something is newer.
  good_in("a", "make -q -C p.b && ./p.b/program");
  good_in("b", "make -q -C p.a && touch p.a/f3.c");
  good_in("a", "! make -q -C p.a && make -s -j 2 -C p.a");
  good_in("b", "make -q -C p.a && ./p.a/program");
}

}  // namespace
}  // namespace penstock::test
