#include "foreign_fd.h"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <unistd.h>
#include <vector>

namespace penstock::agent {
namespace {

// Never destroyed, and its thread never joined: it may hang in a close for as long as the process
// lives.
class Closer {
 public:
  static Closer& instance() {
    static Closer* closer = new Closer;
    return *closer;
  }

  void close_later(int fd) {
    const std::lock_guard lock(mutex_);
    fds_.push_back(fd);
    ++waiting_;
    if (!started_) std::thread([this] { run(); }).detach();
    started_ = true;
    work_.notify_one();
  }

  unsigned waiting() {
    const std::lock_guard lock(mutex_);
    return waiting_;
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      work_.wait(lock, [this] { return !fds_.empty(); });
      const int fd = fds_.back();
      fds_.pop_back();
      lock.unlock();
      ::close(fd);
      lock.lock();
      --waiting_;
    }
  }

  std::mutex mutex_;
  std::condition_variable work_;
  std::vector<int> fds_;
  unsigned waiting_ = 0;
  bool started_ = false;
};

}  // namespace

ForeignFd::~ForeignFd() {
  if (fd_ >= 0) Closer::instance().close_later(fd_);
}

unsigned ForeignFd::waiting() {
  return Closer::instance().waiting();
}

}  // namespace penstock::agent
