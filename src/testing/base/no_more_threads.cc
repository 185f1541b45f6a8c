#include "penstock/testing/no_more_threads.h"

#include <cstddef>
#include <gtest/gtest.h>

namespace penstock::test {

NoMoreThreads::NoMoreThreads() {
  EXPECT_EQ(::pthread_getattr_default_np(&before_), 0);
  pthread_attr_t too_much = before_;
  EXPECT_EQ(::pthread_attr_setstacksize(&too_much, size_t{1} << 46), 0);
  EXPECT_EQ(::pthread_setattr_default_np(&too_much), 0);
}

NoMoreThreads::~NoMoreThreads() {
  EXPECT_EQ(::pthread_setattr_default_np(&before_), 0);
}

}  // namespace penstock::test
