// A node in one thread for tests: loops, transport, targets in memory, meta and the file system.
#pragma once

#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "penstock/chunks.h"
#include "penstock/client.h"
#include "penstock/net.h"
#include "penstock/sim.h"
#include "penstock/store_fake.h"

namespace penstock::client {

// A database during whose next sync something else happens.
class InterruptedKv final : public engine::Kv {
 public:
  explicit InterruptedKv(engine::Kv& under) : under_(under) {}
  void submit(engine::KvOp& op) override { under_.submit(op); }
  using engine::Kv::run;
  Status run(engine::KvOp& op) override { return under_.run(op); }
  Status sync() override {
    if (during_sync) std::exchange(during_sync, nullptr)();
    return under_.sync();
  }
  std::function<void()> during_sync;

 private:
  engine::Kv& under_;
};

class Node {
 public:
  explicit Node(uint64_t seed = 1, size_t shards = 2) : world(seed), kv_image(world) {
    for (size_t i = 0; i < shards; ++i) {
      loops.push_back(std::make_unique<sim::SimLoop>(world));
      nets.push_back(std::make_unique<net::LocalNet>(network, *loops[i]));
      targets.push_back(std::make_unique<store::FakeTarget>(*loops[i]));
      services.push_back(chunks::make_service(*targets[i]));
      nets[i]->serve({NodeId{1}, static_cast<uint32_t>(i)}, *services[i]);
    }
    start();
  }
  ~Node() { stop(); }

  void start() {
    const Outcome<void> started = try_start();
    ASSERT_TRUE(started.has_value()) << started.error().message;
  }
  Outcome<void> try_start() {
    sim_kv = std::make_unique<sim::SimKv>(kv_image);
    kv = std::make_unique<InterruptedKv>(*sim_kv);
    meta::MetaOptions options;
    options.default_layout.chunk_bytes_log2 = 16;
    options.default_layout.chain_count = static_cast<uint32_t>(targets.size());
    auto opened = meta::Meta::open(*kv, world.clock(), options);
    if (!opened) return opened.error();
    meta = std::move(*opened);
    auto made = FileSystem::open(*meta, make_config());
    if (!made) return made.error();
    files = std::move(*made);
    return {};
  }
  // Of the next life, or of another file system beside this one.
  FileSystemConfig make_config() {
    FileSystemConfig config;
    std::vector<engine::Address> addresses;
    for (size_t i = 0; i < loops.size(); ++i) {
      config.shards.push_back({loops[i].get(), nets[i].get()});
      addresses.push_back({NodeId{1}, static_cast<uint32_t>(i)});
    }
    chains = inodes::ChainAddresses::dense(addresses);
    if (learn_more) learn_more(*chains);
    config.chains = chains;
    tables = std::make_shared<inodes::ChainTables>();
    EXPECT_TRUE(tables->offer({.chain_count = static_cast<uint32_t>(loops.size())}).ok());
    config.tables = tables;
    config.is_in_use_elsewhere = is_in_use_elsewhere;
    config.space = space;
    return config;
  }
  void stop() {
    if (files != nullptr) files->close();
    files = nullptr;
    if (meta != nullptr) {
      EXPECT_TRUE(meta->close().ok());
    }
    meta = nullptr;
    kv = nullptr;
    sim_kv = nullptr;
  }
  // As stop(), but nothing is settled.
  void crash() {
    files = nullptr;
    meta = nullptr;
    kv_image.kill();
    kv = nullptr;
    sim_kv = nullptr;
  }

  FileRef open(const std::string& path, OpenFlags flags = {.write = true, .create = true}) {
    Result<FileRef> file = files->open_path(root, path, flags, 0644, {}, nullptr);
    EXPECT_TRUE(file.has_value()) << path << ": " << file.error().name();
    return file ? *file : nullptr;
  }
  Result<uint64_t> write(const FileRef& file, uint64_t offset, std::string bytes,
                         bool durable = false, Observer* self = nullptr) {
    return files->write(file, offset, memory_of(bytes), durable, self, nullptr);
  }
  std::string read(const FileRef& file, uint64_t offset, uint64_t length) {
    std::string bytes(length, '?');
    const Result<uint64_t> got = files->read(file, offset, memory_of(bytes));
    EXPECT_TRUE(got.has_value()) << got.error().name();
    bytes.resize(got ? *got : 0);
    return bytes;
  }
  Status truncate(InodeId inode, uint64_t length) {
    meta::SetAttributes changes;
    changes.length = length;
    const auto set = files->set_attributes(root, inode, changes, nullptr);
    return set ? Code::ok : set.error();
  }
  static engine::MemoryRef memory_of(std::string& bytes) {
    return {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()};
  }
  size_t chunk_count() const {
    size_t count = 0;
    for (const auto& target : targets) count += target->chunks.size();
    return count - targets[0]->chunks.count({kRecordsInode, 0});
  }
  uint64_t length(InodeId inode) {
    const auto found = files->attributes(inode);
    EXPECT_TRUE(found.has_value());
    return found ? found->length : 0;
  }

  const Credentials root;
  sim::SimWorld world;
  sim::SimKvImage kv_image;
  std::vector<std::unique_ptr<sim::SimLoop>> loops;
  net::LocalNetwork network;
  std::vector<std::unique_ptr<net::LocalNet>> nets;
  std::vector<std::unique_ptr<store::FakeTarget>> targets;
  std::vector<std::unique_ptr<engine::Service>> services;
  std::shared_ptr<inodes::ChainAddresses> chains;  // of this life
  std::shared_ptr<inodes::ChainTables> tables;
  // What the next life knows of chains from the start, beside those of the targets.
  std::function<void(inodes::ChainAddresses&)> learn_more;
  std::function<bool(InodeId)> is_in_use_elsewhere;  // of the next life
  std::function<engine::DiskSpace()> space;          // of the next life
  std::unique_ptr<sim::SimKv> sim_kv;
  std::unique_ptr<InterruptedKv> kv;
  std::unique_ptr<meta::Meta> meta;
  std::unique_ptr<FileSystem> files;
};

}  // namespace penstock::client
