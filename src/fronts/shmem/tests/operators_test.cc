#include "operators.h"

#include <cstdint>
#include <gtest/gtest.h>
#include <limits>

namespace penstock::shmem {
namespace {

TEST(Operators, wrap_around_as_the_machine_does) {
  EXPECT_EQ(Sum()(std::numeric_limits<int>::max(), 1), std::numeric_limits<int>::min());
  EXPECT_EQ(Prod()(uint16_t{65535}, uint16_t{65535}), uint16_t{1});
  EXPECT_EQ(Prod()(std::numeric_limits<int64_t>::min(), int64_t{-1}),
            std::numeric_limits<int64_t>::min());
  EXPECT_EQ(Sum()(int8_t{127}, int8_t{1}), int8_t{-128});
  EXPECT_EQ(Prod()(int8_t{-3}, int8_t{5}), int8_t{-15});
}

TEST(Operators, order_and_combine) {
  EXPECT_EQ(Max()(-1, 1), 1);
  EXPECT_EQ(Min()(-1, 1), -1);
  EXPECT_EQ(Max()(2.5, 1.0), 2.5);
  EXPECT_EQ(And()(uint8_t{12}, uint8_t{10}), 8);
  EXPECT_EQ(Or()(uint8_t{12}, uint8_t{10}), 14);
  EXPECT_EQ(Xor()(uint8_t{12}, uint8_t{10}), 6);
  EXPECT_EQ(Prod()(std::complex<float>(0, 1), std::complex<float>(0, 1)),
            std::complex<float>(-1, 0));
}

}  // namespace
}  // namespace penstock::shmem
