// Which loop of the process serves which service of this node to others.
#pragma once

#include "handshaker.h"
#include "refusals.h"

#include <atomic>
#include <map>
#include <memory>

#include "penstock/tcp/network.h"

namespace penstock::tcp::internal {

class LoopNet;

inline constexpr engine::WallTime kWithoutEnd{INT64_MAX};
inline engine::WallTime end_of(const tls::Secured& secured) {
  return secured.certificate ? secured.certificate->ends() : kWithoutEnd;
}

// Where connections for one loop are handed in. It outlives the loop's net, as some may be on their
// way.
struct Inbox {
  engine::Loop* loop = nullptr;
  LoopNet* net = nullptr;  // of the loop's thread only; null once it was closed
  // Connections that the loop has or will get.
  std::atomic<uint32_t> connections{0};
};

// A connection whose caller has greeted and is not refused so far.
struct Greeted {
  UniqueFd socket;
  uint32_t service = 0;
  engine::Peer peer;
  Welcome welcome;
  std::unique_ptr<Seal> seal;           // null: it travels in the clear
  engine::WallTime ends = kWithoutEnd;  // with the caller's certificate
};

// Thread safe.
class Switchboard {
 public:
  explicit Switchboard(const NetworkConfig& config);
  ~Switchboard();

  const NetworkConfig& config() const { return config_; }
  // Null where all travels in the clear.
  Handshaker* handshaker() { return handshaker_.get(); }
  // Null where records are made by the process itself, or none are.
  tls::KernelTls* kernel_tls() {
    return handshaker_ != nullptr && config_.kernel_tls ? &kernel_tls_ : nullptr;
  }
  // Null where all travels in the clear, or there are too few processors.
  Crew* crew() { return crew_.get(); }
  Refusals& refusals() { return refusals_; }
  Refusals& unreached() { return unreached_; }

  void serve(uint32_t service, const std::shared_ptr<Inbox>& inbox);
  void withdraw(uint32_t service);
  // Hands the connection to the loop that serves what it wants. Where none takes it, the reason,
  // and the caller still has it.
  std::optional<Refusal> hand_over(Greeted& greeted);

 private:
  const NetworkConfig config_;
  const std::unique_ptr<Handshaker> handshaker_;
  tls::KernelTls kernel_tls_;
  const std::unique_ptr<Crew> crew_;
  Refusals refusals_{"a caller is not let in", "tcp.callers_refused"};
  Refusals unreached_{"a node is not reached", "tcp.calls_refused"};
  engine::Mutex mutex_;
  std::map<uint32_t, std::shared_ptr<Inbox>> served_;
};

// Says why, and closes. The socket has sent nothing yet, so that this cannot block.
void refuse(UniqueFd socket, Seal* seal, const Identity& self, Refusal reason);

}  // namespace penstock::tcp::internal
