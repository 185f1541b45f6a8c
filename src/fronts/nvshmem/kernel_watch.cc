#include "kernel_watch.h"

#include "limits.h"

#include <csignal>

namespace penstock::nvshmem {

KernelWatch::KernelWatch(const uint32_t* why, std::function<void()> tell)
    : why_(why), tell_(std::move(tell)) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

KernelWatch::~KernelWatch() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void KernelWatch::look() {
  // Pairs with the kernel's fence between what it reports and why.
  if (__atomic_load_n(why_, __ATOMIC_ACQUIRE) == 0 || has_told_.exchange(true)) return;
  tell_();
}

void KernelWatch::run() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, limits::kBetweenLooks, [this] { return ends_; })) {
    lock.unlock();
    look();
    lock.lock();
  }
}

}  // namespace penstock::nvshmem
