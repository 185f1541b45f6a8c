// A target in memory, for tests of what stands above a target: chunks are strings, operations
// complete in a later turn. Owner thread of its loop only, except `room`.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <string>

#include "penstock/store.h"

namespace penstock::store {

class FakeTarget final : public Target {
 public:
  explicit FakeTarget(engine::Loop& loop) : loop_(loop) {}

  // Decides the fate of the next operations; ok lets them happen. Asked once per operation.
  std::function<Status()> fault = [] { return Status(Code::ok); };
  // What all chunks may have together; more is a full disk.
  std::atomic<uint64_t> room{UINT64_MAX};
  // Operations stay in `held` instead of completing.
  bool hold = false;
  std::vector<std::function<void()>> held;
  std::map<ChunkId, std::string> chunks;
  uint64_t operations = 0;
  uint64_t syncs = 0;

  // What is not durable is gone.
  void power_cut() { chunks = durable_chunks_; }

  void release() {
    hold = false;
    for (auto& complete : std::exchange(held, {})) complete();
  }

  void set_defragment(bool) override {}
  void submit(ReadOp& op) override {
    run(op, [this, &op] {
      const auto found = chunks.find(op.chunk);
      if (op.probe) return probe(op);
      if (found == chunks.end() && op.refuse_holes) return Status(Code::no_data);
      std::memset(op.destination.data, 0, op.destination.length);
      op.route = found == chunks.end() ? engine::Route::hole : engine::Route::disk_direct;
      if (found != chunks.end() && found->second.size() > op.offset) {
        const std::string& bytes = found->second;
        std::memcpy(op.destination.data, bytes.data() + op.offset,
                    std::min<uint64_t>(op.destination.length, bytes.size() - op.offset));
      }
      if (op.checksums != nullptr) tell_checksums(op);
      return Status(Code::ok);
    });
  }
  void submit(WriteOp& op) override {
    run(op, [this, &op] {
      uint64_t others = 0;
      for (const auto& [id, bytes] : chunks) others += id == op.chunk ? 0 : bytes.size();
      if (others + op.offset + op.source.length > room) return Status(Code::no_space);
      std::string& bytes = chunks[op.chunk];
      bytes.resize(std::max<uint64_t>(bytes.size(), op.offset + op.source.length));
      std::memcpy(bytes.data() + op.offset, op.source.data, op.source.length);
      op.route = engine::Route::disk_direct;
      if (op.durable) make_durable(op.chunk.inode);
      return Status(Code::ok);
    });
  }
  void submit(ClearOp& op) override {
    run(op, [this, &op] {
      const auto found = chunks.find(op.chunk);
      if (found == chunks.end() || found->second.size() <= op.begin) return Status(Code::ok);
      std::string& bytes = found->second;
      if (op.end == kWholeChunk) {
        bytes.resize(op.begin);
      } else {
        const size_t end = std::min<size_t>(bytes.size(), op.end);
        std::fill(bytes.begin() + op.begin, bytes.begin() + static_cast<ptrdiff_t>(end), '\0');
      }
      if (op.durable) make_durable(op.chunk.inode);
      return Status(Code::ok);
    });
  }
  void submit(RemoveOp& op) override {
    run(op, [this, &op] {
      for (auto it = chunks.lower_bound({op.inode, op.first_chunk});
           it != chunks.end() && it->first.inode == op.inode;) {
        op.removed_bytes += it->second.size();
        it = chunks.erase(it);
      }
      if (op.durable) make_durable(op.inode);
      return Status(Code::ok);
    });
  }
  void submit(SyncOp& op) override {
    run(op, [this, &op] {
      ++syncs;
      if (op.inode == InodeId{}) {
        durable_chunks_ = chunks;
      } else {
        make_durable(op.inode);
      }
      return Status(Code::ok);
    });
  }
  void submit(EndQueryOp& op) override {
    run(op, [this, &op] {
      for (const auto& [id, bytes] : chunks) {
        if (id.inode != op.inode || bytes.empty()) continue;
        op.any = true;
        op.last_chunk = id.index;
        op.end_in_chunk = static_cast<uint32_t>(bytes.size());
        op.allocated_bytes += align_up(bytes.size(), limits::kBlockBytes);
      }
      return Status(Code::ok);
    });
  }
  void submit(InodesOp& op) override {
    run(op, [this, &op] {
      op.found.clear();
      op.next = {};
      for (auto at = chunks.lower_bound({op.first, 0}); at != chunks.end(); ++at) {
        const InodeId inode = at->first.inode;
        if (!op.found.empty() && op.found.back() == inode) continue;
        if (op.found.size() == op.limit) {
          op.next = inode;
          break;
        }
        op.found.push_back(inode);
      }
      return Status(Code::ok);
    });
  }
  void submit(ScrubOp& op) override { loop_.complete(op, Code::ok); }
  // For who needs one.
  ChainStore* chain_store = nullptr;
  ChainStore& chains() override {
    ASSERT(chain_store != nullptr);
    return *chain_store;
  }
  TargetStatus status() const override { return {}; }
  void close(engine::Op& done) override { loop_.complete(done, Code::ok); }

 private:
  // What lies below the end of a chunk's bytes is there.
  Status probe(ReadOp& op) {
    const auto found = chunks.find(op.chunk);
    const uint64_t size = found == chunks.end() ? 0 : found->second.size();
    const uint64_t first = op.offset / limits::kBlockBytes;
    const uint64_t last = (op.offset + op.destination.length - 1) / limits::kBlockBytes;
    const uint64_t end = align_up(size, limits::kBlockBytes) / limits::kBlockBytes;
    op.route = first < end ? engine::Route::none : engine::Route::hole;
    op.alike_blocks =
        static_cast<uint32_t>(first < end ? std::min(end, last + 1) - first : last + 1 - first);
    return Code::ok;
  }
  static void tell_checksums(ReadOp& op) {
    for (uint64_t at = 0; at < op.destination.length; at += limits::kBlockBytes) {
      const uint64_t length = std::min(limits::kBlockBytes, op.destination.length - at);
      op.checksums[at / limits::kBlockBytes] = crc32c({op.destination.data + at, length});
    }
  }
  void run(engine::Op& op, const std::function<Status()>& action) {
    ++operations;
    if (hold) {
      held.push_back([this, &op, action] { act(op, action); });
    } else {
      act(op, action);
    }
  }
  void act(engine::Op& op, const std::function<Status()>& action) {
    Status status = fault();
    if (status.ok()) status = action();
    loop_.complete(op, status);
  }

  void make_durable(InodeId inode) {
    const auto erase_from = durable_chunks_.lower_bound({inode, 0});
    durable_chunks_.erase(erase_from, durable_chunks_.upper_bound({inode, UINT32_MAX}));
    const auto begin = chunks.lower_bound({inode, 0});
    durable_chunks_.insert(begin, chunks.upper_bound({inode, UINT32_MAX}));
  }

  engine::Loop& loop_;
  std::map<ChunkId, std::string> durable_chunks_;
};

}  // namespace penstock::store
