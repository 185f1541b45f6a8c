#include "penstock/connection/forked.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <pthread.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace penstock::connection {
namespace {

// Relaxed: written only by the one thread of a process just forked.
std::atomic<uint64_t> generation{1};

// All that a child is to close. Locked while the process forks, so that it is whole in the child.
struct Descriptors {
  std::mutex mutex;
  std::vector<int> open;
};

// Never destroyed: sessions may be closed, and processes forked, at the very end.
Descriptors& descriptors() {
  static auto* const made = new Descriptors;
  return *made;
}

void before_fork() {
  descriptors().mutex.lock();
}

void in_parent() {
  descriptors().mutex.unlock();
}

// Closes only: what is at the other end is still the parent's, which goes on using it.
void in_child() {
  generation.fetch_add(1, std::memory_order_relaxed);
  for (const int fd : descriptors().open) ::close(fd);
  descriptors().open.clear();
  descriptors().mutex.unlock();
}

}  // namespace

uint64_t fork_generation() {
  static const int registered = ::pthread_atfork(before_fork, in_parent, in_child);
  (void)registered;
  return generation.load(std::memory_order_relaxed);
}

ParentsFd::ParentsFd(UniqueFd fd) {
  if (!fd) return;
  (void)fork_generation();
  const std::lock_guard lock(descriptors().mutex);
  descriptors().open.push_back(fd.get());
  fd_ = fd.release();
}

ParentsFd::ParentsFd(ParentsFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

ParentsFd& ParentsFd::operator=(ParentsFd&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

void ParentsFd::reset() {
  if (fd_ < 0) return;
  const std::lock_guard lock(descriptors().mutex);
  const int fd = std::exchange(fd_, -1);
  const auto found = std::find(descriptors().open.begin(), descriptors().open.end(), fd);
  // In a child it is closed already, and the number may be another descriptor's.
  if (found == descriptors().open.end()) return;
  descriptors().open.erase(found);
  ::close(fd);
}

}  // namespace penstock::connection
