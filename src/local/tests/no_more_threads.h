// A process that may have no thread more.
#pragma once

#include <gtest/gtest.h>
#include <pthread.h>

namespace penstock::local {

// As long as it lives: each new thread would get a stack that no memory is large enough for.
class NoMoreThreads {
 public:
  NoMoreThreads() {
    EXPECT_EQ(::pthread_getattr_default_np(&before_), 0);
    pthread_attr_t too_much = before_;
    EXPECT_EQ(::pthread_attr_setstacksize(&too_much, size_t{1} << 46), 0);
    EXPECT_EQ(::pthread_setattr_default_np(&too_much), 0);
  }
  ~NoMoreThreads() { EXPECT_EQ(::pthread_setattr_default_np(&before_), 0); }
  NoMoreThreads(const NoMoreThreads&) = delete;
  NoMoreThreads& operator=(const NoMoreThreads&) = delete;

 private:
  pthread_attr_t before_{};
};

}  // namespace penstock::local
