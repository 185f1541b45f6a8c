// The names of a node of a cluster that has none of its own: asked of the node that has them.
#pragma once

#include "capabilities.h"
#include "limits.h"

#include <atomic>
#include <functional>
#include <memory>

#include "penstock/cluster.h"
#include "penstock/engine.h"
#include "penstock/meta_net.h"

namespace penstock::agent {

// Made, started and stopped by the thread that starts the node; the rest is thread safe, and may
// block. The participant and its first loop outlive it.
class RemoteNames {
 public:
  // `session`: of the agent, at any time; 0: it has none. `given` keeps what files are opened by,
  // and outlives all calls.
  RemoteNames(cluster::Participant& participant, engine::Loop& loop,
              std::function<uint64_t()> session, Capabilities& given);
  ~RemoteNames() { stop(); }

  // Told once, in any thread: which node has the names, and how many chains of its own.
  using Learned = std::function<void(NodeId node, uint32_t own_chains)>;
  // While the participant is open. Waits for a moment until that is known, and goes on to ask in a
  // thread of its own where it is not: the node may be down.
  void start(Learned learned);
  // The process is to end: whoever asks hears within a moment.
  void hurry() { meta_->hurry(limits::kQuickQuestion); }
  // Before the participant leaves. Idempotent.
  void stop();

  // Which node that is, as far as somebody has asked it; 0: it is not known yet. Does not block.
  NodeId node() const { return node_.load(std::memory_order_relaxed); }
  meta::Meta& meta() { return *meta_; }
  // See meta_net::RemoteMeta.
  Status access(const meta::Credentials& who, InodeId inode, uint32_t wanted) {
    return meta_->access(who, inode, wanted);
  }
  Result<wire::Capability> capability(InodeId inode) { return meta_->capability(inode); }
  Status show(InodeId inode) { return meta_->show(inode); }
  // As the node that has the names tells it, or told it last.
  engine::DiskSpace space();

 private:
  engine::Address find();
  std::unique_ptr<meta_net::RemoteMeta> make(engine::Loop& loop, engine::Duration call_time);
  bool learn();

  cluster::Participant& participant_;
  const std::function<uint64_t()> session_;
  Capabilities& given_;
  std::atomic<NodeId> node_{NodeId()};  // relaxed: a number alone
  const std::unique_ptr<meta_net::RemoteMeta> meta_;
  // For questions that are not to wait for long.
  const std::unique_ptr<meta_net::RemoteMeta> quick_;
  Learned learned_;
  engine::Mutex mutex_;
  engine::Condition wake_;
  bool is_stopping_ = false;
  engine::DiskSpace space_;
  engine::Thread thread_;
};

}  // namespace penstock::agent
