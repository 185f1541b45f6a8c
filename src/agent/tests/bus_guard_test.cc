#include "bus_guard.h"

#include "foreign_memory.h"
#include "raw_session.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

namespace penstock::agent {
namespace {

TEST(BusGuard, turns_a_truncated_mapping_into_zeros_and_a_mark) {
  BusGuard::install();
  TestMemory theirs(1 * kMiB, 0);
  auto mapped = ForeignMemory::map(theirs.fd(), 0, theirs.size(), false);
  ASSERT_TRUE(mapped) << mapped.error().message;
  const MutableBytes ours = (*mapped)->bytes();
  ours[100] = std::byte{7};
  EXPECT_FALSE((*mapped)->guard().broken());
  ASSERT_EQ(::ftruncate(theirs.fd(), 4096), 0);
  EXPECT_EQ(ours[100], std::byte{7}) << "what is still there";
  EXPECT_FALSE((*mapped)->guard().broken());
  volatile std::byte* gone = ours.data() + 8192;
  const std::byte seen = *gone;
  EXPECT_EQ(seen, std::byte{0});
  EXPECT_TRUE((*mapped)->guard().broken());
  *gone = std::byte{1};
  ours[ours.size() - 1] = std::byte{1};
}

TEST(BusGuard, lets_other_faults_take_their_course) {
  EXPECT_DEATH(
      {
        BusGuard::install();
        const int fd = ::memfd_create("test", 0);
        void* base = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        *static_cast<volatile char*>(base) = 1;
      },
      "");
}

TEST(BusGuard, may_be_used_again_after_its_memory_is_gone) {
  BusGuard::install();
  for (int i = 0; i < 100; ++i) {
    TestMemory theirs(4096, 0);
    auto mapped = ForeignMemory::map(theirs.fd(), 0, 4096, false);
    ASSERT_TRUE(mapped);
    EXPECT_FALSE((*mapped)->guard().broken());
    ASSERT_EQ(::ftruncate(theirs.fd(), 0), 0);
    (*mapped)->bytes()[0] = std::byte{1};
    EXPECT_TRUE((*mapped)->guard().broken());
  }
}

}  // namespace
}  // namespace penstock::agent
