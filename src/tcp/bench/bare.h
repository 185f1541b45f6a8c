// Bare sockets over loopback, with a thread for the other side: what calls are measured against.
#pragma once

#include "bench/nodes.h"

namespace penstock::tcp::bench {

// One way, in pieces of 1 MiB, with CRC-32C of what came.
Figures bare_stream(std::chrono::milliseconds duration);
// Requests of 64 bytes, answers of 4 KiB.
Figures bare_ping_pong(int depth, std::chrono::milliseconds duration);
// One way, in records of 16 KiB that OpenSSL seals and opens: the least that sealed bytes take.
// Counted in pieces of 1 MiB.
Figures bare_sealed_stream(std::chrono::milliseconds duration);

}  // namespace penstock::tcp::bench
