// The file system on real threads: shards that poll, callers that block, the housekeeper.
#include "fake_target.h"

#include <gtest/gtest.h>
#include <thread>

#include "penstock/client.h"
#include "penstock/kv.h"
#include "penstock/net.h"

namespace penstock::client {
namespace {

using std::chrono::steady_clock;

class ThreadTest : public testing::Test {
 protected:
  struct Shard {
    engine::SeededRandom random{1};
    engine::FutexParker parker{engine::system_clock()};
    engine::Loop loop{engine::system_clock(), random, parker};
    std::unique_ptr<net::LocalNet> net;
    std::unique_ptr<FakeTarget> target;
    std::unique_ptr<engine::Service> service;
    std::thread thread;
  };

  ThreadTest() {
    FileSystemConfig config;
    for (uint32_t i = 0; i < shards.size(); ++i) {
      Shard& shard = shards[i];
      shard.net = std::make_unique<net::LocalNet>(network, shard.loop);
      shard.target = std::make_unique<FakeTarget>(shard.loop);
      shard.service = make_chunk_service(*shard.target);
      shard.net->serve({0, i}, *shard.service);
      config.shards.push_back({&shard.loop, shard.net.get()});
      config.targets.push_back({0, i});
    }
    for (Shard& shard : shards) shard.thread = std::thread([&shard] { shard.loop.run(); });
    meta::MetaOptions options;
    options.default_layout.chunk_bytes_log2 = 16;
    options.default_layout.chain_count = static_cast<uint32_t>(shards.size());
    meta = std::move(*meta::Meta::open(*kv, engine::system_clock(), options));
    config.caller = &engine::thread_caller();
    files = std::move(*FileSystem::open(*meta, std::move(config)));
  }
  ~ThreadTest() override {
    files->close();
    for (Shard& shard : shards) {
      shard.loop.stop();
      shard.thread.join();
    }
    files = nullptr;
    for (uint32_t i = 0; i < shards.size(); ++i) shards[i].net->withdraw({0, i});
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
  // Waits for the housekeeper.
  bool eventually(const std::function<bool()>& condition) {
    const auto until = steady_clock::now() + std::chrono::seconds(30);
    while (!condition()) {
      if (steady_clock::now() > until) return false;
      std::this_thread::yield();
    }
    return true;
  }

  const Credentials root;
  net::LocalNetwork network;
  std::array<Shard, 2> shards;
  std::unique_ptr<engine::Kv> kv = kv::make_memory_kv();
  std::unique_ptr<meta::Meta> meta;
  std::unique_ptr<FileSystem> files;
};

TEST_F(ThreadTest, every_cut_is_before_or_after_every_write) {
  const FileRef file = open("/a");
  constexpr uint64_t kEnd = 150'000;
  on_threads(3, [&](int id) {
    for (int i = 0; i < 60; ++i) {
      if (id == 0) {
        meta::SetAttributes empty;
        empty.length = 0;
        EXPECT_TRUE(files->set_attributes(root, inode_of(*file), empty, nullptr).has_value());
        continue;
      }
      // Over several chunks and both targets: there whole, or gone whole.
      std::string bytes(kEnd, static_cast<char>('a' + id));
      EXPECT_EQ(*files->write(file, 0, memory_of(bytes), i % 8 == 0, nullptr), kEnd);
      std::string found(kEnd + 1, '?');
      const Result<uint64_t> got = files->read(file, 0, memory_of(found));
      ASSERT_TRUE(got.has_value());
      EXPECT_TRUE(*got == 0 || *got == kEnd) << *got;
      EXPECT_EQ(found.substr(0, *got).find('\0'), std::string::npos) << "bytes that were cut away";
    }
  });
  EXPECT_TRUE(files->sync_file(file).ok());
}

TEST_F(ThreadTest, files_are_made_settled_and_removed_by_many_at_a_time) {
  on_threads(4, [&](int id) {
    for (int i = 0; i < 50; ++i) {
      const std::string name = std::to_string(id) + "-" + std::to_string(i);
      std::string bytes = "content of " + name;
      FileRef file = open("/" + name);
      ASSERT_TRUE(file != nullptr);
      EXPECT_TRUE(files->write(file, 0, memory_of(bytes), i % 10 == 0, nullptr).has_value());
      if (i % 3 == 0) {
        file = nullptr;  // the housekeeper settles it
      } else {
        EXPECT_TRUE(files->close_file(std::move(file)).ok());
      }
      EXPECT_EQ(files->resolve(root, "/" + name, true)->length, bytes.size());
      if (i % 2 == 0) {
        EXPECT_TRUE(files->unlink(root, meta::kRootInode, name, nullptr).ok());
      }
    }
  });
  EXPECT_TRUE(eventually([&] {
    const FileSystemStatus status = files->status();
    return status.removed_waiting == 0 && status.open_files == 0 && status.inodes == 101;
  }));
  EXPECT_TRUE(meta->orphans(10)->empty());
  EXPECT_TRUE(meta->unsettled()->empty());
}

TEST_F(ThreadTest, durable_writes_of_many_share_their_syncs_and_all_complete) {
  on_threads(4, [&](int id) {
    const FileRef file = open("/" + std::to_string(id));
    for (uint64_t i = 0; i < 100; ++i) {
      std::string bytes(100, 'x');
      EXPECT_TRUE(files->write(file, i * 100, memory_of(bytes), true, nullptr).has_value());
      EXPECT_EQ(length_of(*file), (i + 1) * 100);
    }
  });
}

struct SlowMount final : Observer {
  std::atomic<int> told{0};
  void data_changed(InodeId, uint64_t, uint64_t, std::function<void()> done) override {
    told.fetch_add(1);
    std::thread(std::move(done)).detach();
  }
  void entry_changed(InodeId, std::string_view) override {}
};

TEST_F(ThreadTest, observers_may_answer_from_any_thread) {
  SlowMount mount;
  files->add_observer(mount);
  const FileRef file = open("/a");
  files->watch(inode_of(*file), mount);
  on_threads(2, [&](int) {
    for (int i = 0; i < 50; ++i) {
      std::string bytes = "x";
      EXPECT_TRUE(files->write(file, 0, memory_of(bytes), false, nullptr).has_value());
    }
  });
  EXPECT_EQ(mount.told.load(), 100);
  files->remove_observer(mount);
}

}  // namespace
}  // namespace penstock::client
