// A running node that has targets and nothing else, as the command sees it.
#pragma once

#include "admin.h"
#include "commands.h"
#include "node_metrics.h"
#include "running_node.h"

#include <memory>

#include "penstock/agent.h"

namespace penstock::apps {

class StorageService final : public RunningNode {
 public:
  static Outcome<std::unique_ptr<StorageService>> start(const UpOptions& options);
  ~StorageService() override;

  void wait(int signal_fd) override { end_.wait(signal_fd); }
  void stop() override;
  AgentFacts facts() override { return facts_of(status()); }

 private:
  StorageService() = default;
  Json handle(const Json& request, const AdminServer::Say& say);
  Json status();

  EndSignal end_;
  std::unique_ptr<NodeMetrics> metrics_;
  std::unique_ptr<agent::StorageAgent> agent_;
  std::unique_ptr<AdminServer> admin_;
};

}  // namespace penstock::apps
