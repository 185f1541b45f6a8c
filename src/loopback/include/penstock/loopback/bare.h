// Bare sockets over loopback, with a thread for the other side, and OpenSSL's cipher: what calls
// are measured against. Each blocks for as long as it is told to measure; a machine without sockets
// or threads ends the process, as nothing can be measured there.
#pragma once

#include "penstock/loopback/figures.h"

namespace penstock::loopback {

// One way, in pieces of so many bytes; `checked`: with CRC-32C of what came.
Figures bare_stream(size_t bytes, bool checked, std::chrono::milliseconds duration);

// Requests and answers of these bytes, `depth` of them under way.
struct Exchange {
  size_t request = 64;
  size_t answer = 64;
  int depth = 1;
};
Figures bare_exchange(const Exchange& exchange, std::chrono::milliseconds duration);

// One way, in records of 16 KiB that OpenSSL seals and opens: the least that sealed bytes take.
// Counted in pieces of 1 MiB.
Figures bare_sealed_stream(std::chrono::milliseconds duration);

// One way in pieces of 1 MiB, sealed and opened by the kernel, which has TLS
// (tls::why_no_kernel_tls()).
Figures bare_kernel_tls_stream(std::chrono::milliseconds duration);

// AES-128-GCM of OpenSSL's on one processor, as `openssl speed -evp aes-128-gcm -bytes 16384`
// counts it, in pieces of 1 MiB.
Figures openssl_seals(std::chrono::milliseconds duration);
Figures openssl_opens(std::chrono::milliseconds duration);
// One thread seals while this one opens, as the two sides of a connection do: processors of a
// virtual machine may share what they compute with.
Figures openssl_seals_and_opens(std::chrono::milliseconds duration);

}  // namespace penstock::loopback
