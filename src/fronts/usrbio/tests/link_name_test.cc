#include "link_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::usrbio {
namespace {

constexpr Uuid kId = {0x12, 0x3e, 0x45, 0x67, 0xe8, 0x9b, 0x42, 0xd3,
                      0xa4, 0x56, 0x42, 0x66, 0x14, 0x17, 0x40, 0x0f};

TEST(LinkName, ids_are_written_both_ways) {
  EXPECT_EQ(hyphenated(kId), "123e4567-e89b-42d3-a456-42661417400f");
  EXPECT_EQ(plain_hex(kId), "123e4567e89b42d3a45642661417400f");
}

TEST(LinkName, random_ids_are_version_4_and_differ) {
  const Uuid a = random_uuid();
  const Uuid b = random_uuid();
  EXPECT_NE(a, b);
  EXPECT_EQ(a[6] >> 4, 4);
  EXPECT_EQ(a[8] >> 6, 2);
}

TEST(LinkName, link_states_the_block_size_when_there_is_one) {
  EXPECT_EQ(link_path("/mnt", kId, 0), "/mnt/3fs-virt/iovs/123e4567-e89b-42d3-a456-42661417400f");
  EXPECT_EQ(link_path("/mnt///", kId, 4096),
            "/mnt/3fs-virt/iovs/123e4567-e89b-42d3-a456-42661417400f.b4096");
  EXPECT_EQ(link_directory("/"), "/3fs-virt/iovs");
}

TEST(LinkName, candidates_include_what_others_write) {
  const auto exact = link_candidates("/m", kId, 0, false);
  ASSERT_EQ(exact.size(), 2U);
  EXPECT_EQ(exact[0].path, "/m/3fs-virt/iovs/123e4567-e89b-42d3-a456-42661417400f");
  EXPECT_EQ(exact[1].path, "/m/3fs-virt/iovs/123e4567e89b42d3a45642661417400f");

  const auto blocks = link_candidates("/m", kId, 64, false);
  ASSERT_EQ(blocks.size(), 2U);
  EXPECT_THAT(blocks[0].path, testing::EndsWith(".b64"));
  EXPECT_EQ(blocks[0].block_size, 64U);

  const auto any = link_candidates("/m", kId, 64, true);
  ASSERT_EQ(any.size(), 4U);
  EXPECT_EQ(any[0].block_size, 64U);
  EXPECT_EQ(any[1].block_size, 0U);
  EXPECT_THAT(any[1].path, testing::Not(testing::EndsWith(".b64")));
}

TEST(LinkName, only_files_directly_in_dev_shm_are_memory) {
  EXPECT_EQ(shared_memory_name("/dev/shm/psm_12ab"), "psm_12ab");
  EXPECT_EQ(shared_memory_name("/dev/shm/..a"), "..a");
  for (const std::string_view target :
       {std::string_view(""), std::string_view("/dev/shm"), std::string_view("/dev/shm/"),
        std::string_view("/dev/shm/."), std::string_view("/dev/shm/.."),
        std::string_view("/dev/shm/a/b"), std::string_view("/dev/shm/../../etc/shadow"),
        std::string_view("dev/shm/a"), std::string_view("/etc/shadow"),
        std::string_view("/dev/shm/a\0b", 12)}) {
    EXPECT_FALSE(shared_memory_name(target)) << target;
  }
  EXPECT_FALSE(shared_memory_name("/dev/shm/" + std::string(256, 'a')));
  EXPECT_TRUE(shared_memory_name("/dev/shm/" + std::string(255, 'a')));
}

}  // namespace
}  // namespace penstock::usrbio
