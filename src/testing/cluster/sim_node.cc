#include "penstock/testing_cluster.h"

namespace penstock::test {

SimNode::SimNode(sim::SimNetwork& network, sim::SimWorld& world, uint32_t number,
                 std::vector<engine::Address> targets)
    : network_(network),
      world_(world),
      number_(number),
      targets_(std::move(targets)),
      disk_image_(world, kGiB),
      map_image_(world),
      meta_image_(world) {}

SimNode::~SimNode() {
  ASSERT(loop_ == nullptr);
}

Status SimNode::start_store() {
  ASSERT(loop_ == nullptr);
  loop_ = std::make_unique<sim::SimLoop>(world_, sim::LoopDriver::world_when_called);
  net_ = std::make_unique<sim::SimNet>(network_, *loop_, NodeId{number_});
  disk_ = std::make_unique<sim::SimDisk>(disk_image_, *loop_);
  maps_ = std::make_unique<sim::SimKv>(map_image_);
  store::TargetConfig config;
  config.directory = "/store";
  config.id = TargetId{number_};
  config.capacity_bytes = 256 * kMiB;
  auto opened = store::Target::open(*loop_, *disk_, *maps_, config);
  if (!opened) return opened.error().status;
  target_ = std::move(*opened);
  service_ = chunks::make_service(*target_);
  net_->serve(address(), *service_);
  serving_ = true;
  return Code::ok;
}

Status SimNode::start_mount() {
  ASSERT(serving_ && files_ == nullptr && !targets_.empty());
  meta_kv_ = std::make_unique<sim::SimKv>(meta_image_);
  meta::MetaOptions options;
  options.default_layout.chunk_bytes_log2 = 16;
  options.default_layout.chain_count = static_cast<uint32_t>(targets_.size());
  auto opened = meta::Meta::open(*meta_kv_, world_.clock(), options);
  if (!opened) return opened.error().status;
  meta_ = std::move(*opened);
  client::FileSystemConfig config;
  config.shards.push_back({loop_.get(), net_.get()});
  config.chains = inodes::ChainAddresses::dense(targets_);
  // A look at many of them over wires that lose would hardly ever come to its end.
  config.written_ids_step = 40;
  auto made = client::FileSystem::open(*meta_, std::move(config));
  if (!made) {
    meta_ = nullptr;
    meta_kv_ = nullptr;
    return made.error().status;
  }
  files_ = std::move(*made);
  return Code::ok;
}

void SimNode::stop() {
  if (files_ != nullptr) files_->close();
  files_ = nullptr;
  if (meta_ != nullptr) static_cast<void>(meta_->close());
  if (serving_) {
    net_->withdraw(address());
    static_cast<void>(
        engine::thread_caller().call(*loop_, [this](engine::Op& done) { target_->close(done); }));
  }
  tear_down();
}

void SimNode::die(bool power_cut) {
  world_.trace("node.dies", number_, power_cut);
  if (net_ != nullptr) net_->kill();
  for (sim::SimKvImage* const image : {&map_image_, &meta_image_}) {
    power_cut ? image->power_cut() : image->kill();
  }
  power_cut ? disk_image_.power_cut() : disk_image_.kill();
  // Ghosts answer what is in flight; threads that were in a call find it closed, and let go.
  std::weak_ptr<client::FileSystem> gone = files_;
  files_ = nullptr;
  while (!gone.expired()) world_.run_for(std::chrono::milliseconds(100));
  world_.run_for(std::chrono::seconds(1));
  tear_down();
}

void SimNode::tear_down() {
  files_ = nullptr;
  meta_ = nullptr;
  meta_kv_ = nullptr;
  net_ = nullptr;
  service_ = nullptr;
  target_ = nullptr;
  maps_ = nullptr;
  disk_ = nullptr;
  loop_ = nullptr;
  serving_ = false;
}

}  // namespace penstock::test
