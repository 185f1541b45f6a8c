// A running node as the command sees it: the agent, its mounts, and the administration channel.
#pragma once

#include "admin.h"
#include "commands.h"
#include "guardian.h"
#include "node_metrics.h"
#include "running_node.h"

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "penstock/agent.h"
#include "penstock/fuse.h"

namespace penstock::apps {

// As the options say it.
agent::AgentConfig config_of(const UpOptions& options);
// The store exists, so that the log of a node in the background has a home.
Outcome<void> begin_log(const UpOptions& options);
// What the node has started without: its log began later than it saw that.
void log_what_is_missing(const agent::AgentStatus& status);
// What root has set for users and sessions, for people; empty if nothing.
std::string limits_table(const Json& status);
// Absolute, as a node knows its directory.
std::string absolute_path(const std::string& path);

class NodeService final : public RunningNode {
 public:
  // The guardian outlives the service.
  // `stands_by`: told once if the start waits for its node's turn, which may take for ever.
  static Outcome<std::unique_ptr<NodeService>> start(const UpOptions& options, Guardian& guardian,
                                                     const std::function<void()>& stands_by);
  ~NodeService() override;

  void wait(int signal_fd) override { end_.wait(signal_fd); }
  void stop() override;
  AgentFacts facts() override { return facts_of(status()); }
  bool was_taken_over() const override { return was_taken_over_; }

 private:
  explicit NodeService(Guardian& guardian) : guardian_(guardian) {}
  Json handle(const Json& request, const AdminServer::Say& say);
  Json status();
  Json trace(const Json& request, const AdminServer::Say& say);
  Json limit(const Json& request);
  Json set_layout(const Json& request);
  // `options` as after -o. The options that the mount has then.
  Outcome<std::string> mount(const std::string& path, const std::string& options);
  // Of the options. While the node with the names is away the mount comes later, and this one
  // serves what it has.
  Outcome<void> begin_mount(const UpOptions& options);
  void mount_later(const std::string& path, const std::string& options);
  fuse::Mount* mount_at(const std::string& path);
  Outcome<std::string> unmount(const std::string& path);

  // With mounts_mutex_ held.
  void end(fuse::Mount& mount);

  EndSignal end_;
  std::atomic<bool> was_taken_over_{false};
  Guardian& guardian_;
  std::unique_ptr<NodeMetrics> metrics_;  // null: the options do not ask for them
  std::unique_ptr<agent::Agent> agent_;
  std::mutex mounts_mutex_;
  std::map<std::string, std::unique_ptr<fuse::Mount>> mounts_;
  std::mutex later_mutex_;
  std::condition_variable later_wake_;
  bool is_ending_ = false;  // under later_mutex_
  std::thread later_;       // waits for the names
  std::unique_ptr<AdminServer> admin_;
};

}  // namespace penstock::apps
