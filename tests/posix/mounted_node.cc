#include "mounted_node.h"

#include <cstdlib>
#include <iostream>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock::posix {
namespace {

std::string& reason() {
  static std::string text;
  return text;
}

bool cannot_mount_here(const Failure& failure) {
  const Code code = failure.status.code();
  return code == Code::not_supported || code == Code::not_permitted || code == Code::access_denied;
}

// Ends the node before the program's own statics go.
class NodeEnvironment : public ::testing::Environment {
 public:
  std::unique_ptr<MountedNode> node;
  bool tried = false;
  void TearDown() override { node.reset(); }
};

NodeEnvironment& environment() {
  static auto* made =
      static_cast<NodeEnvironment*>(::testing::AddGlobalTestEnvironment(new NodeEnvironment));
  return *made;
}
[[maybe_unused]] NodeEnvironment& registered = environment();

}  // namespace

const std::string& MountedNode::why_not() {
  return reason();
}

MountedNode* MountedNode::shared() {
  NodeEnvironment& here = environment();
  if (!here.tried) {
    here.tried = true;
    std::unique_ptr<MountedNode> node(new MountedNode);
    ::mkdir(node->mount_path_.c_str(), 0755);
    ::mkdir(node->host_path_.c_str(), 0755);
    node->start();
    if (node->mount_) here.node = std::move(node);
  }
  return here.node.get();
}

void MountedNode::start() {
  agent::AgentConfig config;
  config.directory = store_path_;
  config.chunk_bytes = limits::kChunkBytesMin;
  config.capacity_bytes = 4 * kGiB;
  config.cache_bytes = 8 * kMiB;
  auto agent = agent::Agent::start(config);
  if (!agent) {
    std::cerr << agent.error().message << "\n";
    std::abort();
  }
  agent_ = std::move(*agent);
  fuse::MountConfig mount_config;
  mount_config.mount_point = mount_path_;
  mount_config.source = store_path_;
  // As the host's directory, where root can.
  mount_config.options.allow_other = mount_config.options.devices = ::geteuid() == 0;
  auto mount = fuse::Mount::start(agent_->files(), agent_.get(), mount_config);
  if (mount) {
    mount_ = std::move(*mount);
    return;
  }
  reason() = mount.error().message;
  if (!cannot_mount_here(mount.error())) {
    std::cerr << reason() << "\n";
    std::abort();
  }
}

void MountedNode::restart() {
  mount_.reset();
  agent_->stop();
  agent_.reset();
  start();
  if (!mount_) std::abort();
}

MountedNode::~MountedNode() {
  mount_.reset();
  if (agent_) agent_->stop();
  agent_.reset();
}

std::string PosixTest::directory(const std::string& name) {
  const std::string path = node().mount() + "/" + name;
  remove_all(path);
  EXPECT_EQ(::mkdir(path.c_str(), 0777), 0);
  EXPECT_EQ(::chmod(path.c_str(), 0777), 0);
  return path;
}

uint64_t seed() {
  return test::number_from("PENSTOCK_SEED", 1);
}

}  // namespace penstock::posix
