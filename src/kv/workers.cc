#include "workers.h"

#include "limits.h"

namespace penstock::kv {

Workers::Workers(int threads, Execute execute) : execute_(std::move(execute)) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

void Workers::submit(engine::KvOp& op) {
  ASSERT(op.home != nullptr && !op.linked());
  Code refusal = Code::ok;
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) {
      refusal = Code::closed;
    } else if (queued_ == kQueueMax) {
      refusal = Code::busy;
    } else {
      queue_.push_back(op);
      ++queued_;
    }
  }
  if (refusal == Code::ok) {
    wake_.notify_one();
  } else {
    op.home->complete_remote(op, refusal);
  }
}

void Workers::stop() {
  IntrusiveList<engine::KvOp> abandoned;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    abandoned.take_all(queue_);
    queued_ = 0;
  }
  wake_.notify_all();
  while (engine::KvOp* op = abandoned.pop_front()) op->home->complete_remote(*op, Code::closed);
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void Workers::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    // No deadline: an idle worker has nothing else to do, and stop() wakes it.
    wake_.wait(lock, [this] { return stopped_ || !queue_.empty(); });
    engine::KvOp* op = queue_.pop_front();
    if (op == nullptr) return;
    ASSERT(queued_ > 0);
    --queued_;
    lock.unlock();
    const Status status = execute_(*op);
    op->home->complete_remote(*op, status);
    lock.lock();
  }
}

}  // namespace penstock::kv
