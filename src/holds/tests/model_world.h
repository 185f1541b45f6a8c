// A meta with its table, its records, and the targets, for agents of the model: files are numbers
// that grow with each write, so that whoever reads an older one than somebody was told of is found.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "penstock/holds.h"
#include "penstock/sim.h"

namespace penstock::holds {

using engine::Duration;
using engine::Time;
using Version = uint64_t;

inline constexpr InodeId kDirectory{1};

class ModelAgent;

// What is changed on purpose, to see that a story notices.
struct Mutants {
  bool answers_before_drop = false;  // an agent, a recall
  bool ignores_lease = false;        // an agent gives out what it has after its lease
  bool forgets_stamps = false;       // an agent takes a grant that was recalled before it came
  bool skips_fence = false;          // meta gives on what a lost agent had, unfenced
  bool skips_lease = false;          // meta does not wait for the lease of one that is fenced
  bool ignores_barrier = false;      // names change without one
  bool loses_with_lease = false;     // an agent drops all when its lease is over
  bool forgets_ends = false;         // meta takes claims of sessions that have ended
};

// The process with the table, its records, and the targets, which have the files' numbers.
class ModelWorld {
 public:
  ModelWorld(sim::SimWorld& world, size_t agents, Mutants mutants);
  ~ModelWorld();

  // Messages, which are late, lost and doubled while there are faults.
  void send(NodeId between, std::string_view label, std::function<void()> deliver);
  void restart_meta();
  // It dies, and another life of it begins after so long.
  void lose_meta(Duration away);
  bool is_away() const { return away_ > 0; }
  void expel(NodeId node);
  void heal();
  bool is_idle() const;

  // To meta.
  void on_want(const Want& want, uint16_t life);
  void on_back(const Back& back, uint16_t life);
  void on_renew(AgentId agent, Time sent, uint16_t life);
  void on_begin(AgentId agent);
  void on_claims(const Claim& claim, uint16_t life);
  void on_change_name(AgentId maker, uint64_t operation, const std::string& name, uint16_t life);
  void on_look_up(AgentId agent, uint64_t operation, const std::string& name, uint16_t life);

  // At the targets, some time later; `done` hears false if the session is fenced.
  void store(AgentId agent, InodeId inode, Version version, std::function<void(bool)> done);
  Version stored(InodeId inode) const;
  // What a program was told.
  void told(AgentId by, const std::string& what, Version version);
  // The least that an operation may find that begins now; less where that is lost meanwhile.
  std::shared_ptr<Version> expect(const std::string& what);
  Version next_version() { return ++versions_; }
  void fault(const std::string& what);

  sim::SimWorld& world;
  const Mutants mutants;
  uint32_t lost_permille = 0;
  std::set<NodeId> cut;   // from meta
  std::set<NodeId> deaf;  // to recalls alone
  bool is_calm = false;   // nothing fails: no session may end
  std::vector<std::unique_ptr<ModelAgent>> agents;
  std::string first_fault;

 private:
  void act();
  void end(AgentId agent);
  void fence(AgentId agent);
  void forget_unwritten(AgentId agent);
  void remind();
  void answer_name(AgentId maker, uint64_t operation, Version version, Stamp stamp);

  uint16_t life_ = 0;
  uint32_t away_ = 0;  // times that it was lost and has not begun again
  std::unique_ptr<Table> table_;
  std::map<AgentId, bool> recorded_;  // whether its end is
  std::map<NodeId, uint64_t> floor_;  // sessions below it are refused at the targets
  std::map<InodeId, Version> files_;
  std::map<std::string, Version> names_;
  std::map<std::string, Version> told_;
  std::map<std::string, AgentId> told_by_;
  std::map<std::string, std::vector<std::weak_ptr<Version>>> expected_;
  Version versions_ = 0;
  uint64_t barriers_ = 0;
  std::map<RequestId, std::function<void(Stamp)>> waiting_;  // barriers
  // Changes of names, by operation; version 0: it is under way.
  std::map<std::pair<NodeId, uint64_t>, std::pair<Version, Stamp>> done_;
};

}  // namespace penstock::holds
