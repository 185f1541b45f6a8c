// TLS by the kernel: a connected socket whose records the kernel seals and opens, with keys that a
// handshake has led to. What is written and read there is content only.
#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "penstock/engine.h"
#include "penstock/tls/record.h"

namespace penstock::tls {

// Whether the kernel does it is found out by asking it. Thread safe.
class KernelTls {
 public:
  // From now on the kernel seals with the keys of the one and opens with those of the other, from
  // their next records on; neither is used any more. not_supported: it does not, and the socket is
  // as it was. Anything else: the socket is of no use any more.
  Status take(int socket, const Sealer& sealer, const Opener& opener, engine::Time now);

 private:
  // A kernel that cannot may look for a module each time, which takes milliseconds.
  std::atomic<engine::Time> not_before_{};
};

// Of a socket that was taken: how many records the busier direction has seen. The kernel does not
// renew keys: who uses it ends the connection before limits::kRecordsOfKey.
uint64_t records_of_kernel(int socket);

// Whether the kernel of this machine has it, tried on a connection of this process to itself;
// nullopt: it has, else why not and what to do, for people.
std::optional<std::string> why_no_kernel_tls();

}  // namespace penstock::tls
