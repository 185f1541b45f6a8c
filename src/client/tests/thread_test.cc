// The file system on real threads: shards that poll, callers that block, the housekeeper.
#include "../limits.h"
#include "threaded_node.h"

#include <mutex>
#include <thread>
#include <vector>

namespace penstock::client {
namespace {

TEST_F(ThreadTest, every_cut_is_before_or_after_every_write) {
  const FileRef file = open("/a");
  constexpr uint64_t kEnd = 150'000;
  std::atomic<uint32_t> begun{0}, ended{0};  // cuts
  std::atomic<int> checked{0};
  on_threads(3, [&](int id) {
    for (int i = 0; i < 60; ++i) {
      if (id == 0) {
        meta::SetAttributes empty;
        empty.length = 0;
        begun.fetch_add(1);
        EXPECT_TRUE(files->set_attributes(root, inode_of(*file), empty, nullptr).has_value());
        ended.fetch_add(1);
        continue;
      }
      // Over several chunks and both targets: there whole, or gone whole.
      std::string bytes(kEnd, static_cast<char>('a' + id));
      EXPECT_EQ(*files->write(file, 0, memory_of(bytes), i % 8 == 0, nullptr, nullptr), kEnd);
      std::string found(kEnd + 1, '?');
      const uint32_t before = ended.load();
      const Result<uint64_t> got = files->read(file, 0, memory_of(found));
      ASSERT_TRUE(got.has_value());
      EXPECT_TRUE(*got == 0 || *got == kEnd) << *got;
      // A read that a slow machine lets meet so many cuts gives up, as it may.
      if (begun.load() - before > shards::limits::kReadRestartsMax) continue;
      checked.fetch_add(1);
      EXPECT_EQ(found.substr(0, *got).find('\0'), std::string::npos) << "bytes that were cut away";
    }
  });
  EXPECT_GT(checked.load(), 0);
  EXPECT_TRUE(files->sync_file(file).ok());
}

TEST_F(ThreadTest, files_are_made_settled_and_removed_by_many_at_a_time) {
  on_threads(4, [&](int id) {
    for (int i = 0; i < 50; ++i) {
      const std::string name = std::to_string(id) + "-" + std::to_string(i);
      std::string bytes = "content of " + name;
      FileRef file = open("/" + name);
      ASSERT_TRUE(file != nullptr);
      EXPECT_TRUE(
          files->write(file, 0, memory_of(bytes), i % 10 == 0, nullptr, nullptr).has_value());
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
  EXPECT_TRUE(test::eventually([&] {
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
      EXPECT_TRUE(
          files->write(file, i * 100, memory_of(bytes), true, nullptr, nullptr).has_value());
      EXPECT_EQ(length_of(*file), (i + 1) * 100);
    }
  });
}

struct SlowMount final : Observer {
  ~SlowMount() override {
    for (std::thread& answer : answers) answer.join();
  }
  void data_changed(InodeId, uint64_t, uint64_t, std::function<void()> done) override {
    const std::lock_guard lock(mutex);
    answers.emplace_back(std::move(done));
  }
  void entry_changed(InodeId, std::string_view) override {}

  std::mutex mutex;
  std::vector<std::thread> answers;
};

TEST_F(ThreadTest, observers_may_answer_from_any_thread) {
  SlowMount mount;
  files->add_observer(mount);
  const FileRef file = open("/a");
  files->watch(inode_of(*file), mount);
  on_threads(2, [&](int) {
    for (int i = 0; i < 50; ++i) {
      std::string bytes = "x";
      EXPECT_TRUE(files->write(file, 0, memory_of(bytes), false, nullptr, nullptr).has_value());
    }
  });
  files->remove_observer(mount);
  EXPECT_EQ(mount.answers.size(), 100U);
}

// The node cache in small: one number, kept for readers who do not ask the file system.
class NumberCache final : public Observer {
 public:
  explicit NumberCache(FileSystem& files) : files_(files) { files_.add_observer(*this); }
  ~NumberCache() override { files_.remove_observer(*this); }

  bool hears_beginnings() const override { return true; }
  void data_changing(InodeId, ByteRange) override { withdraw(); }
  void data_changed(InodeId, uint64_t, uint64_t, std::function<void()> done) override {
    withdraw();
    done();
  }
  void entry_changed(InodeId, std::string_view) override {}

  // By one thread.
  void fill(const FileRef& file) {
    files_.watch(inode_of(*file), *this);
    {
      const std::lock_guard lock(mutex_);
      poisoned_ = false;
    }
    if (!files_.changes_under_way(*file).empty()) return;
    uint64_t number = 0;
    EXPECT_TRUE(
        files_.read(file, 0, {reinterpret_cast<std::byte*>(&number), sizeof number}).has_value());
    const std::lock_guard lock(mutex_);
    if (poisoned_) return;
    kept_ = number;
  }
  void forget(const FileRef& file) {
    withdraw();
    files_.unwatch(inode_of(*file), *this);
  }
  std::optional<uint64_t> look() const {
    const std::lock_guard lock(mutex_);
    return kept_;
  }

 private:
  void withdraw() {
    const std::lock_guard lock(mutex_);
    poisoned_ = true;
    kept_.reset();
  }

  FileSystem& files_;
  mutable std::mutex mutex_;
  bool poisoned_ = false;
  std::optional<uint64_t> kept_;
};

TEST_F(ThreadTest, nobody_finds_less_in_a_cache_than_another_has_read) {
  NumberCache cache(*files);
  const FileRef file = open("/a");
  const auto write = [&](uint64_t number) {
    EXPECT_TRUE(files
                    ->write(file, 0, {reinterpret_cast<std::byte*>(&number), sizeof number},
                            number % 4 == 0, nullptr, nullptr)
                    .has_value());
  };
  write(1);
  std::atomic<bool> over{false};
  on_threads(3, [&](int id) {
    if (id == 0) {
      for (uint64_t number = 2; number < 1000; ++number) write(number);
      over = true;
    } else if (id == 1) {
      for (int i = 0; !over; ++i) {
        cache.fill(file);
        if (i % 8 == 0) cache.forget(file);
      }
    } else {
      while (!over) {
        uint64_t read = 0;
        EXPECT_TRUE(files->read(file, 0, {reinterpret_cast<std::byte*>(&read), sizeof read}));
        EXPECT_GE(cache.look().value_or(read), read);
      }
    }
  });
  // The time of an access may be told meanwhile.
  EXPECT_TRUE(test::eventually([&] {
    cache.fill(file);
    return cache.look() == 999U;
  }));
  cache.forget(file);
}

}  // namespace
}  // namespace penstock::client
