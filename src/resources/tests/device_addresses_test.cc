#include "penstock/resources/device_addresses.h"

#include <cerrno>
#include <gtest/gtest.h>
#include <map>
#include <sys/uio.h>
#include <unistd.h>
#include <vector>

#include "penstock/engine.h"

namespace penstock::resources {
namespace {

TEST(DeviceAddresses, lie_as_far_into_a_page_as_is_asked_for) {
  for (const uint64_t offset : {0, 1, 512, 4095, 4096, 5000}) {
    const auto taken = DeviceAddresses::take(offset, 100'000);
    ASSERT_TRUE(taken);
    EXPECT_EQ(reinterpret_cast<uintptr_t>((*taken)->bytes().data()) % 4096, offset % 4096);
    EXPECT_EQ((*taken)->bytes().size(), 100'000u);
  }
}

TEST(DeviceAddresses, lead_nowhere) {
  const auto taken = DeviceAddresses::take(0, kMiB);
  ASSERT_TRUE(taken);
  std::byte byte{};
  iovec here{&byte, 1};
  iovec there{(*taken)->bytes().data(), 1};
  EXPECT_EQ(::process_vm_readv(::getpid(), &here, 1, &there, 1, 0), -1);
  EXPECT_EQ(errno, EFAULT);
}

// However many of the largest come and go.
TEST(DeviceAddresses, are_apart_and_come_again) {
  constexpr uint64_t kLargest = uint64_t{1} << 40;
  engine::SeededRandom random(1);
  std::map<std::byte*, std::unique_ptr<DeviceAddresses>> all;
  for (int i = 0; i < 200'000; ++i) {
    if (all.size() == 1000 || (!all.empty() && random.chance(1, 2))) {
      auto victim = all.lower_bound(all.begin()->first + random.below(kLargest * 100));
      if (victim == all.end()) victim = all.begin();
      all.erase(victim);
      continue;
    }
    auto taken = DeviceAddresses::take(random.below(4096), kLargest - random.below(kLargest / 2));
    ASSERT_TRUE(taken);
    const MutableBytes bytes = (*taken)->bytes();
    const auto after = all.upper_bound(bytes.data());
    ASSERT_TRUE(after == all.end() || bytes.data() + bytes.size() <= after->first);
    if (after != all.begin()) {
      const MutableBytes before = std::prev(after)->second->bytes();
      ASSERT_LE(before.data() + before.size(), bytes.data());
    }
    all[bytes.data()] = std::move(*taken);
  }
}

}  // namespace
}  // namespace penstock::resources
