// Which loop of the process serves which service of this node to others.
#pragma once

#include <atomic>
#include <map>
#include <memory>

#include "penstock/tcp/network.h"

namespace penstock::tcp::internal {

class LoopNet;

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
};

// Thread safe.
class Switchboard {
 public:
  explicit Switchboard(const NetworkConfig& config) : config_(config) {}
  ~Switchboard();

  const NetworkConfig& config() const { return config_; }

  void serve(uint32_t service, const std::shared_ptr<Inbox>& inbox);
  void withdraw(uint32_t service);
  // Hands the connection to the loop that serves what it wants. Where none takes it, the reason,
  // and the caller still has it.
  std::optional<Refusal> hand_over(Greeted& greeted);

 private:
  const NetworkConfig config_;
  engine::Mutex mutex_;
  std::map<uint32_t, std::shared_ptr<Inbox>> served_;
};

// Says why, and closes. The socket has sent nothing yet, so that this cannot block.
void refuse(UniqueFd socket, const Identity& self, Refusal reason);

}  // namespace penstock::tcp::internal
