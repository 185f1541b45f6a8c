// Calls between nodes over loopback, beside bare sockets.
#pragma once

#include <vector>

#include "penstock/bench.h"

namespace penstock::bench {

// Two nodes of this process, each with a loop and a thread, in the clear, with TLS, and by RDMA
// where the machine has a device for it, beside bare sockets in turn; with TLS also beside
// OpenSSL's cipher on one processor.
Outcome<void> net_suite(const BenchOptions& options, std::vector<BenchLine>* lines);

}  // namespace penstock::bench
