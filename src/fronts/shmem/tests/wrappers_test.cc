// oshcc and oshc++, as build lines use them.
#include "jobs.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>

namespace penstock::shmem::testing {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const std::string kBin = SHMEM_BIN;  // NOLINT

class Wrappers : public ::testing::Test {
 protected:
  Wrappers() {
    std::string name = ::testing::TempDir() + "/shmem wrappers XXXXXX";
    directory_ = ::mkdtemp(name.data());
    std::ofstream(directory_ / "hello.c")
        << "#include <shmem.h>\n#include <stdio.h>\nstatic int from;\n"
           "int main(void) {\n  shmem_init();\n"
           "  shmem_p(&from, 1 + shmem_my_pe(), (shmem_my_pe() + 1) % shmem_n_pes());\n"
           "  shmem_barrier_all();\n  printf(\"%d\\n\", from);\n  shmem_finalize();\n"
           "  return 0;\n}\n";
    std::filesystem::copy(directory_ / "hello.c", directory_ / "hello.cc");
  }
  ~Wrappers() override { std::filesystem::remove_all(directory_); }

  Ended shell(const std::string& line) {
    return run_shell("cd '" + directory_.string() + "' && " + line);
  }

  std::filesystem::path directory_;
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// A program that is built without them cannot load a library that is built with them.
constexpr bool kRuns = false;
#else
constexpr bool kRuns = true;
#endif

TEST_F(Wrappers, build_programs_that_run) {
  if (!kRuns) GTEST_SKIP() << "sanitizers";
  for (const char* line :
       {"/oshcc -std=c11 -O1 hello.c -o 'a program'", "/oshc++ hello.cc -o 'a program'",
        "/oshcc -c hello.c && CC=oshcc PATH=" SHMEM_BIN ":$PATH oshcc hello.o -o 'a program'"}) {
    const Ended built = shell(kBin + line);
    ASSERT_EQ(built.code, 0) << built.output;
    EXPECT_EQ(built.output, "");
    const Ended ended = run({2, {(directory_ / "a program").string()}});
    EXPECT_EQ(ended.code, 0) << ended.errors;
    EXPECT_TRUE(ended.output == "1\n2\n" || ended.output == "2\n1\n") << ended.output;
    std::filesystem::remove(directory_ / "a program");
  }
}

TEST_F(Wrappers, show_what_they_would_do) {
  const Ended shown = shell("CC='ccache clang' " + kBin + "/oshcc --showme -O2 hello.c");
  EXPECT_THAT(shown.output, HasSubstr("ccache clang -I"));
  EXPECT_THAT(shown.output, HasSubstr(" -O2 hello.c -L"));
  EXPECT_THAT(shown.output, HasSubstr(" -lpenstock_shmem"));
  EXPECT_THAT(shell("CXX=clang++ " + kBin + "/oshc++ -show -c hello.cc").output,
              Not(HasSubstr("-lpenstock")));
  EXPECT_THAT(shell(kBin + "/oshcc --showme:compile").output, HasSubstr("/include\n"));
  EXPECT_THAT(shell(kBin + "/oshcc --showme:link").output, HasSubstr("-lpenstock_shmem\n"));
  EXPECT_EQ(shell(kBin + "/oshcc --version").code, 0);
}

TEST_F(Wrappers, tell_build_systems_each_part) {
  EXPECT_EQ(shell("CC=clang " + kBin + "/oshcc --showme:command").output, "clang\n");
  EXPECT_THAT(shell(kBin + "/oshcc --showme:incdirs").output, EndsWith("/include\n"));
  EXPECT_THAT(shell(kBin + "/oshcc --showme:libdirs").output, EndsWith("/lib\n"));
  EXPECT_EQ(shell(kBin + "/oshcc --showme:libs").output, "penstock_shmem\n");
  EXPECT_THAT(shell(kBin + "/oshc++ --showme:version").output, StartsWith("Penstock "));
}

TEST_F(Wrappers, have_the_names_of_others) {
  for (const char* name : {"/oshcxx", "/oshCC"}) {
    EXPECT_EQ(shell(kBin + name + " --showme:command").output,
              shell(kBin + "/oshc++ --showme:command").output);
  }
}

TEST_F(Wrappers, hand_errors_on) {
  EXPECT_NE(shell(kBin + "/oshcc missing.c").code, 0);
}

}  // namespace
}  // namespace penstock::shmem::testing
