#include "environment.h"

#include <cstdlib>
#include <gtest/gtest.h>

namespace penstock::shmem {
namespace {

TEST(ReadEnvironment, takes_the_newer_name_where_both_are_set) {
  ::setenv("SMA_SYMMETRIC_SIZE", "1k", 1);
  EXPECT_EQ(read_environment()->heap_bytes, 1024u);
  ::setenv("SHMEM_SYMMETRIC_SIZE", "2k", 1);
  EXPECT_EQ(read_environment()->heap_bytes, 2048u);
  ::unsetenv("SHMEM_SYMMETRIC_SIZE");
  ::unsetenv("SMA_SYMMETRIC_SIZE");
  EXPECT_EQ(read_environment()->heap_bytes, 0u);
}

TEST(ReadEnvironment, takes_an_empty_size_as_none) {
  ::setenv("SHMEM_SYMMETRIC_SIZE", "", 1);
  const auto found = read_environment();
  ::unsetenv("SHMEM_SYMMETRIC_SIZE");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->heap_bytes, 0u);
}

}  // namespace
}  // namespace penstock::shmem
