#include "registrations.h"

#include <gtest/gtest.h>

namespace penstock::nvshmem {
namespace {

const void* at(uintptr_t address) {
  return reinterpret_cast<const void*>(address);
}

TEST(Registrations, refuses_what_overlaps) {
  Registrations all;
  EXPECT_TRUE(all.add(at(1000), 100));
  EXPECT_FALSE(all.add(at(1000), 100));
  EXPECT_FALSE(all.add(at(1099), 1));
  EXPECT_FALSE(all.add(at(900), 101));
  EXPECT_FALSE(all.add(at(900), 1000));
  EXPECT_TRUE(all.add(at(1100), 1));
  EXPECT_TRUE(all.add(at(900), 100));
}

TEST(Registrations, refuses_what_is_no_memory) {
  Registrations all;
  EXPECT_FALSE(all.add(nullptr, 1));
  EXPECT_FALSE(all.add(at(1000), 0));
  EXPECT_FALSE(all.add(at(1000), UINT64_MAX - 10));
}

TEST(Registrations, gives_back_what_begins_there) {
  Registrations all;
  EXPECT_TRUE(all.add(at(1000), 100));
  EXPECT_EQ(all.remove(at(1001)), std::nullopt);
  EXPECT_EQ(all.remove(at(1000)), 100u);
  EXPECT_EQ(all.remove(at(1000)), std::nullopt);
  EXPECT_TRUE(all.add(at(1050), 100));
  all.clear();
  EXPECT_TRUE(all.add(at(1000), 100));
}

}  // namespace
}  // namespace penstock::nvshmem
