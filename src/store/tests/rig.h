// A target on simulated disk and database, through several lives of the process.
#pragma once

#include "core.h"

#include <gtest/gtest.h>
#include <optional>

#include "penstock/sim.h"
#include "penstock/store.h"
#include "penstock/testing.h"

namespace penstock::store {

inline const ChunkId kChunk{InodeId(5), 3};

struct RigOptions {
  uint64_t capacity_bytes = 64 * kMiB;
  uint64_t map_cache_bytes = kMiB;
  bool direct = true;
  uint64_t alignment = 4096;
  DefragmentConfig defragment = {.enabled = false};
  uint64_t log_bytes = 0;
  uint32_t log_after = 1;
  uint64_t reserve_bytes = 0;
};

// A database that finds no room for commits as long as `full` is set. What commits then either has
// no effect, or happens without becoming durable, as in a log that cannot be synced any more.
class FullableKv final : public engine::Kv {
 public:
  FullableKv(engine::Kv& kv, const bool& full) : kv_(kv), full_(full) {}
  void submit(engine::KvOp& op) override {
    if (op.mode != engine::KvMode::write_durable || !full_) {
      kv_.submit(op);
    } else if (++refused_ % 3 == 0) {
      kv_.submit(*new Unsynced(op));
    } else {
      op.home->complete(op, Code::no_space);
    }
  }
  using engine::Kv::run;
  Status run(engine::KvOp& op) override {
    const bool writes = op.mode != engine::KvMode::read;
    return writes && full_ ? Status(Code::no_space) : kv_.run(op);
  }
  Status sync() override { return full_ ? Status(Code::no_space) : kv_.sync(); }

 private:
  // Happens, and says that there was no room.
  struct Unsynced final : engine::KvOp {
    explicit Unsynced(engine::KvOp& refused) : op(refused) {
      mode = engine::KvMode::write;
      home = op.home;
      completion = [](engine::Op& done) {
        const std::unique_ptr<Unsynced> self(static_cast<Unsynced*>(&done));
        const bool closed = self->status.code() == Code::closed;
        self->home->complete(self->op, closed ? Code::closed : Code::no_space);
      };
    }
    Status body(engine::KvTransaction& transaction) override { return op.body(transaction); }
    engine::KvOp& op;
  };

  engine::Kv& kv_;
  const bool& full_;
  uint32_t refused_ = 0;
};

class Rig {
 public:
  explicit Rig(uint64_t seed = 1, RigOptions options = {})
      : world(seed), platter(world), records(world), options_(options) {}
  ~Rig() { end(); }

  // Starts a life of the process; false if the target refuses, with the reason in `refusal`.
  bool begin() {
    life_.emplace(*this);
    TargetConfig config;
    config.directory = "/target";
    config.id = TargetId(7);
    config.capacity_bytes = options_.capacity_bytes;
    config.reserve_bytes = options_.reserve_bytes;
    config.map_cache_bytes = options_.map_cache_bytes;
    config.defragment = options_.defragment;
    config.log_bytes = options_.log_bytes;
    config.log_after = options_.log_after;
    auto opened = Target::open(life_->loop, life_->disk, life_->fullable, config);
    if (!opened) {
      refusal = opened.error();
      life_.reset();
      return false;
    }
    target_ = std::move(*opened);
    return true;
  }
  // The process ends after `delay`, if it has not come up by then: false, and nothing runs.
  bool begin_or_crash(engine::Duration delay, bool power) {
    bool crashed = false;
    const auto event = world.after(delay, "crash", [&] {
      crashed = true;
      end_process(power);
    });
    const bool up = begin();
    world.cancel(event);
    if (up && crashed) {
      drain();
      end();
    }
    return up && !crashed;
  }
  // Orderly: everything is committed.
  Status close() {
    const Status status = call([&](engine::Op& done) { target_->close(done); });
    end();
    return status;
  }
  void crash(bool power) {
    end_process(power);
    drain();
    end();
  }
  void power_cut() { crash(true); }
  void kill() { crash(false); }
  // What was in flight runs to its end, also what waits to be tried again.
  void drain() {
    if (kv_fills_up || kv_full) {
      kv_full = false;
      world.run_for(2 * limits::kCommitRetryDelay);
    }
    for (int quiet = 0; quiet < 4;) quiet = life_->loop.poll() ? 0 : quiet + 1;
  }

  Target& target() { return *target_; }
  Core& core() { return core_of(*target_); }
  engine::Loop& loop() { return life_->loop; }
  engine::Disk& disk() { return life_->disk; }
  engine::Kv& kv() { return life_->kv; }

  Status call(const std::function<void(engine::Op&)>& start) {
    engine::PollingCaller caller;
    return caller.call(life_->loop, start);
  }
  // Runs one operation of any kind to its end.
  template <class Operation>
  Status run(Operation& op) {
    bool done = false;
    op.owner = &done;
    op.completion = [](engine::Op& ended) { ended.owner_as<bool>() = true; };
    target_->submit(op);
    world.run_until([&] { return done; });
    EXPECT_TRUE(done);
    return op.status;
  }

  Status write(ChunkId chunk, uint32_t offset, std::vector<std::byte>& bytes, bool durable = true) {
    std::byte* memory = aligned(bytes.size());
    std::copy(bytes.begin(), bytes.end(), memory);
    WriteOp op;
    op.chunk = chunk;
    op.offset = offset;
    op.source = {memory, bytes.size(), engine::kNoBuffer, engine::MemoryKind::host};
    op.durable = durable;
    return run(op);
  }
  std::vector<std::byte> read(ChunkId chunk, uint32_t offset, uint32_t length,
                              Status* status = nullptr) {
    std::byte* memory = aligned(length);
    std::fill_n(memory, length, std::byte{0xee});
    ReadOp op;
    op.chunk = chunk;
    op.offset = offset;
    op.destination = {memory, length, engine::kNoBuffer, engine::MemoryKind::host};
    const Status result = run(op);
    if (status != nullptr) {
      *status = result;
    } else {
      EXPECT_TRUE(result.ok()) << result.name();
    }
    return std::vector<std::byte>(memory, memory + length);
  }
  Status clear(ChunkId chunk, uint32_t begin, uint32_t end, bool durable = true) {
    ClearOp op;
    op.chunk = chunk;
    op.begin = begin;
    op.end = end;
    op.durable = durable;
    return run(op);
  }
  Status sync(InodeId inode = {}) {
    SyncOp op;
    op.inode = inode;
    return run(op);
  }

  sim::SimWorld world;
  sim::SimDiskImage platter;
  sim::SimKvImage records;
  bool kv_full = false;
  bool kv_fills_up = false;  // now and then
  Failure refusal;

 private:
  void end_process(bool power) {
    if (power) {
      platter.power_cut();
      records.power_cut();
    } else {
      platter.kill();
      records.kill();
    }
  }
  struct Life {
    explicit Life(Rig& rig)
        : loop(rig.world),
          disk(rig.platter, loop, {rig.options_.direct, rig.options_.alignment}),
          kv(rig.records),
          fullable(kv, rig.kv_full) {}
    sim::SimLoop loop;
    sim::SimDisk disk;
    sim::SimKv kv;
    FullableKv fullable;
  };

  void end() {
    target_.reset();
    life_.reset();
  }
  // Which way an operation takes depends on the address, and must not on the allocator's mood.
  std::byte* aligned(size_t length) {
    memory_.resize(length + 4096);
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    return memory_.data() + (align_up(address, 4096) - address);
  }

  RigOptions options_;
  std::vector<std::byte> memory_;
  std::optional<Life> life_;
  std::unique_ptr<Target> target_;
};

// What the file of the target says of itself.
inline std::string superblock_text(Rig& rig) {
  const auto bytes = rig.platter.peek("/target/target", 0, rig.platter.size("/target/target"));
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace penstock::store
