#include "environment.h"

#include <cstdlib>
#include <gtest/gtest.h>
#include <unistd.h>

namespace penstock::nvshmem {
namespace {

struct Variable {
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name_); }
  const char* const name_;
};

TEST(ReadNvshmemEnvironment, has_what_nvshmem_has_where_nothing_is_set) {
  const auto found = read_environment();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->heap_bytes, uint64_t{1} << 30);
  EXPECT_FALSE(found->wants_version || found->wants_info);
  EXPECT_EQ(found->told, log::Level::warning);
  EXPECT_EQ(found->told_to + found->interface, "");
}

TEST(ReadNvshmemEnvironment, takes_what_is_set) {
  const Variable size("NVSHMEM_SYMMETRIC_SIZE", "2m");
  const Variable version("NVSHMEM_VERSION", "yes");
  const Variable info("NVSHMEM_INFO", "off");
  const Variable debug("NVSHMEM_DEBUG", "trace");
  const Variable file("NVSHMEM_DEBUG_FILE", "/tmp/%p.%x%%");
  const Variable interface("NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME", "^docker,lo");
  const auto found = read_environment();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->heap_bytes, uint64_t{2} << 20);
  EXPECT_TRUE(found->wants_version);
  EXPECT_FALSE(found->wants_info);
  EXPECT_EQ(found->told, log::Level::debug);
  EXPECT_EQ(found->told_to, "/tmp/" + std::to_string(::getpid()) + ".%x%%");
  EXPECT_EQ(found->interface, "^docker,lo");
}

TEST(ReadNvshmemEnvironment, takes_sizes_as_users_write_them) {
  constexpr uint64_t kMebibyte = uint64_t{1} << 20;
  for (const auto& [text, bytes] :
       {std::pair("1GB", 1024 * kMebibyte), std::pair("1GiB", 1024 * kMebibyte),
        std::pair("20kk", uint64_t{20} << 10), std::pair("1.5mebi", 3 * kMebibyte / 2),
        std::pair("2T\n", 2048 * 1024 * kMebibyte), std::pair("1e9", uint64_t{1000000000}),
        std::pair("4194304", 4 * kMebibyte), std::pair("0", 1024 * kMebibyte),
        std::pair("0.0", 1024 * kMebibyte), std::pair("0GB", 1024 * kMebibyte)}) {
    const Variable size("NVSHMEM_SYMMETRIC_SIZE", text);
    const auto found = read_environment();
    ASSERT_TRUE(found) << text;
    EXPECT_EQ(found->heap_bytes, bytes) << text;
  }
}

TEST(ReadNvshmemEnvironment, refuses_sizes_that_are_none) {
  for (const char* const text : {"GB", "m", "much", "5x", "1 g", "0x10", "0x", "-1g", "1..2g",
                                 "0..", "0e", "0..g", "1eg", "g1", "."}) {
    const Variable size("NVSHMEM_SYMMETRIC_SIZE", text);
    EXPECT_FALSE(read_environment()) << text;
  }
}

TEST(ReadNvshmemEnvironment, names_the_variable_that_makes_no_sense) {
  for (const auto& [name, value] :
       {std::pair("NVSHMEM_SYMMETRIC_SIZE", "much"), std::pair("NVSHMEM_DEBUG", "LOUD")}) {
    const Variable set(name, value);
    const auto found = read_environment();
    ASSERT_FALSE(found) << name;
    EXPECT_EQ(found.error().message.rfind(name, 0), 0u) << found.error().message;
  }
}

TEST(NvshmemInfoText, tells_what_is_set_and_does_nothing) {
  EXPECT_EQ(info_text().find("without a meaning"), std::string::npos);
  const Variable ignored("NVSHMEM_DISABLE_NVLS", "1");
  const Variable honoured("NVSHMEM_DEBUG", "INFO");
  EXPECT_NE(info_text().find("  NVSHMEM_DISABLE_NVLS=1\n"), std::string::npos);
  EXPECT_EQ(info_text().find("NVSHMEM_DEBUG=INFO"), std::string::npos);
}

}  // namespace
}  // namespace penstock::nvshmem
