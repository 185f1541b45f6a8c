// Threads that run submitted operations, behind a bounded queue.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "penstock/engine.h"

namespace penstock::kv {

// Thread safe.
class Workers {
 public:
  using Execute = std::function<Status(engine::KvOp&)>;

  // `execute` runs on `threads` threads at once.
  Workers(int threads, Execute execute);
  ~Workers() { stop(); }

  // Leads to one completion on op.home: what execute() returned; busy when the queue is full;
  // closed after stop().
  void submit(engine::KvOp& op);
  // Ends what is queued with closed and joins the threads.
  void stop();

 private:
  void work();

  const Execute execute_;
  std::mutex mutex_;
  std::condition_variable wake_;
  IntrusiveList<engine::KvOp> queue_;
  size_t queued_ = 0;
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace penstock::kv
