// What a node of a cluster may keep and change of the files that all nodes have:
// docs/decisions/0061.
#pragma once

#include "limits.h"
#include "settlements.h"

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "penstock/client.h"
#include "penstock/cluster.h"
#include "penstock/engine.h"
#include "penstock/holds.h"
#include "penstock/holds_net.h"
#include "penstock/kept_names.h"
#include "penstock/locks_net.h"
#include "penstock/meta_net.h"

namespace penstock::agent {

// The agent's side on each node, and on the one that has the names the service for all of them.
// Made, attached and stopped by the thread that starts the node; the rest is thread safe.
class NodeHolds {
 public:
  // What it points to outlives it.
  struct Config {
    cluster::Participant* participant = nullptr;
    engine::Loop* loop = nullptr;  // the first one's
    // Which node has the names, asked in that loop; 0: it is not known yet.
    std::function<NodeId()> names;
    engine::Kv* kv = nullptr;  // with the names; null: they are elsewhere
    // Before what a session had is given on: nothing that it asked of this process is done any
    // more. In threads that may block.
    std::function<void()> let_end = {};
    // See holds_net::HoldsServiceConfig.
    std::function<engine::Time()> answers_until = {};
    // With the names: by what holds and locks of nodes that are restricted are judged. Null: none
    // is.
    meta_net::NodeRights* rights = nullptr;
    // Without them: see meta_net::RemoteMeta. Called in threads that may block.
    std::function<Status(InodeId)> show = {};
  };
  // While the participant is open.
  static Outcome<std::unique_ptr<NodeHolds>> start(const Config& config);
  // On the node with the names: returns when it is known what agents have that were there before,
  // and sessions that are over are fenced. What they had is given to nobody before attach(), as the
  // file system's recovery settles it. Elsewhere at once.
  Outcome<void> await_past();
  ~NodeHolds() { stop(); }

  holds::Holding& holding() { return *agent_; }
  locks::Locking& locking() { return *locks_agent_; }
  // The names as the file system sees them, which is opened next: what is kept of them, over
  // `meta`; once. On the node that has them, changes wait until others have forgotten what they
  // keep of it.
  // `is_off`: as kept_names::KeptNamesConfig has it.
  kept_names::KeptNames& names(meta::Meta& meta, std::function<bool()> is_off);
  // For those who change them from other nodes; null: another node has them.
  kept_names::NamesGuard* guard() { return guard_.get(); }
  // What waits for other agents to forget names ends, and is not done. Before those who asked for
  // it are waited for.
  void hurry();
  // Of this node, for calls that name it; 0: it has none yet.
  uint64_t session() const { return session_.load(std::memory_order_acquire); }
  // For whom recalls are; it keeps nothing before. Until stop(). Waits for nobody: what agents had
  // that have gone since, on targets that are gone as well, others get when those are back.
  void attach(client::FileSystem& files);
  // The file system is closed. Others get what this node had at once. Idempotent.
  void stop();

  // On the node with the names. Whether an agent's session may change things, or any session of a
  // node's. No: after stop(), when others may still ask.
  bool is_good(NodeId node, uint64_t session);
  bool has_session(NodeId node);
  bool is_in_use_elsewhere(InodeId inode) { return service_->is_in_use(inode, agent_->session()); }
  // For a file system that is opened after start().
  bool is_exclusive_elsewhere(InodeId inode) { return service_->is_known_exclusive(inode); }

 private:
  // Until there is a file system nothing is kept.
  class Keepings final : public holds::Keeping {
   public:
    void attach(holds::Keeping* to) { to_.store(to, std::memory_order_release); }
    void attach(kept_names::KeptNames* names) { names_.store(names, std::memory_order_release); }
    void drop(InodeId inode, holds::Hold leave, std::function<void()> done) override;
    void settle(InodeId inode, std::function<void()> done) override;
    void drop_names(InodeId inode, std::vector<std::string> names,
                    std::function<void()> done) override;
    void drop_all(bool is_lost, std::function<void()> done) override;

   private:
    std::atomic<holds::Keeping*> to_{nullptr};
    std::atomic<kept_names::KeptNames*> names_{nullptr};
  };

  using AgentId = holds::AgentId;

  explicit NodeHolds(Config config) : config_(std::move(config)) {}
  Outcome<void> start_service();
  void make_locks_service();
  void start_agent();
  void make_locks_agent();
  void show_later(InodeId inode, std::function<void(Status)> done);
  void fence(holds::AgentId agent, const std::function<void()>& done);
  bool may_answer() const;
  bool is_past_fenced();
  bool pause();
  void in_loop(const std::function<void(engine::Op& done)>& start) const;

  const Config config_;
  Keepings keepings_;
  std::atomic<uint64_t> session_{0};
  std::unique_ptr<holds_net::HoldsService> service_;  // null: another node has the names
  std::unique_ptr<holds_net::HoldsAgent> agent_;
  std::unique_ptr<kept_names::NamesGuard> guard_;  // with the service
  std::unique_ptr<kept_names::GuardedNames> guarded_;
  std::unique_ptr<kept_names::KeptNames> kept_;
  // Beside them, in the same loop. In their calls the holds find what is below.
  std::unique_ptr<locks_net::LocksService> locks_service_;
  std::unique_ptr<locks_net::LocksAgent> locks_agent_;
  // Of sessions that ended, also before there was a file system, for which they wait.
  Settlements settlements_;
  std::unique_ptr<engine::WorkerPool> shows_;  // null: nothing is shown
  engine::Mutex mutex_;
  engine::Condition wake_;
  bool is_stopping_ = false;             // under the mutex
  client::FileSystem* files_ = nullptr;  // the same
  bool is_stopped_ = false;
};

}  // namespace penstock::agent
