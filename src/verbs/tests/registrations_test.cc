#include "registrations.h"

#include <gtest/gtest.h>
#include <vector>

#include "penstock/testing_verbs.h"

namespace penstock::verbs {
namespace {

class RegistrationsTest : public testing::Test {
 protected:
  RegistrationsTest() : memory_(64 * kKiB) {}
  MutableBytes part(uint64_t offset, uint64_t length) {
    return MutableBytes(memory_).subspan(offset, length);
  }
  Result<Registrations::Entry*> take(MutableBytes bytes, bool writable) {
    return registrations_.take({bytes.data(), bytes.size()}, writable);
  }

  std::vector<std::byte> memory_;
  test::SimFabric fabric_{1};
  test::SimDevice device_{fabric_};
  Registrations registrations_{device_, 32 * kKiB};
};

TEST_F(RegistrationsTest, what_was_announced_is_registered_once_and_stays) {
  registrations_.announce({part(0, 16 * kKiB)});
  EXPECT_EQ(registrations_.pinned(), 0u);
  auto* const first = *take(part(100, 1000), true);
  auto* const second = *take(part(0, 16 * kKiB), false);
  EXPECT_EQ(first, second);
  EXPECT_EQ(registrations_.pinned(), 16 * kKiB);
  registrations_.give_back(*first);
  EXPECT_EQ(registrations_.take_back(part(0, 16 * kKiB)), Status(Code::in_use));
  registrations_.give_back(*second);
  EXPECT_EQ(registrations_.pinned(), 16 * kKiB);
  EXPECT_EQ(registrations_.take_back(part(0, 16 * kKiB)), Status(Code::ok));
  EXPECT_EQ(registrations_.pinned(), 0u);
  EXPECT_EQ(registrations_.take_back(part(0, 16 * kKiB)), Status(Code::not_found));
  EXPECT_EQ(registrations_.temporary(), 0u);
}

TEST_F(RegistrationsTest, what_nobody_announced_goes_with_its_use) {
  registrations_.announce({part(0, 4 * kKiB)});
  // It begins in what was announced, and ends behind it.
  auto* const entry = *take(part(1000, 4 * kKiB), true);
  EXPECT_EQ(registrations_.temporary(), 1u);
  EXPECT_EQ(registrations_.pinned(), 4 * kKiB);
  registrations_.give_back(*entry);
  EXPECT_EQ(registrations_.pinned(), 0u);
}

TEST_F(RegistrationsTest, the_longest_unused_goes_for_another) {
  for (uint64_t i = 0; i < 3; ++i) registrations_.announce({part(i * 16 * kKiB, 16 * kKiB)});
  const auto use = [&](uint64_t i) {
    registrations_.give_back(**take(part(i * 16 * kKiB, 1), true));
  };
  use(0);
  use(1);
  use(0);
  EXPECT_EQ(registrations_.pinned(), 32 * kKiB);
  use(2);
  EXPECT_EQ(registrations_.pinned(), 32 * kKiB);
  // 1 has gone; 0 is there still, and in use nothing goes.
  auto* const zero = *take(part(0, 1), true);
  auto* const two = *take(part(32 * kKiB, 1), true);
  const auto refused = take(part(16 * kKiB, 1), true);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), Status(Code::busy));
  registrations_.give_back(*zero);
  registrations_.give_back(*two);
  EXPECT_EQ(registrations_.pinned(), 32 * kKiB);
}

TEST_F(RegistrationsTest, more_than_there_may_be_is_busy_and_throws_nobody_out) {
  registrations_.announce({part(0, 16 * kKiB)});
  registrations_.give_back(**take(part(0, 1), true));
  const auto refused = take(part(0, 32 * kKiB + 1), true);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), Status(Code::busy));
  EXPECT_EQ(registrations_.pinned(), 16 * kKiB);
}

TEST_F(RegistrationsTest, what_the_device_does_not_take_as_a_whole_is_registered_for_its_use) {
  device_.registered_bytes_max = 20 * kKiB;
  registrations_.announce({part(0, 32 * kKiB)});
  for (uint64_t i = 1; i <= 2; ++i) {
    auto* const entry = *take(part(kKiB, 4 * kKiB), true);
    EXPECT_EQ(registrations_.pinned(), 4 * kKiB);
    registrations_.give_back(*entry);
    EXPECT_EQ(registrations_.temporary(), i);
  }
  EXPECT_EQ(registrations_.take_back(part(0, 32 * kKiB)), Status(Code::ok));
}

TEST(Registrations, large_regions_are_registered_in_parts) {
  const MutableBytes region(reinterpret_cast<std::byte*>(uint64_t{1} << 40), 150 * kMiB);
  test::SimFabric fabric{1};
  test::SimDevice device{fabric};
  Registrations registrations{device, kGiB};
  registrations.announce({region});
  const auto use = [&](uint64_t offset, uint64_t length) {
    auto* const entry = *registrations.take({region.data() + offset, length}, true);
    EXPECT_EQ(registrations.take_back(region), Status(Code::in_use));
    registrations.give_back(*entry);
  };
  use(10, kMiB);
  EXPECT_EQ(registrations.pinned(), 64 * kMiB);
  use(149 * kMiB, kMiB);
  EXPECT_EQ(registrations.pinned(), (64 + 22) * kMiB);
  EXPECT_EQ(registrations.temporary(), 0u);
  auto* const between = *registrations.take({region.data() + 64 * kMiB - 1, 2}, true);
  EXPECT_EQ(registrations.temporary(), 1u);
  registrations.give_back(*between);
  EXPECT_EQ(registrations.take_back(region.first(64 * kMiB + 1)), Status(Code::not_found));
  EXPECT_EQ(registrations.take_back(region), Status(Code::ok));
  EXPECT_EQ(registrations.pinned(), 0u);
}

TEST_F(RegistrationsTest, what_the_device_has_against_it_is_told) {
  device_.lose();
  const auto refused = take(part(0, 1), true);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), Status(Code::io_error));
}

}  // namespace
}  // namespace penstock::verbs
