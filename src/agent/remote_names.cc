#include "remote_names.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace penstock::agent {

RemoteNames::RemoteNames(cluster::Participant& participant, engine::Loop& loop,
                         std::function<uint64_t()> session, Capabilities& given)
    : participant_(participant),
      session_(std::move(session)),
      given_(given),
      meta_(make(loop, meta_net::RemoteMetaConfig::kCallTime)),
      quick_(make(loop, limits::kQuickQuestion)) {}

std::unique_ptr<meta_net::RemoteMeta> RemoteNames::make(engine::Loop& loop,
                                                        engine::Duration call_time) {
  meta_net::RemoteMetaConfig config;
  config.loop = &loop;
  config.net = &participant_.nodes_net(0);
  config.find = [this] { return find(); };
  config.session = session_;
  config.given = [this](const wire::Capability& one) { given_.keep(one); };
  config.find_given = [this](InodeId inode) {
    // One of an earlier session is over.
    auto given = given_.kept(inode);
    const wire::AgentSession session{participant_.self(), session_()};
    if (given && given->session != session.word()) given.reset();
    return given;
  };
  config.call_time = call_time;
  config.counts_time = std::min<engine::Duration>(call_time, limits::kQuickQuestion);
  return meta_net::RemoteMeta::make(config);
}

// One node at most has them, and keeps them.
engine::Address RemoteNames::find() {
  NodeId node = node_.load(std::memory_order_relaxed);
  if (node == NodeId()) {
    const membership::ClusterMap map = participant_.map();
    for (const auto& [id, one] : map.nodes()) {
      const bool is_gone = one.standing == controller::Standing::removed;
      if (!is_gone && cluster::has_names(one.facts.roles)) node = id;
    }
    node_.store(node, std::memory_order_relaxed);
  }
  return {node, wire::kMetaService};
}

bool RemoteNames::learn() {
  const auto chains = quick_->own_chains();
  if (!chains) return false;
  learned_(node_.load(std::memory_order_relaxed), *chains);
  return true;
}

void RemoteNames::start(Learned learned) {
  ASSERT(!thread_.joinable());
  learned_ = std::move(learned);
  if (learn()) return;
  log::warning("the node with the names does not answer; files wait for it");
  thread_ = engine::Thread("penstock-names", [this] {
    while (!learn()) {
      std::unique_lock lock(mutex_);
      if (wake_.wait_for(lock, limits::kAskAgain, [this] { return is_stopping_; })) return;
    }
    log::info("the node with the names answers");
  });
}

void RemoteNames::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

engine::DiskSpace RemoteNames::space() {
  const auto counts = quick_->counts();
  const std::lock_guard lock(mutex_);
  if (counts) space_ = {counts->capacity.total_bytes, counts->capacity.free_bytes};
  return space_;
}

}  // namespace penstock::agent
