#include "penstock/resources/foreign_fd.h"

#include "limits.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <fcntl.h>
#include <fmt/format.h>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace penstock::resources {
namespace {

struct ToClose {
  int fd = -1;
  std::shared_ptr<Account> sender;
  Charge charge;
};

// Never destroyed, and its threads never joined: they may hang in a close for as long as the
// process lives.
class Closer {
 public:
  static Closer& instance() {
    static Closer* closer = new Closer;
    return *closer;
  }

  void close_later(ToClose one) {
    const std::lock_guard lock(mutex_);
    ASSERT(one.fd >= 0 && one.sender != nullptr);
    const Account* const owner = one.sender.get();
    Queue& queue = queues_[owner];
    queue.uid = owner->uid();
    queue.waiting.push_back(std::move(one));
    ++left_;
    if (queue.is_served) return;
    queue.is_served = true;
    ready_.push_back(owner);
    wake_thread(queue.uid);
  }

  std::string that_hang(std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    closed_.wait_for(lock, patience, [this] { return left_ == 0; });
    std::map<uint32_t, size_t> by_user;
    for (const auto& [owner, queue] : queues_) {
      by_user[queue.uid] += queue.waiting.size() + (queue.is_closing ? 1 : 0);
    }
    std::string text;
    for (const auto& [uid, count] : by_user) {
      if (count > 0) text += fmt::format("{}{} of user {}", text.empty() ? "" : ", ", count, uid);
    }
    return text;
  }

 private:
  // A session's.
  struct Queue {
    uint32_t uid = 0;
    std::deque<ToClose> waiting;
    bool is_served = false;   // in ready_, or a thread has it
    bool is_closing = false;  // a thread is in close()
  };

  // With mutex_ held, as below. Where there can be no more threads, one that comes back takes it.
  void wake_thread(uint32_t uid) {
    work_.notify_one();
    if (idle_ >= ready_.size() || threads_ >= limits::kCloseThreadsMax) return;
    try {
      std::thread([this] { run(); }).detach();
      ++threads_;
    } catch (const std::system_error&) {
      log::warning("descriptors of user {} are closed later: no thread can be started", uid);
    }
  }

  // A queue whose user has its share of threads in closes waits for one of these.
  std::deque<const Account*>::iterator next_ready() {
    auto next = ready_.begin();
    while (next != ready_.end() &&
           closing_[queues_.at(*next).uid] >= limits::kCloseThreadsPerUserMax) {
      ++next;
    }
    return next;
  }

  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      auto next = next_ready();
      if (next == ready_.end()) {
        if (idle_ >= limits::kCloseThreadsIdleMax) break;
        ++idle_;
        work_.wait(lock);
        --idle_;
        continue;
      }
      const Account* const owner = *next;
      ready_.erase(next);
      serve(owner, lock);
    }
    ASSERT(threads_ > 0);
    --threads_;
  }

  void serve(const Account* owner, std::unique_lock<std::mutex>& lock) {
    Queue& queue = queues_.at(owner);  // stays: is_served
    ASSERT(queue.is_served && !queue.is_closing && !queue.waiting.empty());
    const uint32_t uid = queue.uid;
    ++closing_[uid];
    while (true) {
      const ToClose one = std::move(queue.waiting.front());
      queue.waiting.pop_front();
      queue.is_closing = true;
      lock.unlock();
      ::close(one.fd);
      lock.lock();
      queue.is_closing = false;
      ASSERT(left_ > 0);
      --left_;
      if (!queue.waiting.empty()) continue;
      // Before the charge goes and the account perhaps with it: another may get its address.
      queues_.erase(owner);
      break;
    }
    if (--closing_[uid] == 0) closing_.erase(uid);
    closed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable work_, closed_;
  std::map<const Account*, Queue> queues_;
  std::deque<const Account*> ready_;
  std::map<uint32_t, uint32_t> closing_;  // threads, by user
  size_t left_ = 0;
  size_t idle_ = 0;
  uint32_t threads_ = 0;
};

}  // namespace

ForeignFd::~ForeignFd() {
  if (fd_ < 0) return;
  // Only shared memory has seals. Its close calls into no file system that a program serves, and a
  // thread that is woken for it costs more.
  if (::fcntl(fd_, F_GET_SEALS) >= 0) {
    ::close(fd_);
  } else {
    Closer::instance().close_later({fd_, std::move(sender_), std::move(charge_)});
  }
}

Status ForeignFd::charge() {
  ASSERT(fd_ >= 0 && sender_ != nullptr);
  TRY_ASSIGN(charge_, Charge::take(sender_, Resource::descriptors, 1));
  return Code::ok;
}

std::string descriptors_that_hang(std::chrono::milliseconds patience) {
  return Closer::instance().that_hang(patience);
}

}  // namespace penstock::resources
