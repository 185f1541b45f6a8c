// What `penstock check symm` and `penstock bench symm` measure: symmetric memory between the PEs of
// a job.
#pragma once

#include <compare>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "penstock/base.h"
#include "penstock/job.h"
#include "penstock/json.h"

namespace penstock::bench {

// This process's place in a job whose other ranks are measured with it. Null: there is no job, or
// it is alone in it. Once in a process.
Outcome<std::unique_ptr<job::Member>> job_with_others();

// Runs this program with these words, as the processes of a job on this machine, and returns what
// they print on standard output. `pes`: 0: one for each GPU, two at least. To be called before this
// process has other threads.
Outcome<std::string> output_of_job(const std::vector<std::string>& words, uint32_t pes);

struct SymmPe {
  std::string host;
  uint32_t node = 0;
  std::optional<uint32_t> gpu;  // its number on that host
  std::string gpu_name;
  std::string no_gpu;  // why it has none
};

// One way between the memory of two PEs. Calls are made by `from`: a put moves bytes away from it,
// a get towards it. Nothing where it was not measured.
struct SymmWay {
  uint32_t from = 0;
  uint32_t to = 0;
  std::string memory;  // "host", "GPU"
  std::string way;     // "shared memory"; empty: there is none
  std::optional<double> put_bytes_per_second;
  std::optional<double> get_bytes_per_second;
  std::optional<double> put_seconds;     // of 8 bytes, and a quiet that waits for them
  std::optional<double> get_seconds;     // of 8 bytes
  std::optional<double> signal_seconds;  // from one to the other
  std::string note;                      // why nothing better is there
};

// By which GPU and network card of its node bytes of a PE's GPU go best to that of a PE on another
// node (decision 0079). Chosen, not applied: bytes between nodes go through the hosts yet.
struct SymmRail {
  uint32_t from = 0;
  uint32_t to = 0;
  uint32_t gpu = 0;  // as `from` numbers them; another one than its own: over NVLink first
  std::string card;  // empty: none is known
  double bytes_per_second = 0;  // of the narrowest link, as far as it is known; 0: no card
  std::string why;
};

struct SymmReport {
  std::vector<SymmPe> pes;
  uint64_t pairs = 0;                            // that there are; of many PEs not all are measured
  std::vector<SymmWay> ways;                     // those of a pair stand together
  std::vector<SymmRail> rails;                   // of the pairs on two nodes, both directions
  std::optional<double> barrier_seconds;         // of all PEs, by their processors
  std::optional<double> stream_barrier_seconds;  // of the PEs of one node, by kernels on streams
  std::string gpus;                              // why GPUs' memory was not measured; empty: it was
};

// For machines, and back; foreign input: what is missing is left out.
Json json_of(const SymmWay& way);
SymmWay way_from(const Json& json);
Json json_of(const SymmReport& report);
SymmReport report_from(const Json& json);

struct SymmPair {
  uint32_t from;
  uint32_t to;  // the higher one
  friend auto operator<=>(const SymmPair&, const SymmPair&) = default;
};
// All pairs of up to 16 PEs. Of more, each PE with those at distances of powers of two in the ring
// of all, as long as they are some hundreds; neighbours always.
std::vector<SymmPair> pairs_to_measure(uint32_t pes);

// Together with all ranks of the job; that of rank 0 is whole. `seconds`: for each pair.
Outcome<SymmReport> check_symm(job::Member& member, double seconds);

}  // namespace penstock::bench
