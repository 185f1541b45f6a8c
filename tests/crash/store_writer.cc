#include "store_writer.h"

#include "history.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock::crash {

std::unique_ptr<RealTarget> RealTarget::open(const std::string& directory) {
  auto real = std::make_unique<RealTarget>();
  const auto refused = [](const Failure& failure) {
    std::fprintf(stderr, "crash test: %s\n", failure.message.c_str());
    return nullptr;
  };
  auto driver = disk::DiskDriver::create({.root = directory});
  if (!driver) return refused(driver.error());
  real->driver = std::move(*driver);
  real->loop =
      std::make_unique<engine::Loop>(engine::system_clock(), real->random, real->driver->parker());
  real->disk = &real->driver->attach(*real->loop);
  kv::RocksDbOptions options;
  options.path = directory + "/maps";
  options.create = true;
  options.write_buffer_bytes = kMiB;  // so that flushes happen, too
  auto kv = kv::open_rocksdb(options);
  if (!kv) return refused(kv.error());
  real->kv = std::move(*kv);
  store::TargetConfig config;
  config.directory = directory + "/target";
  config.id = TargetId(1);
  config.capacity_bytes = 16 * kMiB;
  // Short, so that it wraps, and from the first durable write on.
  config.log_bytes = 256 * kKiB;
  config.log_after = 1;
  auto target = store::Target::open(*real->loop, *real->disk, *real->kv, config);
  if (!target) return refused(target.error());
  real->target = std::move(*target);
  return real;
}

RealTarget::~RealTarget() {
  if (target == nullptr) return;
  (void)engine::PollingCaller().call(*loop, [&](engine::Op& done) { target->close(done); });
  target.reset();
  loop->remove(*disk);
}

namespace {

constexpr uint32_t kDepth = 8;

class Writer {
 public:
  Writer(RealTarget& real, uint64_t seed, uint64_t first_id, int pipe)
      : real_(real), random_(seed), next_(first_id), pipe_(pipe) {}

  void run() {
    tell({EventKind::ready, 0, 0, 0, 0, 0, 0});
    for (Slot& slot : slots_) {
      slot.writer = this;
      start(slot);
    }
    while (true) real_.loop->poll_or_park(engine::kNever);
  }

 private:
  struct Slot {
    Writer* writer = nullptr;
    uint64_t started = 0;
    bool durable = false;
    uint64_t durable_inode = 0;
    bool syncs = false;  // its end makes what ended before it durable
    std::vector<uint64_t> names;
    std::vector<uint32_t> chunks;
    std::vector<std::byte> memory;
    store::WriteOp write;
    store::ClearOp clear;
    store::RemoveOp remove;
    store::SyncOp sync;
  };

  void tell(const Event& event) {
    if (::write(pipe_, &event, sizeof(event)) != sizeof(event)) std::_Exit(3);
  }
  void tell_began(Slot& slot, uint32_t chunk, uint64_t id, uint32_t begin, uint32_t end) {
    slot.names.push_back(next_);
    slot.chunks.push_back(chunk);
    tell({EventKind::began, chunk, begin, end, next_++, id, slot.started});
  }

  void start(Slot& slot) {
    slot.names.clear();
    slot.chunks.clear();
    slot.started = now_++;
    slot.durable = random_.chance(1, 2);
    slot.syncs = false;
    const auto chunk = static_cast<uint32_t>(random_.below(kChunkCount));
    const uint64_t draw = random_.below(100);
    if (draw < 75) {
      start_write(slot, chunk);
    } else if (draw < 85) {
      start_clear(slot, chunk);
    } else if (draw < 88) {
      start_remove(slot, chunk);
    } else {
      slot.sync.inode = random_.chance(1, 2) ? kChunks[chunk].inode : InodeId{};
      slot.syncs = true;
      slot.durable_inode = slot.sync.inode.value;
      submit(slot, slot.sync);
    }
  }

  std::pair<uint32_t, uint32_t> pick_range() {
    uint64_t length = 1 + random_.below(uint64_t{1} << random_.below(19));
    uint64_t begin = random_.below(kChunkLength);
    if (random_.chance(1, 2)) begin = align_down(begin, 4096);
    if (random_.chance(1, 2)) length = align_up(length, 4096);
    length = std::min<uint64_t>(length, kChunkLength - begin);
    return {static_cast<uint32_t>(begin), static_cast<uint32_t>(begin + length)};
  }

  void start_write(Slot& slot, uint32_t chunk) {
    const auto [begin, end] = pick_range();
    const uint64_t id = next_;
    tell_began(slot, chunk, id, begin, end);
    slot.memory.resize(end - begin + 4096);
    auto address = reinterpret_cast<uintptr_t>(slot.memory.data());
    std::byte* memory = slot.memory.data() + (align_up(address, 4096) - address);
    store::fill_content(id, begin, {memory, end - begin});
    slot.write.chunk = kChunks[chunk];
    slot.write.offset = begin;
    slot.write.source = {memory, end - begin, engine::kNoBuffer, engine::MemoryKind::host};
    slot.write.durable = slot.durable;
    slot.syncs = slot.durable;
    slot.durable_inode = slot.write.chunk.inode.value;
    submit(slot, slot.write);
  }

  void start_clear(Slot& slot, uint32_t chunk) {
    const auto [begin, end] = pick_range();
    const bool to_end = random_.chance(1, 2);
    tell_began(slot, chunk, 0, begin, to_end ? kChunkLength : end);
    slot.clear.chunk = kChunks[chunk];
    slot.clear.begin = begin;
    slot.clear.end = to_end ? store::kWholeChunk : end;
    slot.clear.durable = slot.durable;
    submit(slot, slot.clear);
  }

  void start_remove(Slot& slot, uint32_t chunk) {
    const InodeId inode = kChunks[chunk].inode;
    for (uint32_t i = 0; i < kChunkCount; ++i) {
      if (kChunks[i].inode == inode) tell_began(slot, i, 0, 0, kChunkLength);
    }
    slot.remove.inode = inode;
    slot.remove.durable = slot.durable;
    submit(slot, slot.remove);
  }

  template <class Operation>
  void submit(Slot& slot, Operation& op) {
    op.owner = &slot;
    op.completion = [](engine::Op& ended) {
      Slot& its = ended.owner_as<Slot>();
      its.writer->on_end(its, ended.status);
    };
    real_.target->submit(op);
  }

  void on_end(Slot& slot, Status status) {
    for (size_t i = 0; i < slot.names.size(); ++i) {
      const EventKind kind = status.ok() ? EventKind::ended : EventKind::failed;
      tell({kind, slot.chunks[i], 0, 0, slot.names[i], slot.durable ? uint64_t{1} : 0, now_});
    }
    if (status.ok() && slot.syncs) {
      tell({EventKind::durable, 0, 0, 0, 0, slot.durable_inode, slot.started});
    }
    if (!status.ok()) {
      std::fprintf(stderr, "crash test: an update ended with %s\n",
                   std::string(status.name()).c_str());
      std::_Exit(4);
    }
    ++now_;
    start(slot);
  }

  RealTarget& real_;
  engine::SeededRandom random_;
  uint64_t next_;
  uint64_t now_ = 1;
  int pipe_;
  std::array<Slot, kDepth> slots_;
};

}  // namespace

int run_writer(const std::string& directory, uint64_t seed, uint64_t first_id, int pipe) {
  auto real = RealTarget::open(directory);
  if (real == nullptr) return 2;
  Writer(*real, seed, first_id, pipe).run();
  return 0;
}

}  // namespace penstock::crash
