// Processes that have one file system: one with the names and the targets, and agents, each with
// all that a real one has of it, in one thread, over a network that loses, delays and repeats.
#pragma once

#include "kernel_model.h"

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "penstock/chunks.h"
#include "penstock/client.h"
#include "penstock/holds_net.h"
#include "penstock/kept_names.h"
#include "penstock/meta_net.h"
#include "penstock/net.h"
#include "penstock/sim.h"
#include "penstock/store_fake.h"

namespace penstock::client {

using holds::AgentId;
using std::chrono::milliseconds;
using std::chrono::seconds;

inline constexpr NodeId kNamesNode{100}, kTargetsNode{101};

// What is changed on purpose, to see that a story notices.
struct Broken {
  bool answers_before_drop = false;
  bool keeps_inodes = false;  // an inode is not loaded anew after a grant
  bool ignores_lease = false;
  bool skips_sessions = false;  // the service of names takes calls of sessions that are over
  bool skips_fence = false;
  // Not broken: targets as the own chains of a node, which ask only whether the calling node has
  // some session, and wait for nothing that is under way.
  bool fences_nodes = false;
  bool settles_late = false;      // what is unsettled is given on before a new life has settled it
  bool removes_used = false;      // orphans that another agent has open
  bool keeps_told_names = false;  // what was kept of names that others change
  bool forgets_kernels = false;   // that they were given entries a moment ago
  bool changes_untold = false;    // names change before others have forgotten them
  bool serves_late = false;       // names answer nothing before agents have claimed
  // Not broken: targets are of a process that lives on when the one with the names ends.
  bool targets_apart = false;
  // Not broken: the first agent is restricted to a subtree, which is all that there is.
  bool restricts_first = false;
  bool shows_nothing = false;  // then: of files that were open before the service began
};

// Which sessions targets refuse. It outlives all processes, as a controller's map does. Before a
// session is fenced, what it has under way here has ended.
class Fence {
 public:
  explicit Fence(sim::SimWorld& world) : world_(world) {}
  bool is_good(AgentId of) const;
  // False: it was to give up.
  bool raise(AgentId above, const std::function<bool()>& gives_up);
  bool is_fenced(AgentId of) const { return !is_good(of); }
  // Where nodes are fenced, and not sessions: whether it has one.
  std::function<bool(NodeId)> has_session = {};
  bool may_call(AgentId of) const { return has_session ? has_session(of.node) : is_good(of); }

 private:
  friend class FencedService;
  sim::SimWorld& world_;
  std::map<NodeId, uint64_t> floors_;
  std::multiset<AgentId> under_way_;
};

// Names in each call of a target the session for which it is made.
class NamingNet final : public engine::Net {
 public:
  NamingNet(engine::Net& net, std::function<uint64_t()> session)
      : net_(net), session_(std::move(session)) {}
  void call(engine::CallOp& op) override;
  void cancel(engine::CallOp& op) override { net_.cancel(op); }
  void serve(engine::Address, engine::Service&) override { ASSERT(false); }
  void withdraw(engine::Address) override { ASSERT(false); }

 private:
  engine::Net& net_;
  const std::function<uint64_t()> session_;
};

// Takes what that names, and refuses what is fenced.
class FencedService final : public engine::Service {
 public:
  // `own` answers the process itself; what others write is durable when it is answered.
  FencedService(Fence& fence, engine::Service& own, engine::Service& others, bool skips)
      : fence_(fence), own_(own), others_(others), skips_(skips) {}
  void on_call(engine::IncomingCall& call) override;

 private:
  class Guarded;
  Fence& fence_;
  engine::Service& own_;
  engine::Service& others_;
  const bool skips_;
};

// A target for all nodes, while its process lives.
struct ServedTarget {
  std::unique_ptr<sim::SimNet> net;
  std::unique_ptr<engine::Service> own;
  std::unique_ptr<engine::Service> others;
  std::unique_ptr<FencedService> fenced;
};

// May stand still, for an agent that takes no notice of its lease.
class LeaseClock final : public engine::Clock {
 public:
  LeaseClock(const engine::Clock& real, bool stands) : real_(real), stands_(stands) {}
  engine::Time now() const override { return real_.now(); }
  engine::Time lease_now() const override {
    return stands_ ? engine::Time(seconds(1)) : real_.lease_now();
  }
  engine::WallTime wall() const override { return real_.wall(); }

 private:
  const engine::Clock& real_;
  const bool stands_;
};

class Processes;

// What all have: a loop, a file system, and the holds that it has.
class Process {
 public:
  virtual ~Process();
  // In a thread that may wait. It is not started, or was ended.
  virtual Status start() = 0;
  // In order, with all that is written; or it dies at this moment, and this returns when nothing is
  // left of it.
  virtual void stop() = 0;
  virtual void kill() = 0;
  void stop_for(engine::Duration time);

  // For programs. Null: it does not run. It stays until leave().
  FileSystem* enter();
  void leave();
  AgentId session();
  // Of a mount of it; null: it does not run, or ends.
  KernelModel* kernel() { return is_running() ? kernel_.get() : nullptr; }
  NodeId node() const { return node_; }
  kept_names::KeptNames::Figures kept() const { return kept_->figures(); }
  bool is_running() const { return files_ != nullptr && !is_ending_; }
  std::string describe();

 protected:
  Process(Processes& all, NodeId node, uint32_t number);

  // Until there is a file system nothing is kept.
  class Keepings final : public holds::Keeping {
   public:
    Keepings(Broken broken) : broken_(broken) {}
    void attach(holds::Keeping* to) { to_ = to; }
    void attach(kept_names::KeptNames* names) { names_ = names; }
    void drop(InodeId inode, holds::Hold leave, std::function<void()> done) override;
    void settle(InodeId inode, std::function<void()> done) override;
    void drop_names(InodeId inode, std::vector<std::string> names,
                    std::function<void()> done) override;
    void drop_all(bool is_lost, std::function<void()> done) override;

   private:
    const Broken broken_;
    holds::Keeping* to_ = nullptr;
    kept_names::KeptNames* names_ = nullptr;  // null: none are kept
  };

  void make_loop();
  void start_agent();
  // With what is kept of the names.
  Status open_files(meta::Meta& meta, FileSystemConfig config);
  void close_files();
  void close_agent();
  void drop_rest();
  void in_loop(const std::function<void(engine::Op& done)>& what);

  Processes& all_;
  const NodeId node_;
  const uint32_t number_;
  Keepings keepings_;
  LeaseClock clock_;
  std::unique_ptr<sim::SimParker> parker_;
  std::unique_ptr<engine::Loop> loop_;
  std::unique_ptr<sim::SimNet> net_;
  std::unique_ptr<NamingNet> naming_;
  std::unique_ptr<holds_net::HoldsAgent> agent_;
  std::unique_ptr<kept_names::KeptNames> kept_;
  std::unique_ptr<FileSystem> files_;
  std::unique_ptr<KernelModel> kernel_;
  // Of an agent that is restricted; see holds_net::HoldsAgentConfig.
  std::function<void(InodeId, std::function<void(Status)>)> show_ = {};
  std::function<bool()> is_limited_ = {};
  size_t users_ = 0;
  uint64_t stops_ = 0;
  bool is_ending_ = false;
};

class AgentProcess final : public Process {
 public:
  AgentProcess(Processes& all, NodeId node) : Process(all, node, node.value) {}
  Status start() override;
  void stop() override;
  void kill() override;

 private:
  void restrict(meta_net::RemoteMetaConfig& config);

  std::unique_ptr<meta_net::RemoteMeta> meta_;
  // Of one that is restricted: what files are opened by, and threads that show it.
  engine::Mutex mutex_;
  std::map<InodeId, wire::Capability> given_;  // under it
  std::unique_ptr<engine::WorkerPool> shows_;
};

class NamesProcess final : public Process {
 public:
  explicit NamesProcess(Processes& all);
  Status start() override;
  void stop() override;
  void kill() override { die(false); }
  // Its machine loses power.
  void cut_power() { die(true); }
  void expel(NodeId node);

 private:
  class Record;
  Status start_service();
  Status await_past();
  Status serve_names();
  void fence(AgentId agent, const std::function<void()>& done);
  void settle(AgentId agent, const std::vector<InodeId>& exclusives,
              const std::function<void()>& done);
  void attach();
  bool pause();
  void die(bool power_cut);
  void end();

  sim::SimKvImage image_;
  const std::shared_ptr<Record> record_;
  std::unique_ptr<sim::SimKv> kv_;
  std::vector<ServedTarget> served_;
  std::unique_ptr<meta::Meta> meta_;
  std::unique_ptr<meta_net::NodeRights> rights_;
  std::unique_ptr<holds_net::HoldsService> service_;
  std::unique_ptr<kept_names::NamesGuard> guard_;
  std::unique_ptr<kept_names::GuardedNames> guarded_;  // as this process changes them
  std::unique_ptr<meta_net::MetaService> names_;
  // What a session had that ended before there was a file system.
  struct Past {
    std::vector<InodeId> exclusives;
    std::function<void()> done;
  };
  std::map<AgentId, Past> past_;
  FileSystem* settler_ = nullptr;
  size_t settling_ = 0;
  bool is_stopping_ = false;
};

class Processes {
 public:
  Processes(uint64_t seed, size_t agents, Broken its_broken);
  // All are ended.
  ~Processes();

  // All of them, in a thread or on the test's own stack.
  void start();
  void stop();

  size_t count() const { return agents_.size() + 1; }
  // The last is the one with the names.
  Process& process(size_t i);
  NamesProcess& names() { return *names_; }
  size_t chunk_count() const;
  std::string chunks_left() const;
  std::string describe();

  const Credentials root;
  sim::SimWorld world;
  sim::SimNetwork network{world};
  const Broken broken;
  Fence fence{world};
  // What a session had behind may be lost now.
  std::function<void(AgentId)> lost = [](AgentId) {};

 private:
  friend class Process;
  friend class AgentProcess;
  friend class NamesProcess;
  struct Storage {
    std::unique_ptr<sim::SimLoop> loop;
    std::unique_ptr<store::FakeTarget> target;
  };

  std::vector<ServedTarget> serve_targets(NodeId node);

  std::vector<Storage> storages_;
  std::vector<ServedTarget> apart_;
  std::shared_ptr<inodes::ChainAddresses> chains_;
  std::unique_ptr<NamesProcess> names_;
  std::vector<std::unique_ptr<AgentProcess>> agents_;
  uint64_t callers_ = 0;
};

}  // namespace penstock::client
