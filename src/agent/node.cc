#include "node.h"

#include "limits.h"

#include <algorithm>
#include <bit>
#include <unistd.h>

#include "penstock/arena.h"
#include "penstock/chunks.h"
#include "penstock/kv.h"

namespace penstock::agent {

Outcome<std::unique_ptr<NodeShard>> NodeShard::make(const AgentConfig& config,
                                                    const StoreDirectory& store,
                                                    net::LocalNetwork& network, uint32_t index) {
  std::unique_ptr<NodeShard> shard(new NodeShard(index));
  TRY_ASSIGN(shard->kv_, kv::open_rocksdb({.path = store.kv_path(index), .create = store.fresh()}));
  TRY_ASSIGN(shard->driver_, disk::DiskDriver::create({.root = store.data_path(index),
                                                       .force_threads = config.force_threads}));
  shard->loop_ = std::make_unique<engine::Loop>(engine::system_clock(), shard->random_,
                                                shard->driver_->parker(), config.spin);
  shard->disk_ = &shard->driver_->attach(*shard->loop_);
  store::TargetConfig target;
  target.directory = store.data_path(index);
  target.id = TargetId(index);
  target.capacity_bytes = store.superblock().capacity_bytes / store.superblock().shards;
  target.defragment.enabled = config.defragment;
  TRY_ASSIGN(shard->target_,
             store::Target::open(*shard->loop_, *shard->disk_, *shard->kv_, target));
  shard->service_ = chunks::make_service(*shard->target_);
  shard->net_ = std::make_unique<net::LocalNet>(network, *shard->loop_);
  shard->net_->serve(shard->address(), *shard->service_);
  return shard;
}

NodeShard::~NodeShard() {
  stop();
  net_.reset();
  service_.reset();
  target_.reset();
  // Its workers may still be on the way out of waking the loop.
  kv_.reset();
}

void NodeShard::run() {
  thread_ = std::thread([this] { loop_->run(); });
}

void NodeShard::stop() {
  if (!thread_.joinable()) return;
  const Status closed =
      engine::thread_caller().call(*loop_, [this](engine::Op& done) { target_->close(done); });
  if (!closed.ok()) log::error("target {}: closing failed: {}", index_, closed.name());
  loop_->stop();
  thread_.join();
}

Outcome<std::unique_ptr<Node>> Node::start(const AgentConfig& config) {
  std::unique_ptr<Node> node(new Node);
  TRY_ASSIGN(node->store_, StoreDirectory::open(config));
  Outcome<void> built = node->build(config);
  if (built && node->store_->fresh()) built = node->store_->finish_making();
  if (built) return node;
  node->stop();
  node->store_->undo_making();
  return built.error();
}

Outcome<void> Node::build(const AgentConfig& config) {
  TRY_ASSIGN(meta_kv_, kv::open_rocksdb({.path = store_->meta_path(), .create = store_->fresh()}));
  const Superblock& superblock = store_->superblock();
  for (uint32_t i = 0; i < superblock.shards; ++i) {
    TRY_ASSIGN(auto shard, NodeShard::make(config, *store_, network_, i));
    shards_.push_back(std::move(shard));
  }
  meta::MetaOptions options;
  options.default_layout.chunk_bytes_log2 =
      static_cast<uint32_t>(std::countr_zero(superblock.chunk_bytes));
  options.default_layout.chain_count = superblock.shards;
  options.root_uid = ::geteuid();
  options.root_gid = ::getegid();
  options.capacity = [this] {
    const engine::DiskSpace all = space();
    return meta::Capacity{all.total_bytes, all.free_bytes};
  };
  // The database is this process's alone.
  options.cached_records = static_cast<size_t>(std::clamp(config.cache_bytes / arena::kExtentBytes,
                                                          uint64_t{limits::kMetaRecordsMin},
                                                          uint64_t{limits::kMetaRecordsMax}));
  TRY_ASSIGN(meta_, meta::Meta::open(*meta_kv_, engine::system_clock(), options));

  for (auto& shard : shards_) shard->run();
  running_ = true;
  client::FileSystemConfig files;
  for (auto& shard : shards_) {
    files.shards.push_back({&shard->loop(), &shard->net()});
    files.targets.push_back(shard->address());
  }
  files.space = [this] { return space(); };
  TRY_ASSIGN(files_, client::FileSystem::open(*meta_, std::move(files)));
  return {};
}

Node::~Node() {
  stop();
}

void Node::stop() {
  if (files_ != nullptr) files_->close();
  for (auto& shard : shards_) shard->stop();
  running_ = false;
  files_.reset();
  if (meta_ != nullptr) {
    const Status closed = meta_->close();
    if (!closed.ok()) log::error("{}: closing the namespace: {}", store_->path(), closed.name());
    meta_.reset();
  }
  shards_.clear();
  meta_kv_.reset();
}

void Node::serve_rings(uint32_t shard, engine::Poller& rings) {
  engine::Loop& loop = shards_[shard]->loop();
  (void)engine::thread_caller().call(loop, [&](engine::Op& done) {
    loop.add(rings);
    loop.complete(done, Code::ok);
  });
}

void Node::withdraw_rings(uint32_t shard, engine::Poller& rings) {
  engine::Loop& loop = shards_[shard]->loop();
  (void)engine::thread_caller().call(loop, [&](engine::Op& done) {
    loop.remove(rings);
    loop.complete(done, Code::ok);
  });
}

std::vector<store::TargetStatus> Node::target_status() {
  std::vector<store::TargetStatus> all(shards_.size());
  if (!running_) return all;
  for (size_t i = 0; i < shards_.size(); ++i) {
    NodeShard& shard = *shards_[i];
    (void)engine::thread_caller().call(shard.loop(), [&](engine::Op& done) {
      all[i] = shard.target().status();
      shard.loop().complete(done, Code::ok);
    });
  }
  return all;
}

void Node::set_defragment(bool enabled) {
  for (const auto& shard : shards_) {
    (void)engine::thread_caller().call(shard->loop(), [&](engine::Op& done) {
      shard->target().set_defragment(enabled);
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
