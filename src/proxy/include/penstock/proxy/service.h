// The seam between rings for kernels and what kernels can ask for.
#pragma once

#include <span>

#include "penstock/ring.h"

namespace penstock::proxy {

// Carries out the requests of one ring. Kernels are not trusted: every field of a request is
// checked here. Each request is answered once in the ring's queue, now or later, by any thread.
class Service {
 public:
  virtual ~Service() = default;
  // At each turn of the rings' thread, also when nothing was asked. Not to be kept: the requests
  // are copied where they are needed for longer.
  virtual void serve(std::span<const ring::KernelQueue::Taken> asked) = 0;
  // Whether serve() has something to do though nothing was asked. The rings' thread.
  virtual bool has_work() const = 0;
  // The rings' thread has left the ring for good. Returns when all is answered, and nothing writes
  // to the region any more.
  virtual void end() = 0;
};

}  // namespace penstock::proxy
