#include "kernel_watch.h"

#include <csignal>
#include <gtest/gtest.h>
#include <pthread.h>

namespace penstock::nvshmem {
namespace {

TEST(KernelWatch, tells_once_when_a_kernel_has_reported) {
  uint32_t why = 0;
  std::atomic<int> told{0};
  {
    KernelWatch watch(&why, [&] { ++told; });
    watch.look();
    EXPECT_EQ(told, 0);
    __atomic_store_n(&why, 2, __ATOMIC_RELEASE);
    while (told == 0) std::this_thread::yield();
    watch.look();
  }
  EXPECT_EQ(told, 1);
}

TEST(KernelWatch, ends_without_a_report) {
  const uint32_t why = 0;
  const KernelWatch watch(&why, [] { FAIL(); });
}

TEST(KernelWatch, leaves_signals_to_the_program) {
  uint32_t why = 1;
  std::atomic<int> blocked{-1};
  sigset_t before;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &before);
  {
    const KernelWatch watch(&why, [&] {
      sigset_t mask;
      ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
      blocked = ::sigismember(&mask, SIGINT);
    });
    while (blocked == -1) std::this_thread::yield();
  }
  EXPECT_EQ(blocked, 1);
  sigset_t after;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &after);
  EXPECT_EQ(::sigismember(&after, SIGINT), ::sigismember(&before, SIGINT));
}

}  // namespace
}  // namespace penstock::nvshmem
