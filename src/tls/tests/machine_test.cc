// What the machine's openssl.cnf says is for other programs.
#include <cstdlib>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>

#include "penstock/testing.h"

namespace penstock::tls {
namespace {

// How these tests end in a process whose OpenSSL is configured so.
int ending_with(const std::string& configuration, const std::string& tests) {
  const test::ScratchDirectory directory;
  const std::string path = directory / "openssl.cnf";
  test::write_file(path, configuration);
  return test::in_child([&] {
    // Its report is not the one of this program.
    ::unsetenv("GTEST_OUTPUT");
    ::setenv("OPENSSL_CONF", path.c_str(), 1);
    ::execl("/proc/self/exe", "tls_tests", ("--gtest_filter=" + tests).c_str(), nullptr);
    return 127;
  });
}

TEST(Machine, may_have_no_algorithms) {
  EXPECT_EQ(ending_with("openssl_conf = all\n"
                        "[all]\nproviders = some\n"
                        "[some]\nnull = one\n"
                        "[one]\nactivate = 1\n",
                        "-Machine.*"),
            0);
}

TEST(Machine, may_ask_more_of_keys_than_nodes_have) {
  EXPECT_EQ(ending_with("openssl_conf = all\n"
                        "[all]\nssl_conf = some\n"
                        "[some]\nsystem_default = these\n"
                        "[these]\nCipherString = DEFAULT@SECLEVEL=5\n",
                        "HandshakeTest.*"),
            0);
}

}  // namespace
}  // namespace penstock::tls
