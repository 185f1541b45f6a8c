// One way of reading or writing a file, run against a ring of ours or a plain file.
#pragma once

#include "penstock.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "penstock/bench/measure.h"

namespace penstock::bench {

struct Workload {
  bool write = false;
  bool random = true;
  uint64_t block_bytes = 4096;
  uint32_t depth = 64;  // operations in flight per thread
  uint32_t batch = 1;   // a ring's thread waits for so many completions before it submits again
  uint32_t threads = 1;
  uint64_t file_bytes = 0;
  std::optional<int> gpu;                     // into and out of the memory of this GPU
  penstock_route route = PENSTOCK_ROUTE_ANY;  // by this one or not at all
  double seconds = 2;
  // On a ring: called when all is ready and the first operation goes; counts what has completed.
  std::function<void()> on_start;
  std::atomic<uint64_t>* completed = nullptr;

  std::string name() const;  // "4 KiB random read, depth 64"
};

// Through a ring of `session`, on `path` in its file system. Writes are durable.
Outcome<Measurement> run_on_ring(penstock_session* session, const std::string& path,
                                 const Workload& workload);

// By fio with io_uring and O_DIRECT on a plain file; writes with O_DSYNC, which makes each of them
// durable before it completes, as ours are. `engine` is fio's ioengine.
bool fio_present();
Outcome<Measurement> run_fio(const std::string& file, const Workload& workload,
                             const std::string& engine, bool direct);
// Two at once on one file, by io_uring and O_DIRECT; what the first got, and the second into
// `beside_result`.
Outcome<Measurement> run_fio_beside(const std::string& file, const Workload& workload,
                                    const Workload& beside, Measurement* beside_result);

// By a plain loop over the disk seam's io_uring, where fio is missing. Reads and O_DSYNC-like
// writes (a sync after each).
Outcome<Measurement> run_raw(const std::string& file, const Workload& workload);

// Fills a plain file, or a file of ours, with `bytes` of pseudo-random data and makes it durable.
Outcome<void> make_plain_file(const std::string& file, uint64_t bytes);
Outcome<void> make_ring_file(penstock_session* session, const std::string& path, uint64_t bytes);

}  // namespace penstock::bench
