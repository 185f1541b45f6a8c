// Threads for operations on host memory that no calling thread waits for: those of batches and
// streams.
#pragma once

#include "backend.h"
#include "limits.h"

#include <functional>

#include "penstock/engine.h"

namespace penstock::cufile {

// First come, first served. Threads start with the first operations, and take no signals.
class HostThreads {
 public:
  // `body` carries out an operation and fills in its end.
  explicit HostThreads(std::function<void(Operation&)> body)
      : pool_({.name = "penstock-host",
               .what = "a thread for cuFile's operations on host memory",
               .count_max = limits::kHostThreads,
               .start = engine::WorkerOptions::Start::on_demand},
              [body = std::move(body)](ListNode& item) {
                auto& operation = static_cast<Operation&>(item);
                body(operation);
                operation.ended(operation);
              }) {}

  // Where no thread can be started, it ends at once.
  void submit(Operation& operation) {
    const Status status = pool_.submit(operation);
    if (!status.ok()) end(operation, status);
  }
  // One that has not begun ends with cancelled.
  void cancel(Operation& operation) {
    if (pool_.withdraw(operation)) end(operation, Code::cancelled);
  }

 private:
  static void end(Operation& operation, Status status) {
    operation.status = status;
    operation.ended(operation);
  }

  engine::WorkerPool pool_;
};

}  // namespace penstock::cufile
