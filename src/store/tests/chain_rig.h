// A ChainStore through several lives, for tests that hold of any: the one in memory, and that of a
// target on simulated disk and database.
#pragma once

#include "rig.h"

#include <memory>
#include <string>
#include <vector>

#include "penstock/chain_store_fake.h"

namespace penstock::store {

inline const ChainChunk kAt{ChainId(3), {InodeId(5), 2}};

inline engine::MemoryRef memory_of(std::string& bytes) {
  return {reinterpret_cast<std::byte*>(bytes.data()), bytes.size(), engine::kNoBuffer,
          engine::MemoryKind::host};
}

inline RequestId request_of(uint64_t sequence, uint32_t slot = 0, uint32_t node = 9) {
  return {.incarnation = 1, .sequence = sequence, .node = node, .slot = slot};
}
inline UpdateName name_of(uint64_t counter) {
  return {.chain_version = 5, .counter = counter, .request = request_of(counter)};
}
inline UpdatePart write_part(uint32_t begin, uint32_t end, RequestId request = {}) {
  UpdatePart part;
  part.request = request;
  part.begin = begin;
  part.end = end;
  return part;
}
inline UpdatePart clear_part(uint32_t begin, uint32_t end, RequestId request = {}) {
  UpdatePart part = write_part(begin, end, request);
  part.kind = UpdateKind::clear;
  return part;
}
inline UpdatePart remove_part(RequestId request = {}) {
  UpdatePart part;
  part.request = request;
  part.kind = UpdateKind::remove;
  return part;
}

inline UpdatePart drop_part(RequestId request = {}) {
  UpdatePart part = remove_part(request);
  part.kind = UpdateKind::drop;
  return part;
}

class ChainRig {
 public:
  virtual ~ChainRig() = default;
  virtual ChainStore& store() = 0;
  virtual sim::SimWorld& world() = 0;
  // The process ends, perhaps with the power, and begins again.
  virtual void restart(bool power_cut) = 0;
  // A committed block changes on the disk, silently.
  virtual void damage(const ChainChunk& at, uint32_t block) = 0;

  template <class Operation>
  Status run(Operation& op) {
    bool done = false;
    op.owner = &done;
    op.completion = [](engine::Op& ended) { ended.owner_as<bool>() = true; };
    store().submit(op);
    world().run_until([&] { return done; });
    EXPECT_TRUE(done);
    return op.status;
  }
  Status prepare(const ChainChunk& at, const UpdateName& name, std::vector<UpdatePart> parts,
                 std::string bytes, bool keep_damage = false) {
    PrepareOp op;
    op.at = at;
    op.name = name;
    op.parts = parts;
    op.bytes = memory_of(bytes);
    op.keep_damage = keep_damage;
    return run(op);
  }
  ChunkState look(const ChainChunk& at) {
    LookOp op;
    op.at = at;
    EXPECT_TRUE(run(op).ok());
    return op.state;
  }
  std::string read(const ChainChunk& at, uint32_t begin, uint32_t length) {
    std::string bytes(length, '?');
    CopyReadOp op;
    op.at = at;
    op.begin = begin;
    op.destination = memory_of(bytes);
    EXPECT_TRUE(run(op).ok()) << op.status.name();
    return bytes;
  }
  // Of blocks from `first` on, which are damaged.
  std::vector<uint32_t> damaged(const ChainChunk& at, uint32_t first, uint32_t count,
                                std::string* content = nullptr) {
    std::string bytes(count * limits::kBlockBytes, '?');
    CopyReadOp op;
    op.at = at;
    op.begin = static_cast<uint32_t>(first * limits::kBlockBytes);
    op.destination = memory_of(bytes);
    op.list_damage = true;
    EXPECT_TRUE(run(op).ok()) << op.status.name();
    EXPECT_EQ(op.state.committed, look(at).committed);
    if (content != nullptr) *content = bytes;
    return op.damaged;
  }
  Status heal(const ChainChunk& at, const UpdateName& committed, std::vector<uint32_t> blocks,
              std::string bytes) {
    HealOp op;
    op.at = at;
    op.committed = committed;
    op.blocks = blocks;
    op.bytes = memory_of(bytes);
    return run(op);
  }
  std::string read_pending(const ChainChunk& at, size_t length) {
    std::string bytes(length, '?');
    PendingReadOp op;
    op.at = at;
    op.destination = memory_of(bytes);
    EXPECT_TRUE(run(op).ok()) << op.status.name();
    return bytes;
  }
  std::vector<ListEntry> list(const ChainChunk& from, size_t limit) {
    ListOp op;
    op.from = from;
    op.limit = limit;
    EXPECT_TRUE(run(op).ok());
    return op.entries;
  }
  Status replace(const ChainChunk& at, const ChunkState& state, std::string bytes,
                 std::vector<SlotRecord> slots = {}, std::vector<uint32_t> damaged = {}) {
    ReplaceOp op;
    op.at = at;
    op.state = state;
    op.bytes = memory_of(bytes);
    op.slots = slots;
    op.damaged = damaged;
    return run(op);
  }
};

class FakeChainRig final : public ChainRig {
 public:
  FakeChainRig() : world_(1) { begin(); }
  ~FakeChainRig() override { store_->die(); }
  ChainStore& store() override { return *store_; }
  sim::SimWorld& world() override { return world_; }
  void restart(bool power_cut) override {
    store_->die();
    if (power_cut) image_.power_cut(world_.random());
    world_.run_for(std::chrono::milliseconds(10));
    begin();
  }
  void damage(const ChainChunk& at, uint32_t block) override { image_.damage(at, block); }

 private:
  void begin() {
    store_.reset();
    loop_ = std::make_unique<sim::SimLoop>(world_);
    store_ = std::make_unique<FakeChainStore>(image_, *loop_);
  }
  sim::SimWorld world_;
  FakeChainImage image_;
  std::unique_ptr<sim::SimLoop> loop_;
  std::unique_ptr<FakeChainStore> store_;
};

// With RigOptions that say so, of a target that has a log.
class TargetChainRig final : public ChainRig {
 public:
  explicit TargetChainRig(const RigOptions& options = {}) : rig_(1, options) {
    EXPECT_TRUE(rig_.begin()) << rig_.refusal.message;
    if (options.log_bytes > 0) make_log();
  }
  ChainStore& store() override { return rig_.target().chains(); }
  sim::SimWorld& world() override { return rig_.world; }
  void restart(bool power_cut) override {
    rig_.crash(power_cut);
    EXPECT_TRUE(rig_.begin()) << rig_.refusal.message;
  }
  Rig& rig() { return rig_; }
  void damage(const ChainChunk& at, uint32_t block) override {
    const MapKey key{at.chain, at.chunk, block / limits::kMapBlocks};
    const CachedMap* const map = rig_.core().index.find(key);
    ASSERT_NE(map, nullptr);
    const BlockRef ref = map->blocks[block % limits::kMapBlocks];
    ASSERT_FALSE(ref.hole());
    rig_.platter.flip_bit("/target/data-0000", ref.physical * limits::kBlockBytes + 77, 3);
  }

 private:
  // A first small durable write is worth one.
  void make_log() {
    auto bytes = test::content(4096, 99);
    EXPECT_TRUE(rig_.write({InodeId(1'000), 0}, 0, bytes).ok());
    const WriteLog& log = rig_.core().write_log;
    EXPECT_TRUE(rig_.world.run_until([&] { return log.in_use() && !log.wants_commit(); },
                                     std::chrono::seconds(5)));
    EXPECT_TRUE(rig_.sync().ok());
  }

  Rig rig_;
};

}  // namespace penstock::store
