#include "penstock/engine.h"

namespace penstock::engine {
namespace {

// Two hops: the first operation enters the loop and calls `start`; the second is the one that start
// completes.
struct Call {
  const std::function<void(Op&)>* start = nullptr;
  Op enter;
  Op done;
  std::shared_ptr<FutexParker> parker;
  std::atomic<bool> finished{false};
  Status status;

  void prepare(const std::function<void(Op&)>& function) {
    start = &function;
    enter.owner = done.owner = this;
    enter.completion = [](Op& op) {
      Call& call = op.owner_as<Call>();
      (*call.start)(call.done);
    };
    done.completion = [](Op& op) {
      Call& call = op.owner_as<Call>();
      // Kept alive here: the waiting thread may end as soon as it sees `finished`.
      const std::shared_ptr<FutexParker> waiter = call.parker;
      call.status = op.status;
      // Release pairs with the acquire of the waiting thread, which may destroy the Call at once.
      call.finished.store(true, std::memory_order_release);
      if (waiter != nullptr) waiter->unpark();
    };
  }
};

class ThreadCaller final : public BlockingCaller {
 public:
  Status call(Loop& loop, const std::function<void(Op&)>& start) override {
    static thread_local std::shared_ptr<FutexParker> parker =
        std::make_shared<FutexParker>(system_clock());
    Call call;
    call.parker = parker;
    call.prepare(start);
    loop.complete_remote(call.enter, Code::ok);
    while (!call.finished.load(std::memory_order_acquire)) parker->park(kNever);
    return call.status;
  }
};

}  // namespace

BlockingCaller& thread_caller() {
  static ThreadCaller caller;
  return caller;
}

Status PollingCaller::call(Loop& loop, const std::function<void(Op&)>& start) {
  Call call;
  call.prepare(start);
  loop.complete(call.enter, Code::ok);
  while (!call.finished.load(std::memory_order_relaxed)) loop.poll_or_park(kNever);
  return call.status;
}

Status Kv::run(KvMode mode, const std::function<Status(KvTransaction&)>& body) {
  struct FunctionOp final : KvOp {
    const std::function<Status(KvTransaction&)>* function = nullptr;
    Status body(KvTransaction& transaction) override { return (*function)(transaction); }
  };
  FunctionOp op;
  op.mode = mode;
  op.function = &body;
  return run(op);
}

}  // namespace penstock::engine
