// A node of a simulated cluster, with all that a process has of membership: the member, a replica
// of chains on a loop of its own, clients of chains, and perhaps the controller.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "penstock/membership.h"
#include "penstock/sim.h"
#include "penstock/testing_chains.h"

namespace penstock::membership {

inline controller::Uuid uuid_of(uint32_t number) {
  controller::Uuid uuid;
  uuid.bytes[0] = static_cast<uint8_t>(number);
  uuid.bytes[1] = static_cast<uint8_t>(number >> 8);
  uuid.bytes[15] = 1;
  return uuid;
}
inline const controller::Uuid kCluster = uuid_of(777);
inline constexpr NodeId kControllerNode{1};
inline constexpr engine::Address kController{kControllerNode, wire::kControllerService};

struct SimNodeConfig {
  uint32_t number = 0;
  std::unique_ptr<test::Storage> storage;  // null: it holds no chunks
  sim::SimKvImage* records = nullptr;      // null: it is no controller
  controller::Timing timing;
  // How long orders take to the replica's loop, at most.
  engine::Duration give_max{};
  // Each process is of the newest release, which speaks this version and the one before, or of the
  // one before that.
  uint32_t newest = wire::kNodeVersion;
  // For which session of its agent a process writes (AgentSession::word()); none: it has none.
  std::function<uint64_t()> session{};
};

// What stays when its process ends, and the process, if there is one.
class SimNode {
 public:
  SimNode(sim::SimWorld& world, sim::SimNetwork& network, SimNodeConfig config);
  ~SimNode();

  // As the config's, of processes that begin from now on.
  void set_session(std::function<uint64_t()> session) { config_.session = std::move(session); }
  // A process begins: it joins, opens its target, and serves, each as soon as it may.
  void start();
  // It is killed, or loses power: what is under way comes to its end without effect.
  void die(bool power_cut);
  // It says that it ends, and ends. What the controller answered.
  Status leave();

  bool is_up() const { return process_ != nullptr; }
  bool is_controller() const { return config_.records != nullptr; }
  bool has_storage() const { return config_.storage != nullptr; }
  uint32_t number() const { return config_.number; }
  test::Storage& storage() { return *config_.storage; }

  // Of the present process; null, or none, until it is so far.
  Member* member();
  chain::Host* host();
  store::ChainStore* store();
  ControllerService* service();
  NodeId id() const { return id_; }
  TargetId target() const { return target_; }
  controller::Incarnation incarnation() const { return kept_; }  // of its target
  // Why it was not let in, refused later, or could not open its target.
  const std::string& refusal() const { return refusal_; }

  // Registers in chains, by the process's own ChainNet; asserts that it was admitted.
  std::unique_ptr<test::Registers> registers(test::History& history, uint32_t chains);
  // One question; blocks the calling thread of the simulation.
  Result<Answer> ask(const Request& request, engine::Duration patience);

 private:
  class Process;
  void end();

  sim::SimWorld& world_;
  sim::SimNetwork& network_;
  SimNodeConfig config_;
  controller::Incarnation kept_;  // on the disk of the target
  NodeId id_;
  TargetId target_;
  std::string refusal_;
  std::unique_ptr<Process> process_;
};

}  // namespace penstock::membership
