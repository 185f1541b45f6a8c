// A running node as the command sees it: the agent, its mounts, and the administration channel.
#pragma once

#include "admin.h"
#include "commands.h"
#include "guardian.h"
#include "node_metrics.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "penstock/agent.h"
#include "penstock/fuse.h"

namespace penstock::apps {

// What `up` and `status` print about a node, made from its status document.
struct AgentFacts {
  std::vector<std::string> lines;
};
AgentFacts facts_of(const Json& status);
// What root has set for users and sessions, for people; empty if nothing.
std::string limits_table(const Json& status);
// Absolute, as a node knows its directory.
std::string absolute_path(const std::string& path);

class NodeService {
 public:
  // The guardian outlives the service.
  static Outcome<std::unique_ptr<NodeService>> start(const UpOptions& options, Guardian& guardian);
  ~NodeService();

  // Returns when a signal arrives on `signal_fd` or an administrator asked for the end.
  void wait(int signal_fd);
  void stop();
  AgentFacts facts() { return facts_of(status()); }

 private:
  NodeService(UniqueFd ended, Guardian& guardian) : ended_(std::move(ended)), guardian_(guardian) {}
  Json handle(const Json& request, const AdminServer::Say& say);
  Json status();
  Json scrub(const AdminServer::Say& say);
  Json trace(const Json& request, const AdminServer::Say& say);
  Json limit(const Json& request);
  // `options` as after -o. The options that the mount has then.
  Outcome<std::string> mount(const std::string& path, const std::string& options);
  fuse::Mount* mount_at(const std::string& path);
  Outcome<std::string> unmount(const std::string& path);

  // With mounts_mutex_ held.
  void end(fuse::Mount& mount);

  UniqueFd ended_;  // eventfd: "down" was asked
  Guardian& guardian_;
  std::unique_ptr<NodeMetrics> metrics_;  // null: the options do not ask for them
  std::unique_ptr<agent::Agent> agent_;
  std::mutex mounts_mutex_;
  std::map<std::string, std::unique_ptr<fuse::Mount>> mounts_;
  std::unique_ptr<AdminServer> admin_;
};

}  // namespace penstock::apps
