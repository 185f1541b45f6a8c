// Threads that run submitted operations, behind a bounded queue.
#pragma once

#include "limits.h"

#include <functional>

#include "penstock/engine.h"

namespace penstock::kv {

// Thread safe.
class Workers {
 public:
  using Execute = std::function<Status(engine::KvOp&)>;

  // `execute` runs on `threads` threads at once.
  Workers(int threads, Execute execute)
      : pool_(
            {.name = "penstock-kv", .count_max = static_cast<uint32_t>(threads)},
            [execute = std::move(execute)](ListNode& item) {
              auto& op = static_cast<engine::KvOp&>(item);
              const Status status = execute(op);
              op.home->complete_remote(op, status);
            },
            kQueueMax) {}
  ~Workers() { stop(); }

  // Leads to one completion on op.home: what execute() returned; busy when the queue is full;
  // closed after stop().
  void submit(engine::KvOp& op) {
    ASSERT(op.home != nullptr && !op.linked());
    const Status status = pool_.submit(op);
    if (!status.ok()) op.home->complete_remote(op, status);
  }
  // Ends what is queued with closed and joins the threads.
  void stop() {
    pool_.stop([](ListNode& item) {
      auto& op = static_cast<engine::KvOp&>(item);
      op.home->complete_remote(op, Code::closed);
    });
  }

 private:
  engine::WorkerPool pool_;
};

}  // namespace penstock::kv
