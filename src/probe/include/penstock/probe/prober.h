// Measures how well another node's service of probes is reached over a Net, whatever that is.
#pragma once

#include <string>
#include <vector>

#include "penstock/engine.h"
#include "penstock/probe/limits.h"

namespace penstock::probe {

// Calls of one kind for so long, `depth` of them at once.
struct Workload {
  enum class Kind : uint8_t { echo, place, fetch };
  Kind kind = Kind::echo;
  uint32_t bytes = 0;  // of a place or a fetch, at most limits::kBytesMax
  uint32_t depth = 1;
  engine::Duration time{};
};

struct Figures {
  uint64_t calls = 0;  // that were counted; the first eighth of the time is not
  double seconds = 0;
  engine::Duration median{};  // of the time that a call took
  engine::Duration p99{};

  double calls_per_second() const { return seconds > 0 ? static_cast<double>(calls) / seconds : 0; }
};

// What `penstock check net` measures of one way in so much time: small calls one at a time, then
// 1 MiB placed and fetched, eight at once.
std::vector<Workload> check_plan(engine::Duration time);

// The caller's, as every Op, and everything in it. Ends with ok when all of the plan was measured;
// else with what a call ended with: what was measured before is there.
struct ProbeOp : engine::Op {
  engine::Net* net = nullptr;
  engine::Address to;
  std::vector<Workload> plan;
  std::vector<Figures> figures;  // out: of the plan, in its order
};

// In the loop's thread, which is the Net's. Takes memory for `depth` calls of a workload while that
// runs. Ends early only by the Net's doing: when calls fail, as they do when it is closed.
void probe(engine::Loop& loop, ProbeOp& op);

}  // namespace penstock::probe
