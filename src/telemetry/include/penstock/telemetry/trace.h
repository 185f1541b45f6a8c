// Single operations with their steps and times, of one thread, while a trace is being taken.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "penstock/telemetry/operations.h"

namespace penstock::telemetry {

// Of the clock of the thread's loop.
using TraceTime = std::chrono::nanoseconds;

struct OperationTrace {
  Kind kind = Kind::other;
  uint32_t route = 0;
  uint32_t uid = 0;
  uint32_t pieces = 0;  // calls of targets that it was cut into
  uint64_t inode = 0;
  uint64_t offset = 0;
  uint64_t length = 0;
  int64_t result = 0;  // bytes moved, or a negative error number
  // In this order; what did not happen has the time 0.
  TraceTime taken{};      // from its ring
  TraceTime sent{};       // its first piece to a target: it was its turn
  TraceTime landed{};     // the last piece: the disk is done, the bytes are verified
  TraceTime completed{};  // its completion is in the ring
};

// What was seen of a thread.
struct Traced {
  std::vector<OperationTrace> operations;
  uint64_t seen = 0;   // that began meanwhile, until the last that is recorded ended
  uint64_t every = 1;  // one in so many was looked at
};

// All in the owner's thread. Off, it has no memory, and an operation pays one branch. On, it
// records every operation until kKeptMax are kept; then it forgets every second one and goes on
// with half as many, again and again: the memory is bounded, and what is kept is spread over the
// whole time.
class Tracer {
 public:
  static constexpr size_t kKeptMax = 4096;
  // Under way at a time; others are not looked at.
  static constexpr size_t kUnderWayMax = 4096;

  bool is_on() const { return is_on_; }
  void start();
  Traced stop();

  // Where an operation that begins now is to be recorded; null: it is not.
  OperationTrace* begin();
  // It has ended, and what begin() gave is the tracer's again.
  void end(OperationTrace& operation);

 private:
  struct Slot {
    OperationTrace trace;
    Slot* next = nullptr;
    uint64_t round = 0;  // the start() that it belongs to
  };
  bool is_on_ = false;
  uint64_t round_ = 0;
  uint64_t begun_ = 0;
  uint64_t ended_ = 0;
  uint64_t every_ = 1;
  uint64_t under_way_ = 0;
  std::unique_ptr<Slot[]> slots_;
  Slot* free_ = nullptr;
  std::vector<OperationTrace> kept_;
};

}  // namespace penstock::telemetry
