// Agents, a meta and targets in one small world, to try a table of holds: files are numbers that
// grow with each write, so that whoever reads an older one than somebody has been told of is found.
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

// The life of meta that said it.
inline uint16_t life_of(Stamp stamp) {
  return static_cast<uint16_t>(stamp.value >> 48);
}

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
};

// The process with the table, its records, and the targets, which have the files' numbers.
class ModelWorld {
 public:
  ModelWorld(sim::SimWorld& world, size_t agents, Mutants mutants);
  ~ModelWorld();

  // Messages, which are late, lost and doubled while there are faults.
  void send(NodeId between, std::string_view label, std::function<void()> deliver);
  void restart_meta();
  void expel(NodeId node);
  void heal();
  bool is_idle() const;

  // To meta.
  void on_want(const Want& want, uint16_t life);
  void on_back(const Back& back, uint16_t life);
  void on_renew(AgentId agent, Time sent, uint16_t life);
  void on_begin(AgentId agent);
  void on_claims(AgentId agent, uint16_t life, const std::map<InodeId, Hold>& has);
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

// A node that reads and writes files, keeps what it read, and writes behind.
class ModelAgent {
 public:
  ModelAgent(ModelWorld& owner, NodeId node) : owner_(owner), id_{node, 1} {}

  void start();
  void read(InodeId inode);
  void write(InodeId inode);
  void look_up(const std::string& name);
  void change_name(const std::string& name);
  // It does nothing for so long, and does not notice.
  void stop_for(Duration duration);
  void stop() { ended_ = true; }
  bool is_idle() const;
  std::string describe() const;
  NodeId node() const { return id_.node; }
  AgentId id() const { return id_; }
  uint16_t life() const { return life_; }

  // From meta.
  void on_given(const Given& given);
  void on_recall(const Recall& recall);
  void on_renewed(AgentId agent, bool good, Time sent, uint16_t life);
  void on_begun(AgentId agent, bool good, Time sent, uint16_t life);
  void on_claimed(AgentId agent, uint16_t life, const std::map<InodeId, Stamp>& grants);
  void on_name(AgentId agent, uint64_t operation, Version version, Stamp stamp);

  // When it is not stopped any more.
  void when_awake(std::function<void()> action);

 private:
  struct Name {
    Version version = 0;
    Stamp stamp;  // at which it was read
  };
  struct File {
    Hold hold = Hold::none;
    Stamp grant;
    Stamp answered;  // the latest recall that was
    bool closed = false;
    uint32_t running = 0;
    std::optional<Version> kept;
    bool is_behind = false;  // `kept` is not in the targets yet
    std::vector<std::function<void()>> when_put;
    RequestId want;  // that is out
    Hold wanted = Hold::none;
    std::optional<Recall> recall;
    bool dropping = false;
    uint64_t drops = 0;  // an earlier one is given up
    bool writes = false;
    uint64_t generation = 0;  // operations of an earlier one have no hold
    std::map<std::string, Name> names;
    std::map<std::string, Stamp> changed;  // by this agent: nothing older is kept
    std::vector<std::pair<Hold, std::function<void()>>> parked;
  };
  struct NameQuestion {
    std::string name;
    std::shared_ptr<Version> least;
    bool changes = false;
  };

  bool has_lease() const;
  void with(InodeId inode, Hold hold, std::function<void()> operation);
  void run(InodeId inode, const std::function<void()>& operation);
  void end_run(InodeId inode, uint64_t generation);
  void go_on(InodeId inode);
  void ask(InodeId inode, RequestId request);
  void settle(InodeId inode, const Recall& recall);
  void put(InodeId inode, std::function<void()> then);
  void finish_write(InodeId inode, AgentId session, uint64_t generation);
  void begin_drop(InodeId inode);
  void finish_drop(InodeId inode);
  void answer(InodeId inode, const Recall& recall, Hold left);
  void renew();
  void lapse();
  void ask_name(uint64_t operation);
  Duration some_time(int most_ms) const;

  ModelWorld& owner_;
  AgentId id_;
  uint16_t life_ = 1;
  bool begun_ = false;
  bool claiming_ = false;
  Time lease_end_{};
  Time stopped_until_{};
  uint64_t requests_ = 0;
  std::map<InodeId, File> files_;
  std::map<uint64_t, NameQuestion> questions_;
  std::multiset<std::string> changing_;  // names, by this agent
  bool ended_ = false;
};

}  // namespace penstock::holds
