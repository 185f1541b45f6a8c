// What the conformance tests of engine::Disk share: the disks, and a fixture to use them.
#pragma once

#include <cstdlib>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <unistd.h>

#include "penstock/disk.h"
#include "penstock/sim.h"
#include "penstock/testing.h"

namespace penstock::sim {
using engine::DiskFile;
using engine::DiskOp;
using engine::DiskOpKind;
using engine::Loop;
using engine::Op;

// One disk, its loop, and a directory to work in.
class Bench {
 public:
  virtual ~Bench() = default;
  virtual Loop& loop() = 0;
  virtual engine::Disk& disk() = 0;
  virtual std::string root() = 0;
};

class RealBench final : public Bench {
 public:
  RealBench(const std::string& parent, bool force_threads) : root_(parent) {
    auto created = disk::DiskDriver::create({.root = root_.path(), .force_threads = force_threads});
    if (!created) std::abort();
    driver_ = std::move(*created);
    loop_ = std::make_unique<Loop>(engine::system_clock(), random_, driver_->parker());
    disk_ = &driver_->attach(*loop_);
  }
  Loop& loop() override { return *loop_; }
  engine::Disk& disk() override { return *disk_; }
  std::string root() override { return root_.path(); }

 private:
  const test::ScratchDirectory root_;
  engine::SeededRandom random_{1};
  std::unique_ptr<disk::DiskDriver> driver_;
  std::unique_ptr<Loop> loop_;
  engine::Disk* disk_ = nullptr;
};

class SimBench final : public Bench {
 public:
  SimBench() { (void)disk_.make_directory("/work"); }
  Loop& loop() override { return loop_; }
  engine::Disk& disk() override { return disk_; }
  std::string root() override { return "/work"; }

 private:
  SimWorld world_{1};
  SimLoop loop_{world_};
  SimDiskImage image_{world_};
  SimDisk disk_{image_, loop_};
};

struct Kind {
  const char* name;
  std::function<std::unique_ptr<Bench>()> make;
};

class DiskConformance : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    bench_ = GetParam().make();
    alignment_ = disk().facts().alignment;
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(4096, kMemoryBytes)));
    std::memset(memory_.get(), 0, kMemoryBytes);
  }

  engine::Disk& disk() { return bench_->disk(); }
  std::string path(const std::string& name) { return bench_->root() + "/" + name; }

  Status run(DiskOp& op) {
    engine::PollingCaller caller;
    return caller.call(bench_->loop(), [&](Op& done) {
      op.owner = &done;
      op.completion = [](Op& self) {
        Op& end = self.owner_as<Op>();
        end.status = self.status;
        end.completion(end);
      };
      disk().submit(op);
    });
  }

  DiskFile create(const std::string& name, bool direct = true) {
    auto opened = disk().open(path(name), {.create = true, .direct = direct});
    EXPECT_TRUE(opened.has_value()) << opened.error().message;
    return opened.has_value() ? *opened : DiskFile();
  }

  Status transfer(DiskOpKind kind, DiskFile file, uint64_t offset, uint64_t length, uint64_t at = 0,
                  uint64_t* transferred = nullptr) {
    DiskOp op;
    op.kind = kind;
    op.file = file;
    op.offset = offset;
    op.memory = {memory_.get() + at, length, engine::kNoBuffer, engine::MemoryKind::host};
    const Status status = run(op);
    if (transferred != nullptr) *transferred = op.transferred;
    return status;
  }
  Status write(DiskFile file, uint64_t offset, uint64_t length, uint64_t at = 0) {
    return transfer(DiskOpKind::write, file, offset, length, at);
  }
  Status read(DiskFile file, uint64_t offset, uint64_t length, uint64_t at, uint64_t* transferred) {
    return transfer(DiskOpKind::read, file, offset, length, at, transferred);
  }
  Status change(DiskOpKind kind, DiskFile file, uint64_t offset, uint64_t length) {
    DiskOp op;
    op.kind = kind;
    op.file = file;
    op.offset = offset;
    op.length = length;
    return run(op);
  }
  void fill(uint64_t at, uint64_t length, int seed) {
    for (uint64_t i = 0; i < length; ++i) {
      memory_.get()[at + i] = static_cast<std::byte>(mix64(i + static_cast<uint64_t>(seed)));
    }
  }
  bool same(uint64_t a, uint64_t b, uint64_t length) {
    return std::memcmp(memory_.get() + a, memory_.get() + b, length) == 0;
  }

  static constexpr uint64_t kMemoryBytes = 4 * kMiB;
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<Bench> bench_;
  std::unique_ptr<std::byte, Free> memory_;
  uint64_t alignment_ = 1;
};

std::vector<Kind> disk_kinds();

}  // namespace penstock::sim
