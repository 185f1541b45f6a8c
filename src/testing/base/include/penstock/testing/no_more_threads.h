// A process that may have no thread more.
#pragma once

#include <pthread.h>

namespace penstock::test {

// As long as it lives: each new thread would get a stack that no memory is large enough for.
class NoMoreThreads {
 public:
  NoMoreThreads();
  ~NoMoreThreads();
  NoMoreThreads(const NoMoreThreads&) = delete;
  NoMoreThreads& operator=(const NoMoreThreads&) = delete;

 private:
  pthread_attr_t before_{};
};

}  // namespace penstock::test
