// A target with its real database on a file system that somebody else fills up: writes end with
// ENOSPC as long as there is no room, and go on by themselves when there is.
#include <filesystem>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/disk.h"
#include "penstock/kv.h"
#include "penstock/store.h"

namespace penstock::crash {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kFileBytes = 8 * kMiB;
constexpr uint32_t kBlock = 4096;
const ChunkId kChunk{InodeId(1), 0};

// One life of a target in the directory; aborts the child by exit code on what must not happen.
class Life {
 public:
  explicit Life(const std::string& directory) {
    auto driver = disk::DiskDriver::create({.root = directory});
    auto kv =
        kv::open_rocksdb({.path = directory + "/kv", .create = true, .write_buffer_bytes = kMiB});
    if (!driver || !kv) ::_exit(10);
    driver_ = std::move(*driver);
    kv_ = std::move(*kv);
    loop_ = std::make_unique<engine::Loop>(engine::system_clock(), random_, driver_->parker());
    disk_ = &driver_->attach(*loop_);
    store::TargetConfig config;
    config.directory = directory + "/data";
    config.capacity_bytes = 4 * kFileBytes;
    config.reserve_bytes = 0;
    auto target = store::Target::open(*loop_, *disk_, *kv_, config);
    if (!target) ::_exit(11);
    target_ = std::move(*target);
  }
  ~Life() {
    (void)engine::PollingCaller().call(*loop_, [&](engine::Op& done) { target_->close(done); });
    target_.reset();
    loop_->remove(*disk_);
  }

  template <class Operation>
  Status run(Operation& op) {
    bool done = false;
    op.owner = &done;
    op.completion = [](engine::Op& ended) { ended.owner_as<bool>() = true; };
    target_->submit(op);
    while (!done) loop_->poll_or_park(engine::kNever);
    return op.status;
  }
  Status write(uint32_t offset, uint32_t length) {
    memory_.assign(length, static_cast<std::byte>(random_.next()));
    store::WriteOp op;
    op.chunk = kChunk;
    op.offset = offset;
    op.source = {memory_.data(), length, engine::kNoBuffer, engine::MemoryKind::host};
    return run(op);
  }
  Status write_somewhere() {
    return write(static_cast<uint32_t>(random_.below(kFileBytes / kBlock)) * kBlock, kBlock);
  }
  bool reads_everything() {
    store::ScrubOp scrub;
    if (!run(scrub).ok() || scrub.damaged_blocks != 0) return false;
    return scrub.verified_bytes == kFileBytes;
  }
  static bool full() {
    for (const metrics::Sample& sample : metrics::snapshot()) {
      if (sample.name == "store.full") return sample.value != 0;
    }
    return false;
  }

 private:
  engine::SeededRandom random_{7};
  std::vector<std::byte> memory_;
  std::unique_ptr<engine::Kv> kv_;
  std::unique_ptr<disk::DiskDriver> driver_;
  std::unique_ptr<engine::Loop> loop_;
  engine::Disk* disk_ = nullptr;
  std::unique_ptr<store::Target> target_;
};

// Takes all the room that is left on the file system.
void fill(const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  for (const size_t piece : {size_t{kMiB}, size_t{4096}}) {
    const std::string bytes(piece, 'x');
    while (file.write(bytes.data(), static_cast<std::streamsize>(piece)).flush()) continue;
    file.clear();
  }
}

int full_and_back(const std::string& directory) {
  log::set_level(log::Level::off);
  {
    Life life(directory);
    for (uint32_t at = 0; at < kFileBytes; at += kMiB) {
      if (!life.write(at, kMiB).ok()) return 1;
    }
    for (int round = 0; round < 2; ++round) {
      fill(directory + "/filler");
      // The database's log goes on in the room that it has taken before.
      Status status;
      for (int i = 0; i < 200'000 && status.ok(); ++i) status = life.write_somewhere();
      if (status.code() != Code::no_space) return 2;
      for (int i = 0; i < 100; ++i) {
        if (life.write_somewhere().code() != Code::no_space) return 3;
      }
      if (!Life::full()) return 4;
      fs::remove(directory + "/filler");
      const auto limit = engine::system_clock().now() + std::chrono::seconds(30);
      while (!life.write_somewhere().ok()) {
        if (engine::system_clock().now() > limit) return 5;
      }
      if (Life::full()) return 6;
      if (!life.reads_everything()) return 7;
    }
  }
  Life again(directory);
  return again.reads_everything() ? 0 : 8;
}

int in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

TEST(FullDisk, ends_writes_with_no_space_and_goes_on_by_itself) {
  constexpr int kRefused = 77;
  std::string point = testing::TempDir() + "penstock-full-XXXXXX";
  ASSERT_NE(::mkdtemp(point.data()), nullptr);
  const int result = in_child([&] {
    if (::unshare(CLONE_NEWNS) != 0) return kRefused;
    ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
    if (::mount("tmpfs", point.c_str(), "tmpfs", 0, "size=96m") != 0) return kRefused;
    return full_and_back(point);
  });
  fs::remove(point);
  if (result == kRefused) GTEST_SKIP() << "mounting a small file system is not allowed here";
  EXPECT_EQ(result, 0);
}

}  // namespace
}  // namespace penstock::crash
