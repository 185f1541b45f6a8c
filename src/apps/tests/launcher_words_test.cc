// Lines of other launchers, as `penstock run` takes them.
#include "launcher_words.h"

#include <gtest/gtest.h>
#include <sstream>

namespace penstock::apps {
namespace {

bool takes_value(const std::string& option) {
  for (const char* with : {"-n", "--np", "--ppn", "--hosts", "--hostfile", "--wdir", "-x"}) {
    if (option == with) return true;
  }
  return false;
}

std::string own(const std::string& line) {
  std::istringstream from(line);
  std::vector<std::string> words;
  for (std::string word; from >> word;) words.push_back(word);
  std::string text;
  for (const std::string& word : own_words(words, takes_value)) {
    text += (text.empty() ? "" : " ") + word;
  }
  return text;
}

TEST(LauncherWords, have_a_mark_before_the_program) {
  EXPECT_EQ(own("-n 4 -l ./a -n 5"), "-n 4 -l -- ./a -n 5");
  EXPECT_EQ(own("./a"), "-- ./a");
  EXPECT_EQ(own("-n 4 -- ./a"), "-n 4 -- ./a");
  EXPECT_EQ(own("-n"), "-n");
  EXPECT_EQ(own(""), "");
  EXPECT_EQ(own("-x A=1 - a"), "-x A=1 -- - a");
}

TEST(LauncherWords, are_taken_from_open_mpi) {
  EXPECT_EQ(own("--mca spml ucx -np 2 --map-by core --bind-to=none --allow-run-as-root ./a -np 3"),
            "--np 2 -- ./a -np 3");
  EXPECT_EQ(own("-N 2 -host a,b --tag-output -wd /tmp ./a"),
            "--ppn 2 --hosts a,b --label --wdir /tmp -- ./a");
  EXPECT_EQ(own("-np=2 --report-bindings ./a"), "--np=2 -- ./a");
}

TEST(LauncherWords, are_taken_from_hydra) {
  EXPECT_EQ(own("-genv SHMEM_DEBUG 1 -env A b=c -genvall -n 2 -ppn 1 ./a -genv X"),
            "-x SHMEM_DEBUG=1 -x A=b=c -n 2 --ppn 1 -- ./a -genv X");
  EXPECT_EQ(own("-genvlist PATH,HOME -envlist=A -prepend-rank ./a"),
            "-x PATH -x HOME -x A --label -- ./a");
}

TEST(LauncherWords, that_end_too_early_are_nobodys_program) {
  EXPECT_EQ(own("--mca spml"), "");
  EXPECT_EQ(own("-genv A"), "-x A=");
}

}  // namespace
}  // namespace penstock::apps
