// Plain writes to chunks of their own beside chains, of the same inodes: each whole or not at all
// after a crash, and what was answered as durable is there.
#pragma once

#include "rig.h"

#include <deque>
#include <string>
#include <vector>

namespace penstock::store {

class PlainWrites {
 public:
  explicit PlainWrites(size_t chunks) {
    for (size_t i = 0; i < chunks; ++i) {
      Chunk& chunk = chunks_.emplace_back();
      chunk.id = {InodeId(1 + i), 100};
      chunk.memory.resize(kBytes + 4096);
    }
  }

  // Begins one, if the chunk that chance chooses has none under way.
  void step(Target& target, engine::Random& random) {
    Chunk& chunk = chunks_[random.below(chunks_.size())];
    if (chunk.busy) return;
    chunk.busy = true;
    ++chunk.begun;
    const auto address = reinterpret_cast<uintptr_t>(chunk.memory.data());
    std::byte* const memory = chunk.memory.data() + (align_up(address, 4096) - address);
    std::fill_n(memory, kBytes, byte_of(chunk.begun));
    chunk.op.chain = ChainId(3);
    chunk.op.chunk = chunk.id;
    chunk.op.source = {memory, kBytes, engine::kNoBuffer, engine::MemoryKind::host};
    chunk.op.durable = random.chance(3, 4);
    chunk.op.owner = &chunk;
    chunk.op.completion = [](engine::Op& op) {
      Chunk& done = op.owner_as<Chunk>();
      done.busy = false;
      if (op.status.ok() && done.op.durable) done.durable = done.begun;
    };
    target.submit(chunk.op);
  }
  bool idle() const {
    return std::none_of(chunks_.begin(), chunks_.end(), [](const Chunk& one) { return one.busy; });
  }
  // What was under way ended with the process.
  void crashed() {
    for (Chunk& chunk : chunks_) chunk.busy = false;
  }

  // What is wrong after a crash, if anything.
  std::string verify(Rig& rig) {
    for (Chunk& chunk : chunks_) {
      std::vector<std::byte> bytes(kBytes);
      ReadOp op;
      op.chain = ChainId(3);
      op.chunk = chunk.id;
      op.destination = {bytes.data(), kBytes, engine::kNoBuffer, engine::MemoryKind::host};
      if (!rig.run(op).ok()) return "a plain read failed after a crash";
      uint64_t found = chunk.begun;
      while (found > chunk.durable && byte_of(found) != bytes[0]) --found;
      const std::vector<std::byte> expected(kBytes, byte_of(found));
      if (bytes != expected) return "a plain write is missing or torn after a crash";
      chunk.durable = chunk.begun = found;
    }
    return "";
  }

 private:
  static constexpr size_t kBytes = 8192;
  struct Chunk {
    ChunkId id;
    WriteOp op;
    std::vector<std::byte> memory;
    bool busy = false;
    uint64_t begun = 0;    // writes, the last of which has this number
    uint64_t durable = 0;  // no crash goes behind this one
  };
  static std::byte byte_of(uint64_t number) {
    return static_cast<std::byte>(number == 0 ? 0 : 1 + number % 255);
  }

  std::deque<Chunk> chunks_;
};

}  // namespace penstock::store
