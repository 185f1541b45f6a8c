// This process among the PEs that are measured: who does something, who waits until it is done.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "penstock/bench/symm.h"
#include "penstock/bench/symm_rails.h"
#include "penstock/json.h"

namespace penstock::bench {

// How long a PE waits for others, who measure meanwhile.
inline constexpr std::chrono::minutes kMeasureTime{20};

// What a PE says of itself before anything is measured.
struct PeFacts {
  std::string host;
  uint32_t node = 0;
  uint32_t gpus = 0;  // that it sees
  uint32_t gpu = 0;   // which one it uses, if it sees any
  std::string gpu_name;
  std::string gpu_uuid;  // the same in all processes; empty: not known
  uint64_t gpu_bytes = 0;
  std::vector<std::string> sees;     // uuids of all that it sees,
  std::vector<std::string> reaches;  // and of those whose memory its own one reaches
  std::string no_gpu;                // why it uses none
  rails::RailNode rails;             // what it sees of its machine; empty: all PEs are on one node
};

// Asks the driver for the GPU: its own among those of its node.
PeFacts facts_of(const job::Member& member);

// Meetings in which processes wait asleep, so that they disturb nothing. Each name is used once.
// All of `ranks` (ascending, this one among them) call it with the same name.
Outcome<std::vector<std::string>> tell_others(job::Member& member, const std::string& name,
                                              const std::vector<uint32_t>& ranks,
                                              const std::string& text);
Outcome<std::vector<PeFacts>> exchange_facts(job::Member& member, const PeFacts& own);

std::vector<uint32_t> all_ranks(const job::Member& member);
std::vector<uint32_t> ranks_of_own_node(const job::Member& member);

}  // namespace penstock::bench
