#include "penstock/engine.h"

namespace penstock::engine {
namespace {

// Two hops: the first operation enters the loop and calls `start`; the second is the one that start
// completes.
struct Call {
  const std::function<void(Op&)>* start = nullptr;
  Op enter;
  Op done;
  std::atomic<bool> finished{false};
  Status status;

  // `ended` is called in the loop's thread, once the status is known.
  Call(const std::function<void(Op&)>& function, void (*ended)(Call&)) : start(&function) {
    enter.owner = done.owner = this;
    enter.completion = [](Op& op) {
      Call& call = op.owner_as<Call>();
      (*call.start)(call.done);
    };
    done.completion = [](Op& op) {
      Call& call = op.owner_as<Call>();
      call.status = op.status;
      call.end(call);
    };
    end = ended;
  }
  void (*end)(Call&);
};

Status call_from_system_thread(Loop& loop, const std::function<void(Op&)>& start) {
  struct Parked : Call {
    std::shared_ptr<FutexParker> parker;
    using Call::Call;
  };
  static thread_local std::shared_ptr<FutexParker> parker =
      std::make_shared<FutexParker>(system_clock());
  Parked call(start, [](Call& ended) {
    // Kept alive here: the waiting thread may end as soon as it sees `finished`.
    const std::shared_ptr<FutexParker> waiter = static_cast<Parked&>(ended).parker;
    // Release pairs with the acquire of the waiting thread, which may destroy the Call at once.
    ended.finished.store(true, std::memory_order_release);
    waiter->unpark();
  });
  call.parker = parker;
  loop.complete_remote(call.enter, Code::ok);
  while (!call.finished.load(std::memory_order_acquire)) parker->park(kNever);
  return call.status;
}

Status call_from_simulated_thread(Threads& threads, Loop& loop,
                                  const std::function<void(Op&)>& start) {
  Call call(start, [](Call& ended) {
    ended.finished.store(true, std::memory_order_relaxed);
    Threads::simulated()->wake_all(&ended);
  });
  loop.complete_remote(call.enter, Code::ok);
  while (!call.finished.load(std::memory_order_relaxed)) {
    threads.wait({.address = &call, .what = "an operation of a loop"});
  }
  return call.status;
}

class ThreadCaller final : public BlockingCaller {
 public:
  Status call(Loop& loop, const std::function<void(Op&)>& start) override {
    Threads* const threads = Threads::simulated();
    return threads != nullptr ? call_from_simulated_thread(*threads, loop, start)
                              : call_from_system_thread(loop, start);
  }
};

}  // namespace

BlockingCaller& thread_caller() {
  static ThreadCaller caller;
  return caller;
}

Status PollingCaller::call(Loop& loop, const std::function<void(Op&)>& start) {
  // A simulation polls its loops itself.
  if (Threads::simulated() != nullptr) return thread_caller().call(loop, start);
  Call call(start, [](Call& ended) { ended.finished.store(true, std::memory_order_relaxed); });
  loop.complete(call.enter, Code::ok);
  while (!call.finished.load(std::memory_order_relaxed)) loop.poll_or_park(kNever);
  return call.status;
}

Result<KvTransaction::Values> KvTransaction::get_many(std::span<const std::string> keys) {
  Values values;
  values.reserve(keys.size());
  for (const std::string& key : keys) {
    TRY_ASSIGN(std::optional<std::string> value, get(key));
    values.push_back(std::move(value));
  }
  return values;
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
