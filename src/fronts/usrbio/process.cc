#include "process.h"

namespace penstock::usrbio {

Process& Process::instance() {
  static Process* const process = new Process;
  return *process;
}

Process::Process() {
  front::on_fork({before_fork, after_fork_in_parent, after_fork_in_child});
}

// No thread is inside a table while the process is copied. The order is the one in which the tables
// call one another.
void Process::before_fork() {
  Process& process = instance();
  process.iovs_.lock();
  process.sessions_.lock();
}

void Process::after_fork_in_parent() {
  Process& process = instance();
  process.sessions_.unlock();
  process.iovs_.unlock();
}

void Process::after_fork_in_child() {
  Process& process = instance();
  process.sessions_.forget_all();
  process.files_.inherit();
  process.iovs_.inherit();
  // Its thread has not come along, and its mutex may be held by it for ever.
  (void)process.timer_.release();
  process.timer_ = std::make_unique<FlushTimer>();
  process.sessions_.unlock();
  process.iovs_.unlock();
}

}  // namespace penstock::usrbio
