// Op: one asynchronous operation, owned by its caller.
#pragma once

#include "penstock/base.h"

namespace penstock::engine {

// The caller fills a derived class, submits it and keeps it alive and in place until its completion
// function has been entered; from then on it may be reused or destroyed. The completion function
// runs only inside Loop::poll() of the loop that the operation was submitted on, never inside
// submit(). Nothing is allocated.
class Op : public ListNode {
 public:
  using Completion = void (*)(Op&);

  Completion completion = nullptr;
  // For the caller: typically the larger operation that this one is a part of.
  void* owner = nullptr;
  // Valid once the completion function runs.
  Status status;

  template <class T>
  T& owner_as() {
    return *static_cast<T*>(owner);
  }

 private:
  friend class Loop;
  Op* remote_next_ = nullptr;  // link in Loop's queue of operations from other threads
};

}  // namespace penstock::engine
