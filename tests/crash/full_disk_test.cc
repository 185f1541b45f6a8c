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
#include "penstock/testing.h"

namespace penstock::crash {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kFileBytes = 8 * kMiB;
constexpr uint32_t kBlock = 4096;
const ChunkId kChunk{InodeId(1), 0};

struct Room {
  uint64_t capacity_bytes = 0;
  uint64_t reserve_bytes = store::kReserveByNeed;
};

// One life of a target in the directory; aborts the child by exit code on what must not happen.
class Life {
 public:
  Life(const std::string& directory, Room room) {
    auto driver = disk::DiskDriver::create({.root = directory});
    auto kv = kv::open_rocksdb({.path = directory + "/kv", .create = true});
    if (!driver || !kv) ::_exit(10);
    driver_ = std::move(*driver);
    kv_ = std::move(*kv);
    loop_ = std::make_unique<engine::Loop>(engine::system_clock(), random_, driver_->parker());
    disk_ = &driver_->attach(*loop_);
    store::TargetConfig config;
    config.directory = directory + "/data";
    config.capacity_bytes = room.capacity_bytes;
    config.reserve_bytes = room.reserve_bytes;
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
  Status write(ChunkId chunk, uint32_t offset, uint32_t length, bool durable = true) {
    memory_.assign(length, static_cast<std::byte>(random_.next()));
    store::WriteOp op;
    op.chunk = chunk;
    op.offset = offset;
    op.durable = durable;
    op.source = {memory_.data(), length, engine::kNoBuffer, engine::MemoryKind::host};
    return run(op);
  }
  // One block of a file.
  Status write_somewhere(ChunkId chunk = kChunk, bool durable = true) {
    const auto block = static_cast<uint32_t>(random_.below(kFileBytes / kBlock));
    return write(chunk, block * kBlock, kBlock, durable);
  }
  bool reads_everything(uint64_t bytes) {
    store::ScrubOp scrub;
    if (!run(scrub).ok() || scrub.damaged_blocks != 0) return false;
    return scrub.verified_bytes == bytes;
  }
  store::TargetStatus status() const { return target_->status(); }

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

uint64_t metric(std::string_view name) {
  for (const metrics::Sample& sample : metrics::snapshot()) {
    if (sample.name == name) return sample.value;
  }
  return 0;
}

int full_and_back(const std::string& directory) {
  constexpr Room kRoom{.capacity_bytes = 4 * kFileBytes, .reserve_bytes = 0};
  log::set_level(log::Level::off);
  {
    Life life(directory, kRoom);
    for (uint32_t at = 0; at < kFileBytes; at += kMiB) {
      if (!life.write(kChunk, at, kMiB).ok()) return 1;
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
      if (!life.status().full || metric("store.full") != 1) return 4;
      fs::remove(directory + "/filler");
      const auto limit = engine::system_clock().now() + std::chrono::seconds(30);
      while (!life.write_somewhere().ok()) {
        if (engine::system_clock().now() > limit) return 5;
      }
      if (life.status().full || metric("store.full") != 0 || metric("kv.stopped") != 0) return 6;
      if (!life.reads_everything(kFileBytes)) return 7;
    }
  }
  Life again(directory, kRoom);
  return again.reads_everything(kFileBytes) ? 0 : 8;
}

// Data takes all that it may; the database still has room for whatever is done to it.
int full_of_data(const std::string& directory) {
  log::set_level(log::Level::off);
  Life life(directory, {});
  uint32_t files = 0;
  Status status;
  while (status.ok() && files < 1000) {
    for (uint32_t at = 0; at < kFileBytes && status.ok(); at += kMiB) {
      status = life.write({InodeId(2), files}, at, kMiB, false);
    }
    files += status.ok() ? 1 : 0;
  }
  if (status.code() != Code::no_space) return 2;
  const uint64_t most = fs::space(directory).capacity;
  if (life.status().used_bytes < most / 4 * 3) return 3;
  const auto check = [&](bool written) {
    return written && metric("kv.stopped") == 0 && !life.status().full;
  };
  // Blocks are replaced here and there, with many small commits.
  for (uint32_t i = 0; i < 6000; ++i) {
    if (!check(life.write_somewhere({InodeId(2), i % files}, i % 16 == 0).ok())) return 4;
  }
  // The dearest metadata: a block map, even a chunk, for each single block.
  store::RemoveOp remove;
  remove.inode = InodeId(2);
  if (!life.run(remove).ok()) return 5;
  for (uint32_t i = 0; i < 20'000; ++i) {
    if (!check(life.write({InodeId(3), i}, 0, kBlock, i % 64 == 0).ok())) return 6;
  }
  return life.reads_everything(20'000ULL * kBlock) ? 0 : 7;
}

// Runs the body on a small file system of its own that only it sees.
void on_small_disk(const char* size, const std::function<int(const std::string&)>& body) {
  constexpr int kRefused = 77;
  const test::ScratchDirectory point;
  const int result = test::in_child([&] {
    if (::unshare(CLONE_NEWNS) != 0) return kRefused;
    ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
    if (::mount("tmpfs", point.path().c_str(), "tmpfs", 0, size) != 0) return kRefused;
    return body(point.path());
  });
  if (result == kRefused) GTEST_SKIP() << "mounting a small file system is not allowed here";
  EXPECT_EQ(result, 0);
}

TEST(FullDisk, ends_writes_with_no_space_and_goes_on_by_itself) {
  on_small_disk("size=96m", full_and_back);
}

TEST(FullDisk, keeps_room_for_metadata_and_no_more) {
  on_small_disk("size=160m", full_of_data);
}

}  // namespace
}  // namespace penstock::crash
