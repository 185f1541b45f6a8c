#include <pthread.h>

#include "penstock/engine.h"

namespace penstock::engine {
namespace {

std::function<void()> named(std::string name, std::function<void()> body) {
  return [name = std::move(name), body = std::move(body)] {
    // The kernel keeps 15 characters.
    ::pthread_setname_np(::pthread_self(), name.substr(0, 15).c_str());
    body();
  };
}

}  // namespace

void Mutex::lock() {
  if (Threads* const threads = Threads::simulated()) return lock_simulated(*threads);
  system_.lock();
  DASSERT(holder_ == Threads::kNone);  // A thread outside has a mutex of a simulation.
}

bool Mutex::try_lock() {
  Threads* const threads = Threads::simulated();
  if (threads == nullptr) return system_.try_lock();
  threads->may_switch();
  if (holder_ != Threads::kNone) return false;
  holder_ = threads->self();
  return true;
}

void Mutex::unlock() {
  if (Threads* const threads = Threads::simulated()) return unlock_simulated(*threads);
  system_.unlock();
}

void Mutex::lock_simulated(Threads& threads) {
  threads.may_switch();
  ASSERT(holder_ != threads.self());
  while (holder_ != Threads::kNone) {
    threads.wait({.address = this, .what = "a mutex", .holder = holder_, .brief = brief_});
  }
  holder_ = threads.self();
}

void Mutex::unlock_simulated(Threads& threads) {
  ASSERT(holder_ == threads.self());
  holder_ = Threads::kNone;
  threads.wake_one(this);
}

void SharedMutex::lock() {
  Threads* const threads = Threads::simulated();
  if (threads == nullptr) return system_.lock();
  threads->may_switch();
  while (writer_ != Threads::kNone || readers_ != 0) {
    threads->wait({.address = this, .what = "a shared mutex", .holder = writer_, .brief = brief_});
  }
  writer_ = threads->self();
}

void SharedMutex::unlock() {
  Threads* const threads = Threads::simulated();
  if (threads == nullptr) return system_.unlock();
  ASSERT(writer_ == threads->self());
  writer_ = Threads::kNone;
  threads->wake_all(this);
}

void SharedMutex::lock_shared() {
  Threads* const threads = Threads::simulated();
  if (threads == nullptr) return system_.lock_shared();
  threads->may_switch();
  while (writer_ != Threads::kNone) {
    threads->wait({.address = this, .what = "a shared mutex", .holder = writer_, .brief = brief_});
  }
  ++readers_;
}

void SharedMutex::unlock_shared() {
  Threads* const threads = Threads::simulated();
  if (threads == nullptr) return system_.unlock_shared();
  ASSERT(readers_ > 0);
  if (--readers_ == 0) threads->wake_all(this);
}

void Condition::notify_one() {
  if (Threads* const threads = Threads::simulated()) return threads->wake_one(this);
  system_.notify_one();
}

void Condition::notify_all() {
  if (Threads* const threads = Threads::simulated()) return threads->wake_all(this);
  system_.notify_all();
}

void Condition::wait(Lock& lock) {
  ASSERT(lock.owns_lock());
  if (Threads* const threads = Threads::simulated()) {
    lock.unlock();
    threads->wait({.address = this, .what = "a condition"});
    lock.lock();
    return;
  }
  std::unique_lock<std::mutex> system(lock.mutex()->system_, std::adopt_lock);
  system_.wait(system);
  system.release();
}

bool Condition::wait_for(Lock& lock, Duration at_most) {
  ASSERT(lock.owns_lock());
  if (Threads* const threads = Threads::simulated()) {
    lock.unlock();
    const bool woken = threads->wait({.address = this, .what = "a condition"}, at_most);
    lock.lock();
    return woken;
  }
  std::unique_lock<std::mutex> system(lock.mutex()->system_, std::adopt_lock);
  const std::cv_status status = system_.wait_for(system, at_most);
  system.release();
  return status == std::cv_status::no_timeout;
}

Time Condition::now() {
  Threads* const threads = Threads::simulated();
  return threads != nullptr ? threads->now() : system_clock().now();
}

Thread::Thread(std::string name, std::function<void()> body) {
  if (Threads* const threads = Threads::simulated()) {
    number_ = threads->start(std::move(name), std::move(body));
    return;
  }
  system_ = std::thread(named(std::move(name), std::move(body)));
}

Outcome<Thread> Thread::start(std::string name, const char* what, std::function<void()> body) {
  if (Threads::simulated() != nullptr) return Thread(std::move(name), std::move(body));
  Thread started;
  TRY_ASSIGN(started.system_, start_thread(what, named(std::move(name), std::move(body))));
  return started;
}

Thread& Thread::operator=(Thread&& other) noexcept {
  ASSERT(!joinable());
  system_ = std::move(other.system_);
  number_ = std::exchange(other.number_, Threads::kNone);
  return *this;
}

void Thread::join() {
  ASSERT(joinable());
  if (number_ == Threads::kNone) return system_.join();
  Threads* const threads = Threads::simulated();
  ASSERT(threads != nullptr);
  threads->join(std::exchange(number_, Threads::kNone));
}

}  // namespace penstock::engine
