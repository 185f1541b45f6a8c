// Simulated GPUs of several nodes: their rings, proxies, and mail that is slow.
#pragma once

#include "../device_proxy.h"
#include "simulated_gpus.h"

#include <deque>
#include <optional>

namespace penstock::symm {

struct FarShape {
  int pes = 4;
  int node_pes = 2;                 // PEs of each node, one behind the other
  std::vector<uint64_t> near = {};  // by PE, those near to it, bit by bit; empty: those of its node
  uint32_t lanes = 8;
  uint32_t entries = 128;  // of each ring
  uint64_t lane_bytes = 256 * 1024;
  bool is_full = false;  // GPUs: a kernel of the proxy never starts
};

// Mail in memory. A frame arrives some turns after it was sent, in the order of its lane.
class SlowMail {
 public:
  SlowMail(uint64_t seed, int pes, uint64_t lane_bytes);

  std::unique_ptr<DeviceMail> of(uint32_t pe);
  // Frames that this PE's proxy sends from here on arrive nowhere, and it hears so.
  void cut(uint32_t pe) { cut_ = pe; }
  // Puts a frame into a lane as if `from` had sent it.
  void forge(uint32_t from, uint32_t to, MailLane lane, const MailFrame& frame, size_t body);
  bool is_empty() const;
  // Bodies of frames sent so far, together.
  uint64_t body_bytes(uint32_t from, uint32_t to) const;

 private:
  class End;
  struct Letter {
    MailFrame frame;
    std::vector<std::byte> body;
    uint32_t turns;  // until it arrives
  };
  struct Lane {
    std::deque<Letter> letters;
    uint64_t bytes = 0;
    uint64_t body_bytes = 0;  // ever
    uint32_t turns = 1;       // fewer than so many until a frame arrives
  };
  Lane& lane(uint32_t from, uint32_t to, MailLane which);

  std::mt19937_64 random_;
  const uint32_t pes_;
  const uint64_t lane_bytes_;
  std::vector<Lane> lanes_;
  std::optional<uint32_t> cut_;
};

class FarNodes {
 public:
  FarNodes(uint64_t seed, const FarShape& shape);
  ~FarNodes();

  SimulatedGpus& gpus() { return gpus_; }
  SlowMail& mail() { return mail_; }
  // Runs a kernel on all PEs, and then the proxies until all is done.
  bool run(const std::function<void(int pe)>& kernel);
  bool run(const std::vector<int>& pes, const std::function<void(int pe)>& kernel);
  void settle();
  // As the host finds it of a team: any two are far to each other. Of the world it is known.
  void make_team_far(int team, bool is_far);

  DeviceProxy& proxy(int pe);
  // The ring's host memory.
  MutableBytes ring(int pe);
  device::SymmFar& view(int pe);
  uint32_t trouble(int pe) const;

 private:
  struct Node;
  class Device;
  void turn(Node& node);
  uint64_t near(int pe) const;

  std::mt19937_64 random_;
  const FarShape shape_;
  SimulatedGpus gpus_;
  SlowMail mail_;
  std::vector<std::unique_ptr<Node>> nodes_;  // by PE
  int settling_ = 0;
};

}  // namespace penstock::symm
