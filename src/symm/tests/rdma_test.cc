#include "penstock/symm/rdma.h"

#include <cstdlib>
#include <gtest/gtest.h>

namespace penstock::symm {
namespace {

TEST(RdmaChoiceTest, is_what_the_environment_says) {
  ::unsetenv("PENSTOCK_RDMA");
  ::unsetenv("PENSTOCK_RDMA_DEVICE");
  EXPECT_EQ(rdma_from_environment()->use, RdmaChoice::Use::automatic);
  EXPECT_EQ(rdma_from_environment()->device, "");
  ::setenv("PENSTOCK_RDMA", "off", 1);
  EXPECT_EQ(rdma_from_environment()->use, RdmaChoice::Use::off);
  ::setenv("PENSTOCK_RDMA", "required", 1);
  ::setenv("PENSTOCK_RDMA_DEVICE", "mlx5_1", 1);
  EXPECT_EQ(rdma_from_environment()->use, RdmaChoice::Use::required);
  EXPECT_EQ(rdma_from_environment()->device, "mlx5_1");
  ::setenv("PENSTOCK_RDMA", "yes", 1);
  const auto refused = rdma_from_environment();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "PENSTOCK_RDMA is 'yes': say auto, off or required");
  ::unsetenv("PENSTOCK_RDMA");
  ::unsetenv("PENSTOCK_RDMA_DEVICE");
}

}  // namespace
}  // namespace penstock::symm
