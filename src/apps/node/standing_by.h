// A process that waits for its node's turn (docs/decisions/0069-names-taken-over.md), as
// administrators see it.
#pragma once

#include "admin.h"
#include "commands.h"

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>

#include "penstock/agent.h"

namespace penstock::apps {

// By one thread, but for the answers that it gives.
class StandingBy {
 public:
  // `begun`: once, when it waits and answers those who ask.
  StandingBy(const UpOptions& options, std::function<void()> begun)
      : options_(options), begun_(std::move(begun)) {}

  // As agent::AgentConfig::stands_by has it.
  bool tell(const agent::StandbyStatus& status);

 private:
  Json handle(const Json& request);
  Json status();

  const UpOptions& options_;
  const std::function<void()> begun_;
  const std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  std::atomic<bool> is_ended_{false};
  std::mutex mutex_;
  agent::StandbyStatus status_;
  std::unique_ptr<AdminServer> admin_;  // last
};

}  // namespace penstock::apps
