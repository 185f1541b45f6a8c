#include "penstock/resources/bus_guard.h"

#include <fstream>
#include <gtest/gtest.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "penstock/resources/foreign_memory.h"
#include "penstock/testing.h"

namespace penstock::resources {
namespace {

using test::SharedMemory;

std::shared_ptr<Account> some_account() {
  return Accounts::make(bounds_of_process(), 0)->open(0);
}

TEST(BusGuard, turns_a_truncated_mapping_into_zeros_and_a_mark) {
  BusGuard::install();
  SharedMemory theirs(1 * kMiB, 0);
  auto mapped = ForeignMemory::map(some_account(), theirs.fd(), 0, theirs.size(), false);
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
    SharedMemory theirs(4096, 0);
    auto mapped = ForeignMemory::map(some_account(), theirs.fd(), 0, 4096, false);
    ASSERT_TRUE(mapped);
    EXPECT_FALSE((*mapped)->guard().broken());
    ASSERT_EQ(::ftruncate(theirs.fd(), 0), 0);
    (*mapped)->bytes()[0] = std::byte{1};
    EXPECT_TRUE((*mapped)->guard().broken());
  }
}

// Two huge pages, which the machine gives only if its administrator lets it; a test that runs as
// root lets it for as long as it runs.
class HugePages : public testing::Test {
 protected:
  static constexpr uint64_t kPage = 2 * kMiB;
  static constexpr const char* kSetting = "/proc/sys/vm/nr_overcommit_hugepages";

  void SetUp() override {
    BusGuard::install();
    std::ifstream(kSetting) >> before_;
    if (before_ < 4) std::ofstream(kSetting) << 4;
    file_.reset(::memfd_create("penstock-huge", MFD_CLOEXEC | MFD_HUGETLB | MFD_HUGE_2MB));
    if (!file_ || ::ftruncate(file_.get(), 2 * kPage) != 0 || !has_pages()) {
      GTEST_SKIP() << "no huge pages on this machine";
    }
  }
  void TearDown() override {
    if (before_ < 4) std::ofstream(kSetting) << before_;
  }
  // Makes them, too.
  bool has_pages() const {
    void* base = ::mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
    if (base == MAP_FAILED) return false;
    const bool made = ::madvise(base, 2 * kPage, MADV_POPULATE_WRITE) == 0;
    ::munmap(base, 2 * kPage);
    return made;
  }
  static bool is_mapped() {
    std::ifstream maps("/proc/self/maps");
    const std::string all{std::istreambuf_iterator<char>(maps), {}};
    return all.find("penstock-huge") != std::string::npos;
  }

  uint64_t before_ = 0;
  UniqueFd file_;
};

TEST_F(HugePages, that_are_truncated_become_zeros_and_a_mark) {
  auto mapped = ForeignMemory::map(some_account(), file_.get(), 0, 8192, false);
  ASSERT_TRUE(mapped) << mapped.error().message;
  volatile std::byte* ours = (*mapped)->bytes().data();
  *ours = std::byte{7};
  EXPECT_FALSE((*mapped)->guard().broken());
  ASSERT_EQ(::ftruncate(file_.get(), 0), 0);
  *ours = std::byte{8};
  EXPECT_TRUE((*mapped)->guard().broken());
}

TEST_F(HugePages, are_let_go_with_a_region_that_is_smaller_than_they) {
  for (const uint64_t offset : {uint64_t{0}, uint64_t{4096}, kPage - 4096}) {
    auto mapped = ForeignMemory::map(some_account(), file_.get(), offset, 8192, false);
    ASSERT_TRUE(mapped) << mapped.error().message;
    (*mapped)->bytes()[0] = std::byte{1};
    (*mapped)->bytes()[8191] = std::byte{1};
    EXPECT_TRUE(is_mapped());
    mapped->reset();
    EXPECT_FALSE(is_mapped()) << "a region at " << offset;
  }
}

}  // namespace
}  // namespace penstock::resources
