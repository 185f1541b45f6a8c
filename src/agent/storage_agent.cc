#include "node.h"
#include "scrub.h"

#include "penstock/agent.h"

namespace penstock::agent {
namespace {

class LocalStorageAgent final : public StorageAgent {
 public:
  explicit LocalStorageAgent(std::unique_ptr<Node> node) : node_(std::move(node)) {}
  ~LocalStorageAgent() override { stop(); }

  void stop() override { node_.reset(); }
  cluster::Participant& cluster() override { return *node_->cluster(); }
  ScrubReport scrub(const ScrubProgress& progress) override { return scrub_node(*node_, progress); }
  Outcome<void> take_disk_off(const std::string& path) override {
    return node_->take_disk_off(path);
  }

  Outcome<NamesMoved> move_names(const std::string& to, const NamesProgress& progress) override {
    return node_->move_names(to, progress);
  }

  AgentStatus status() override {
    AgentStatus status;
    status.directory = node_->directory();
    status.names = node_->names_status();
    const auto uptime = engine::system_clock().now() - started_;
    status.uptime_seconds =
        static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(uptime).count());
    status.cluster = node_->cluster()->status();
    status.disks = node_->disks();
    const std::vector<store::TargetStatus> targets = node_->target_status();
    for (size_t i = 0; i < node_->shards().size(); ++i) {
      status.shards.push_back(shard_status(*node_->shards()[i], &targets[i]));
      status.file_system.total_bytes += targets[i].capacity_bytes;
      status.file_system.free_bytes +=
          targets[i].capacity_bytes - std::min(targets[i].used_bytes, targets[i].capacity_bytes);
    }
    return status;
  }

 private:
  std::unique_ptr<Node> node_;
  const engine::Time started_ = engine::system_clock().now();
};

}  // namespace

Outcome<std::unique_ptr<StorageAgent>> StorageAgent::start(AgentConfig config) {
  TRY_ASSIGN(auto node, Node::start_storage(config));
  if (node->cluster() == nullptr) {
    return Failure{Code::invalid_argument,
                   config.directory + ": is of no cluster (join one with 'penstock join')"};
  }
  return std::unique_ptr<StorageAgent>(std::make_unique<LocalStorageAgent>(std::move(node)));
}

}  // namespace penstock::agent
