#include "node_shard.h"

namespace penstock::agent {

Outcome<std::unique_ptr<NodeShard>> NodeShard::with_disk(uint32_t index, const std::string& root,
                                                         bool force_threads,
                                                         engine::Duration spin) {
  std::unique_ptr<NodeShard> shard(new NodeShard(index));
  TRY_ASSIGN(shard->driver_,
             disk::DiskDriver::create({.root = root, .force_threads = force_threads}));
  shard->parker_ = &shard->driver_->parker();
  shard->loop_ =
      std::make_unique<engine::Loop>(engine::system_clock(), shard->random_, *shard->parker_, spin);
  shard->disk_ = &shard->driver_->attach(*shard->loop_);
  return shard;
}

std::unique_ptr<NodeShard> NodeShard::diskless(uint32_t index, engine::Duration spin) {
  std::unique_ptr<NodeShard> shard(new NodeShard(index));
  shard->futex_parker_ = std::make_unique<engine::FutexParker>(engine::system_clock());
  shard->parker_ = shard->futex_parker_.get();
  shard->loop_ =
      std::make_unique<engine::Loop>(engine::system_clock(), shard->random_, *shard->parker_, spin);
  return shard;
}

NodeShard::~NodeShard() {
  ASSERT(!thread_.joinable());
}

void NodeShard::set_net(std::unique_ptr<engine::Net> net) {
  ASSERT(net != nullptr);
  borrow_net(*net);
  own_net_ = std::move(net);
}

void NodeShard::borrow_net(engine::Net& net) {
  ASSERT(net_ == nullptr && !thread_.joinable());
  net_ = &net;
}

void NodeShard::run() {
  ASSERT(net_ != nullptr && !thread_.joinable());
  thread_ = std::thread([this] { loop_->run(); });
}

void NodeShard::stop(const std::function<void(engine::Op&)>& last) {
  if (!thread_.joinable()) return;
  const Status ended = engine::thread_caller().call(*loop_, last);
  if (!ended.ok()) log::error("shard {}: closing failed: {}", index_, ended.name());
  loop_->stop();
  thread_.join();
}

}  // namespace penstock::agent
