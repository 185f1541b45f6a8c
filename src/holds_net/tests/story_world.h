// The service, its database, the targets that have the files' numbers, and who was told of which:
// files are numbers that grow with each write, so that whoever reads an older one is found.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "penstock/holds_net.h"
#include "penstock/sim.h"

namespace penstock::holds_net {

using engine::Duration;
using engine::Time;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Version = uint64_t;

inline constexpr engine::Address kService{NodeId{100}, 9};

// What is changed on purpose, to see that a story notices.
struct Mutants {
  bool answers_before_drop = false;
  bool ignores_lease = false;
  bool skips_fence = false;
};

class StoryNode;

class StoryWorld {
 public:
  StoryWorld(uint64_t seed, Mutants its_mutants);
  ~StoryWorld();

  void add_nodes(size_t count);
  // The process of the service dies, and another one begins after so long.
  void lose_service(Duration away);
  bool has_service() const { return service_ != nullptr; }
  void expel(NodeId node) {
    if (has_service()) service_->expel(node);
  }
  void cut(NodeId node) { network.set_partitioned(node, kService.node, true); }
  void heal();
  bool is_idle();
  std::string describe();

  // At the targets, some time later; `done` hears whether they took it.
  void store(AgentId session, InodeId inode, Version version, std::function<void(bool)> done);
  Version stored(InodeId inode) const;
  // What a program was told, and the least that one may find that begins to look now.
  void told(AgentId by, InodeId inode, Version version);
  std::shared_ptr<Version> expect(InodeId inode);
  Version next_version() { return ++versions_; }
  // Who runs under which hold.
  void begins(AgentId by, InodeId inode, Hold hold);
  void ends(AgentId by, InodeId inode, Hold hold);
  void fault(const std::string& what);

  sim::SimWorld world;
  sim::SimNetwork network{world};
  const Mutants mutants;
  std::vector<std::unique_ptr<StoryNode>> nodes;
  std::string first_fault;
  bool is_calm = false;  // nothing fails but the service: no session may end

 private:
  void start_service();
  void stop_service();
  void fence(AgentId session);

  sim::SimLoop loop_{world};
  sim::SimKvImage image_{world};
  std::unique_ptr<sim::SimKv> kv_;
  std::unique_ptr<sim::SimNet> net_;
  std::unique_ptr<HoldsService> service_;
  std::map<NodeId, uint64_t> floor_;  // sessions below it are refused
  std::map<InodeId, Version> files_;
  std::map<InodeId, std::pair<Version, AgentId>> told_;
  std::map<InodeId, std::vector<std::weak_ptr<Version>>> expected_;
  std::map<InodeId, std::multimap<AgentId, Hold>> running_;
  Version versions_ = 0;
  Time answers_from_{};  // the service: before, it has no lease
};

}  // namespace penstock::holds_net
