// One real disk with its loop, in a directory of its own.
#pragma once

#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <memory>
#include <string>

#include "penstock/disk.h"
#include "penstock/testing.h"

namespace penstock::disk {

using engine::DiskFile;
using engine::DiskOp;
using engine::DiskOpKind;
using engine::Loop;
using engine::Op;

struct Node {
  explicit Node(const DiskConfig& config) {
    auto created = DiskDriver::create(config);
    EXPECT_TRUE(created.has_value());
    driver = std::move(*created);
    loop = std::make_unique<Loop>(engine::system_clock(), random, driver->parker());
    disk = &driver->attach(*loop);
  }
  Status run(DiskOp& op) {
    engine::PollingCaller caller;
    return caller.call(*loop, [&](Op& done) {
      op.owner = &done;
      op.completion = [](Op& self) {
        Op& end = self.owner_as<Op>();
        end.status = self.status;
        end.completion(end);
      };
      disk->submit(op);
    });
  }
  engine::SeededRandom random{1};
  std::unique_ptr<DiskDriver> driver;
  std::unique_ptr<Loop> loop;
  engine::Disk* disk = nullptr;
};

struct FreeMemory {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<std::byte, FreeMemory>;
inline Memory aligned_memory(size_t size) {
  return Memory(static_cast<std::byte*>(std::aligned_alloc(4096, size)));
}

inline uint64_t counter(const std::string& name) {
  for (const auto& sample : metrics::snapshot()) {
    if (sample.name == name) return sample.value;
  }
  return 0;
}

inline bool has_uring() {
  const test::ScratchDirectory directory;
  Node node({.root = directory.path()});
  return node.disk->facts().backend == "io_uring";
}

#define NEEDS_URING() \
  if (!has_uring()) GTEST_SKIP() << "this machine refuses io_uring"

inline DiskFile make_file(Node& node, const std::string& path, uint64_t size) {
  auto opened = node.disk->open(path, {.create = true});
  EXPECT_TRUE(opened.has_value());
  DiskOp op;
  op.kind = DiskOpKind::allocate;
  op.file = *opened;
  op.length = size;
  EXPECT_TRUE(node.run(op).ok());
  return *opened;
}

// Of data that has been written, so that reading it takes the drive and does not end at once.
inline DiskFile make_written_file(Node& node, const std::string& path) {
  const DiskFile file = make_file(node, path, kMiB);
  const Memory memory = aligned_memory(kMiB);
  std::memset(memory.get(), 1, kMiB);
  DiskOp write;
  write.kind = DiskOpKind::write;
  write.file = file;
  write.memory = {memory.get(), kMiB, engine::kNoBuffer, {}};
  EXPECT_TRUE(node.run(write).ok());
  DiskOp sync;
  sync.kind = DiskOpKind::sync;
  sync.file = file;
  EXPECT_TRUE(node.run(sync).ok());
  return file;
}

struct CountingRead : DiskOp {
  int* completed = nullptr;
};

}  // namespace penstock::disk
