// What a node tells Prometheus, and monitors of its health: GET /metrics and GET /healthz.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "penstock/agent.h"
#include "penstock/base.h"
#include "penstock/http.h"

namespace penstock::apps {

// The figures of a node in Prometheus' text format (docs/metrics.md).
std::string metrics_of(const agent::AgentStatus& status);
// Those that this process has without a node: while one starts or stops.
std::string metrics_without_node();

// Why a node is not well, one reason a line; empty when it is.
std::string ailments_of(const agent::AgentStatus& status);

// Thread safe, but for what destroys it.
class NodeMetrics {
 public:
  // Answers from now on, with 503 for its health until there is a node.
  static Outcome<std::unique_ptr<NodeMetrics>> start(const std::string& address);

  // Whose figures are told from now on; empty: the node is stopping. Waits for an answer that is
  // being made.
  using Status = std::function<agent::AgentStatus()>;
  void tell_of(Status status);
  std::string address() const { return server_->address(); }

 private:
  http::Response answer(const std::string& path);
  http::Response health();

  std::mutex mutex_;
  Status status_;
  bool was_up_ = false;
  std::unique_ptr<http::Server> server_;
};

}  // namespace penstock::apps
