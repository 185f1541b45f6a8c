// The file system on real threads: shards that poll, callers that block, the housekeeper.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "penstock/chunks.h"
#include "penstock/client.h"
#include "penstock/kv.h"
#include "penstock/net.h"
#include "penstock/store_fake.h"
#include "penstock/testing.h"

namespace penstock::client {

class ThreadTest : public testing::Test {
 protected:
  struct Shard {
    engine::SeededRandom random{1};
    engine::FutexParker parker{engine::system_clock()};
    engine::Loop loop{engine::system_clock(), random, parker};
    std::unique_ptr<net::LocalNet> net;
    std::unique_ptr<store::FakeTarget> target;
    std::unique_ptr<engine::Service> service;
    std::thread thread;
  };

  // `change`: of the configuration, before the file system is opened.
  explicit ThreadTest(const std::function<void(FileSystemConfig&)>& change = nullptr) {
    std::vector<engine::Address> addresses;
    for (uint32_t i = 0; i < shards.size(); ++i) {
      Shard& shard = shards[i];
      shard.net = std::make_unique<net::LocalNet>(network, shard.loop);
      shard.target = std::make_unique<store::FakeTarget>(shard.loop);
      shard.target->fault = [this] {
        asked.fetch_add(1);
        return failing.load() ? Status(Code::no_space) : Status();
      };
      shard.service = chunks::make_service(*shard.target);
      shard.net->serve({NodeId{1}, i}, *shard.service);
      settings.shards.push_back({&shard.loop, shard.net.get()});
      addresses.push_back({NodeId{1}, i});
    }
    settings.chains = inodes::ChainAddresses::dense(addresses);
    for (Shard& shard : shards) shard.thread = std::thread([&shard] { shard.loop.run(); });
    meta::MetaOptions options;
    options.default_layout.chunk_bytes_log2 = 16;
    options.default_layout.chain_count = static_cast<uint32_t>(shards.size());
    meta = std::move(*meta::Meta::open(*kv, engine::system_clock(), options));
    if (change) change(settings);
    files = std::move(*FileSystem::open(*meta, settings));
  }
  ~ThreadTest() override {
    files->close();
    for (Shard& shard : shards) {
      shard.loop.stop();
      shard.thread.join();
    }
    files = nullptr;
    for (uint32_t i = 0; i < shards.size(); ++i) shards[i].net->withdraw({NodeId{1}, i});
  }

  // Ends the file system as a crash does, and opens it again on what the targets have.
  void crash() {
    files = nullptr;
    files = std::move(*FileSystem::open(*meta, settings));
  }

  FileRef open(const std::string& path, OpenFlags flags = {.write = true, .create = true}) {
    auto file = files->open_path(root, path, flags, 0644, {}, nullptr);
    EXPECT_TRUE(file.has_value()) << path << ": " << file.error().name();
    return file ? *file : nullptr;
  }
  static engine::MemoryRef memory_of(std::string& bytes) {
    return {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()};
  }
  static void on_threads(int count, const std::function<void(int)>& work) {
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i) threads.emplace_back([&work, i] { work(i); });
    for (std::thread& thread : threads) thread.join();
  }

  std::atomic<uint64_t> asked{0};    // operations that reached a target
  std::atomic<bool> failing{false};  // all of them from now on
  const Credentials root;
  net::LocalNetwork network;
  std::array<Shard, 2> shards;
  std::unique_ptr<engine::Kv> kv = kv::make_memory_kv();
  std::unique_ptr<meta::Meta> meta;
  FileSystemConfig settings;
  std::unique_ptr<FileSystem> files;
};

}  // namespace penstock::client
