// What a node with names serves to agents of other nodes: the names, and the chains of its own.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "penstock/client.h"
#include "penstock/cluster.h"
#include "penstock/engine.h"
#include "penstock/meta_net.h"

namespace penstock::agent {

// A chain of the node's own, for itself and for those whose certificate has the role of an agent:
// what these write is durable when it is answered, as they live on where this process ends. Of
// nodes that are restricted for files that they have proven a right to.
class OwnChain final : public engine::Service {
 public:
  // `own` answers calls of the node itself.
  // `may_ask`: whether that other node has a session, and others have not been given what it had.
  // `rights` outlives it; null: no node is restricted.
  OwnChain(NodeId self, engine::Service& own, std::unique_ptr<engine::Service> others,
           std::function<bool(NodeId)> may_ask, meta_net::NodeRights* rights = nullptr)
      : self_(self),
        own_(own),
        others_(std::move(others)),
        may_ask_(std::move(may_ask)),
        rights_(rights) {}
  void on_call(engine::IncomingCall& call) override;

 private:
  const NodeId self_;
  engine::Service& own_;
  const std::unique_ptr<engine::Service> others_;
  const std::function<bool(NodeId)> may_ask_;
  meta_net::NodeRights* const rights_;
};

// Started and stopped by the thread that starts the node, while the loop runs and before the
// participant leaves. Everything outlives it.
class ServedNames {
 public:
  struct Config {
    engine::Loop* loop = nullptr;
    engine::Net* net = nullptr;  // of that loop, for all nodes
    NodeId self;
    meta::Meta* meta = nullptr;
    uint32_t own_chains = 0;
    kept_names::NamesGuard* guard = nullptr;
    // See meta_net::MetaServiceConfig.
    std::function<bool(NodeId, uint64_t session)> has_session;
    meta_net::NodeRights* rights = nullptr;
    std::function<bool()> may_serve = {};
    std::function<Status(wire::Capability&)> sign = {};
    std::function<uint64_t()> judged = {};
    std::function<bool(const wire::Capability&)> is_signed = {};
  };
  // Answers what agents need that had something in an earlier life, and tells others to come again.
  static Outcome<std::unique_ptr<ServedNames>> start(const Config& config);
  // Answers everything: when what a process before has left behind is settled, and not earlier.
  void open(client::FileSystem& files) { files_.store(&files, std::memory_order_release); }
  ~ServedNames() { stop(); }
  // No change comes any more when it returns. Idempotent.
  void stop();
  // See meta_net::MetaService. Thread safe, until stop().
  void let_end() {
    if (service_ != nullptr) service_->let_end();
  }

 private:
  explicit ServedNames(const Config& config) : config_(config) {}

  const Config config_;
  std::atomic<client::FileSystem*> files_{nullptr};
  std::unique_ptr<meta_net::MetaService> service_;
};

}  // namespace penstock::agent
