#include "agents.h"

#include <algorithm>

namespace penstock::client {
namespace {

constexpr uint32_t kStorages = 2;

engine::MemoryRef as_memory(std::string& bytes) {
  return {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()};
}

}  // namespace

Status Agents::Record::read(std::span<std::byte> block) {
  if (block_.size() != block.size()) return Code::no_data;
  std::copy(block_.begin(), block_.end(), block.begin());
  return Code::ok;
}

Status Agents::Record::write(std::span<const std::byte> block) {
  block_.assign(block.begin(), block.end());
  return Code::ok;
}

Agents::Agents(uint64_t seed, size_t count)
    : world(seed), kv_image_(world), kv_(std::make_unique<sim::SimKv>(kv_image_)) {
  std::vector<engine::Address> addresses;
  for (uint32_t i = 0; i < kStorages; ++i) {
    Storage& storage = storages_.emplace_back();
    storage.loop = std::make_unique<sim::SimLoop>(world);
    storage.net = std::make_unique<net::LocalNet>(network_, *storage.loop);
    storage.target = std::make_unique<store::FakeTarget>(*storage.loop);
    storage.service = chunks::make_service(*storage.target);
    addresses.push_back({NodeId{1}, i});
    storage.net->serve(addresses.back(), *storage.service);
  }
  meta::MetaOptions options;
  options.default_layout.chunk_bytes_log2 = 16;
  options.default_layout.chain_count = kStorages;
  meta_ = std::move(*meta::Meta::open(*kv_, world.clock(), options));
  holds_ = std::make_unique<SharedHolds>(count);
  holds_->settle = [this](InodeId inode) {
    EXPECT_TRUE(agents_.front().files->settle_lost(inode).ok());
  };
  for (size_t i = 0; i < count; ++i) {
    Agent& agent = agents_.emplace_back();
    agent.loop = std::make_unique<sim::SimLoop>(world);
    agent.net = std::make_unique<net::LocalNet>(network_, *agent.loop);
    FileSystemConfig config;
    config.shards.push_back({agent.loop.get(), agent.net.get()});
    config.chains = inodes::ChainAddresses::dense(addresses);
    config.records = std::make_shared<Record>();
    config.owns_recovery = i == 0;
    config.holding = &holds_->holding(i);
    config.is_in_use_elsewhere = [this, i](InodeId inode) {
      return holds_->is_in_use_beside(i, inode);
    };
    agent.files = std::move(*FileSystem::open(*meta_, std::move(config)));
    holds_->tell(i, &agent.files->keeping());
  }
}

Agents::~Agents() {
  for (Agent& agent : agents_) agent.files->close();
  for (size_t i = 0; i < agents_.size(); ++i) holds_->tell(i, nullptr);
  for (Agent& agent : agents_) agent.files = nullptr;
  EXPECT_TRUE(meta_->close().ok());
}

FileRef Agents::open(size_t agent, const std::string& path, OpenFlags flags) {
  Result<FileRef> file = files(agent).open_path(root, path, flags, 0644, {}, nullptr);
  EXPECT_TRUE(file.has_value()) << path << ": " << file.error().name();
  return file ? *file : nullptr;
}

Status Agents::write(size_t agent, const FileRef& file, uint64_t offset, std::string bytes) {
  const auto done = files(agent).write(file, offset, as_memory(bytes), false, nullptr, nullptr);
  return done ? Status() : done.error();
}

Status Agents::write_soon(size_t agent, const FileRef& file, uint64_t offset, std::string bytes) {
  const auto done = files(agent).write_soon(file, offset, as_memory(bytes), nullptr, nullptr);
  return done ? Status() : done.error();
}

std::string Agents::read(size_t agent, const FileRef& file, uint64_t offset, uint64_t length) {
  std::string bytes(length, '?');
  const Result<uint64_t> got = files(agent).read(file, offset, as_memory(bytes));
  EXPECT_TRUE(got.has_value()) << got.error().name();
  bytes.resize(got ? *got : 0);
  return bytes;
}

Attributes Agents::stat(size_t agent, const std::string& path) {
  const Result<Attributes> found = files(agent).resolve(root, path, true);
  EXPECT_TRUE(found.has_value()) << path << ": " << found.error().name();
  return found ? *found : Attributes();
}

size_t Agents::chunk_count() const {
  size_t count = 0;
  for (const Storage& storage : storages_) count += storage.target->chunks.size();
  return count;
}

}  // namespace penstock::client
