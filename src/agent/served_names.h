// What a node with names serves to agents of other nodes: the names, and the chains of its own.
#pragma once

#include <memory>
#include <vector>

#include "penstock/client.h"
#include "penstock/cluster.h"
#include "penstock/engine.h"
#include "penstock/meta_net.h"

namespace penstock::agent {

// A service for those whose certificate has the role of an agent; this node's own calls come
// through, too.
class ForAgents final : public engine::Service {
 public:
  explicit ForAgents(engine::Service& service) : service_(service) {}
  void on_call(engine::IncomingCall& call) override;

 private:
  engine::Service& service_;
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
    client::FileSystem* files = nullptr;
    uint32_t own_chains = 0;
  };
  // When what a process before has left behind is settled, and not earlier.
  static Outcome<std::unique_ptr<ServedNames>> start(const Config& config);
  ~ServedNames() { stop(); }
  // No change comes any more when it returns. Idempotent.
  void stop();

 private:
  explicit ServedNames(const Config& config) : config_(config) {}

  const Config config_;
  std::unique_ptr<meta_net::MetaService> service_;
};

}  // namespace penstock::agent
