// Threads that wait for operations of a loop, whoever polls that.
#pragma once

#include "penstock/engine.h"

namespace penstock::cluster {

// Begins `op` in the loop by `begin(op)`, and waits for its end.
template <class Operation, class Begin>
Status run_and_wait(engine::BlockingCaller& caller, engine::Loop& loop, Operation& op,
                    const Begin& begin) {
  struct Waiter {
    engine::Loop* loop = nullptr;
    engine::Op* done = nullptr;
  } waiter;
  return caller.call(loop, [&](engine::Op& done) {
    waiter = {&loop, &done};
    op.owner = &waiter;
    op.completion = [](engine::Op& ended) {
      const auto& self = ended.owner_as<Waiter>();
      self.loop->complete(*self.done, ended.status);
    };
    begin(op);
  });
}

inline void wait(engine::BlockingCaller& caller, engine::Loop& loop, engine::Duration time) {
  engine::Timer timer;
  (void)run_and_wait(caller, loop, timer,
                     [&](engine::Timer& due) { loop.start(due, loop.now() + time); });
}

}  // namespace penstock::cluster
