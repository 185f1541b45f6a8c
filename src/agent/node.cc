#include "node.h"

#include "limits.h"

#include <algorithm>

namespace penstock::agent {

Outcome<std::unique_ptr<Node>> Node::start(const AgentConfig& config) {
  std::unique_ptr<Node> node(new Node);
  TRY_ASSIGN(node->storage_, Storage::open(config));
  node->directory_ = node->storage_->directory().path();
  node->secret_ = node->storage_->directory().secret();
  Outcome<void> built = node->build(config);
  if (built) built = node->storage_->finish_making();
  if (built) return node;
  node->stop();
  return built.error();
}

Outcome<std::unique_ptr<Node>> Node::start(const DisklessConfig& config) {
  std::unique_ptr<Node> node(new Node);
  node->directory_ = config.directory;
  node->secret_ = config.token_key;
  TRY(node->build(config));
  return node;
}

Outcome<void> Node::build(const AgentConfig& config) {
  for (uint32_t i = 0; i < storage_->shard_count(); ++i) {
    TRY_ASSIGN(auto shard, NodeShard::with_disk(i, storage_->directory().data_path(i),
                                                config.force_threads, config.spin));
    shards_.push_back(std::move(shard));
    NodeShard& made = *shards_.back();
    TRY(storage_->add_target(made, config.defragment));
    auto net = std::make_unique<net::LocalNet>(network_, made.loop());
    net->serve(made.address(), storage_->service(i));
    made.set_net(std::move(net));
  }
  TRY(storage_->open_meta(config.cache_bytes, [this] {
    const engine::DiskSpace all = space();
    return meta::Capacity{all.total_bytes, all.free_bytes};
  }));
  run_shards();
  ASSERT(shards_.size() == storage_->shard_count());
  client::FileSystemConfig files;
  for (const auto& shard : shards_) files.targets.push_back(shard->address());
  for (const auto& shard : shards_) files.shards.push_back({&shard->loop(), &shard->net()});
  files.space = [this] { return space(); };
  TRY_ASSIGN(files_, client::FileSystem::open(storage_->meta(), std::move(files)));
  return {};
}

Outcome<void> Node::build(const DisklessConfig& config) {
  ASSERT(config.meta != nullptr && config.make_net && !config.targets.empty());
  if (config.shards == 0) {
    return Failure{Code::invalid_argument, "a node without disks: it needs a shard at least"};
  }
  for (uint32_t i = 0; i < config.shards; ++i) {
    shards_.push_back(NodeShard::diskless(i, config.spin));
    shards_.back()->set_net(config.make_net(shards_.back()->loop()));
  }
  run_shards();
  client::FileSystemConfig files;
  for (const auto& shard : shards_) files.shards.push_back({&shard->loop(), &shard->net()});
  files.targets = config.targets;
  files.space = config.space;
  TRY_ASSIGN(files_, client::FileSystem::open(*config.meta, std::move(files)));
  return {};
}

void Node::run_shards() {
  ASSERT(!running_ && !shards_.empty());
  for (const auto& shard : shards_) shard->run();
  running_ = true;
}

Node::~Node() {
  stop();
}

void Node::stop() {
  if (files_ != nullptr) files_->close();
  for (const auto& shard : shards_) {
    shard->stop([&](engine::Op& done) {
      if (storage_ != nullptr) return storage_->target(shard->index()).close(done);
      shard->loop().complete(done, Code::ok);
    });
  }
  running_ = false;
  files_.reset();
  for (const auto& shard : shards_) shard->drop_net();
  storage_.reset();
  shards_.clear();
}

void Node::serve_rings(uint32_t shard, engine::Poller& rings) {
  ASSERT(running_ && shard < shards_.size());
  engine::Loop& loop = shards_[shard]->loop();
  (void)engine::thread_caller().call(loop, [&](engine::Op& done) {
    loop.add(rings);
    loop.complete(done, Code::ok);
  });
}

void Node::withdraw_rings(uint32_t shard, engine::Poller& rings) {
  ASSERT(running_ && shard < shards_.size());
  engine::Loop& loop = shards_[shard]->loop();
  (void)engine::thread_caller().call(loop, [&](engine::Op& done) {
    loop.remove(rings);
    loop.complete(done, Code::ok);
  });
}

std::vector<store::TargetStatus> Node::target_status() {
  if (storage_ == nullptr) return {};
  std::vector<store::TargetStatus> all(shards_.size());
  if (!running_) return all;
  for (size_t i = 0; i < shards_.size(); ++i) {
    NodeShard& shard = *shards_[i];
    (void)engine::thread_caller().call(shard.loop(), [&](engine::Op& done) {
      all[i] = storage_->target(shard.index()).status();
      shard.loop().complete(done, Code::ok);
    });
  }
  return all;
}

void Node::set_defragment(bool enabled) {
  if (storage_ == nullptr) return;
  for (const auto& shard : shards_) {
    (void)engine::thread_caller().call(shard->loop(), [&](engine::Op& done) {
      storage_->target(shard->index()).set_defragment(enabled);
      shard->loop().complete(done, Code::ok);
    });
  }
}

engine::DiskSpace Node::space() {
  engine::DiskSpace all;
  for (const store::TargetStatus& target : target_status()) {
    all.total_bytes += target.capacity_bytes;
    all.free_bytes += target.capacity_bytes - std::min(target.used_bytes, target.capacity_bytes);
  }
  return all;
}

}  // namespace penstock::agent
