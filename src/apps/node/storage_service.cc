#include "storage_service.h"

#include "cluster_admin.h"
#include "disk_orders.h"
#include "identity_admin.h"
#include "network_admin.h"
#include "node_service.h"
#include "status_document.h"

#include <unistd.h>

namespace penstock::apps {

Outcome<std::unique_ptr<StorageService>> StorageService::start(const UpOptions& options) {
  if (!options.mount_point.empty()) {
    return Failure{
        Code::not_supported,
        options.directory +
            ": has no files to mount, as it does not play agent (a node or client that does "
            "has: 'penstock join TOKEN@HOST:PORT --mount PATH')"};
  }
  std::unique_ptr<StorageService> service(new StorageService);
  if (!options.metrics.empty()) {
    TRY_ASSIGN(service->metrics_, NodeMetrics::start(options.metrics));
  }
  agent::AgentConfig config = config_of(options);
  if (!config.cluster) config.cluster.emplace();
  config.cluster->refused = [end = &service->end_](const std::string&) { end->raise(); };
  TRY_ASSIGN(service->agent_, agent::StorageAgent::start(std::move(config)));
  TRY(begin_log(options));
  log_what_is_missing(service->agent_->status());
  StorageService* const self = service.get();
  TRY_ASSIGN(service->admin_,
             AdminServer::start(options.directory,
                                [self](const Json& request, const AdminServer::Say& say) {
                                  return self->handle(request, say);
                                }));
  if (service->metrics_ != nullptr) {
    service->metrics_->tell_of([agent = service->agent_.get()] { return agent->status(); });
  }
  log::info("node up: {}", options.directory);
  return service;
}

StorageService::~StorageService() {
  stop();
}

void StorageService::stop() {
  if (metrics_ != nullptr) metrics_->tell_of({});
  admin_.reset();
  if (agent_ != nullptr) agent_->stop();
  agent_.reset();
}

Json StorageService::handle(const Json& request, const AdminServer::Say& say) {
  const std::string command = command_of(request);
  if (command == "status") return status();
  if (command == "scrub") {
    return scrub_by([this](const auto& progress) { return agent_->scrub(progress); }, say);
  }
  if (command == "move names") {
    return move_names_by(
        [this](const auto& to, const auto& progress) { return agent_->move_names(to, progress); },
        request, say);
  }
  if (command == "down") {
    end_.raise();
    return {{"pid", ::getpid()}};
  }
  const NodeWithDisks disks{
      &agent_->cluster(), agent_->status().disks,
      [this](const std::string& path) { return agent_->take_disk_off(path); }};
  if (const auto answer = answer_about_disk(disks, request)) return *answer;
  if (const auto answer = answer_about_identity(&agent_->cluster(), request)) return *answer;
  if (const auto answer = answer_about_cluster(&agent_->cluster(), request)) return *answer;
  if (const auto answer = answer_about_network(&agent_->cluster(), request, say)) return *answer;
  return {{"error", "this node has no files: '" + command +
                        "' is for nodes of its cluster with the role agent"}};
}

Json StorageService::status() {
  Json document = json_of(agent_->status());
  document["pid"] = ::getpid();
  if (metrics_ != nullptr) document["metrics"] = metrics_->address();
  return document;
}

}  // namespace penstock::apps
