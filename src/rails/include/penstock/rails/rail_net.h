// engine::Net by RDMA where both nodes have it, else by TCP.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "penstock/engine.h"
#include "penstock/rails/devices.h"
#include "penstock/rails/introductions.h"

namespace penstock::rails {

// Of the service that answers those who ask for queue pairs.
inline constexpr uint32_t kIntroductionService = UINT32_MAX - 3;

struct RailConfig {
  NodeId self;
  // To all nodes and services, and the way on which they prove who they are. It outlives the
  // RailNet, but is closed before it.
  engine::Net* tcp = nullptr;
  Introductions* introductions = nullptr;
  // Null: calls go by TCP, for the reason that `without` says.
  Devices* devices = nullptr;
  std::string without = {};
  // Which of the process's loops this is: they share out the devices of a NUMA node.
  size_t loop_index = 0;
  // Whether calls to that service may go by RDMA; others go by TCP.
  bool (*may_go)(uint32_t service) = [](uint32_t) { return true; };
  verbs::Patience patience = {};
};

// A service that this loop has called, and the way that calls go there now.
struct RailFacts {
  engine::Address address;
  std::string device;  // empty: TCP
  std::string reason;  // why it is TCP
};

// The Net of one loop; owner thread only. A call goes by RDMA when a queue pair stands that leads
// there; until then, and where none can be had, by TCP. What RDMA has not sent goes by TCP when the
// queue pair or its device fails; what was sent ends with peer_gone, as with any loss, and who
// called repeats it. Calls that go by different ways may overtake one another.
//
// A device is opened when the loop needs it first: those of the loop's NUMA node before others. Of
// several of the other node the one is taken that is in the same subnet.
class RailNet final : public engine::Net {
 public:
  static std::unique_ptr<RailNet> make(const RailConfig& config, engine::Loop& loop,
                                       engine::Parker* parker);
  ~RailNet() override;

  // After TCP was closed, in the loop: ends all connections and waits for what was under way.
  void close();

  void call(engine::CallOp& op) override;
  void cancel(engine::CallOp& op) override;
  void serve(engine::Address address, engine::Service& service) override;
  void withdraw(engine::Address address) override;

  // That node was removed, or may be: its queue pairs end, and its calls.
  void lose(NodeId node);

  // Begins a connection to that service where there is none; whether the next call there goes by
  // RDMA.
  bool prepare(engine::Address address);
  // Memory that calls will expose often, as verbs::VerbsNet has it: for all devices of this loop,
  // also those that are opened later.
  void announce(const verbs::Region& region);
  // No call exposes it any more. Before it is unmapped.
  void take_back(MutableBytes region);

  std::vector<RailFacts> facts() const;
  // Why the best device of this loop is not used; empty while it is, or was not needed.
  std::string trouble() const;

 private:
  class Impl;
  explicit RailNet(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::rails
