// What a target knows of its chains when it is opened.
#include "core.h"

namespace penstock::store {

using engine::KvMode;
using engine::KvTransaction;

Status Chains::load(std::string& bad) {
  TRY(load_slots(bad));
  return load_pending(bad);
}

Status Chains::load_slots(std::string& bad) {
  Status status;
  TRY(core_.kv.run(KvMode::read, [&](KvTransaction& transaction) -> Status {
    slots_.clear();
    slots_at_.clear();
    status = Code::ok;
    const std::string begin(1, kSlotKeyType);
    const std::string end(1, kSlotKeyType + 1);
    return transaction.scan(begin, end, [&](std::string_view key, std::string_view record) {
      SlotRecord slot;
      status = decode_slot(key, record, slot);
      if (!status.ok()) {
        bad = "a slot of a chain";
        return false;
      }
      keep(slot);
      return true;
    });
  }));
  return status;
}

Status Chains::load_pending(std::string& bad) {
  std::vector<std::pair<ChainChunk, PendingRecord>> found;
  Status status;
  TRY(core_.kv.run(KvMode::read, [&](KvTransaction& transaction) -> Status {
    found.clear();
    status = Code::ok;
    const std::string begin(1, kPendingKeyType);
    const std::string end(1, kPendingKeyType + 1);
    return transaction.scan(begin, end, [&](std::string_view key, std::string_view record) {
      const auto at = decode_chunk_key(kPendingKeyType, key);
      PendingRecord pending;
      status = at ? decode_pending(key, record, pending) : Status(Code::corrupt);
      if (!status.ok()) {
        bad = "a pending update";
        return false;
      }
      found.emplace_back(*at, std::move(pending));
      return true;
    });
  }));
  TRY(status);
  for (auto& [at, pending] : found) {
    bad = fmt::format("what is pending of inode {} chunk {}", at.chunk.inode.value, at.chunk.index);
    TRY(take_blocks(pending));
    ChainEntry& its = entry(at);
    its.load.at = at;
    its.load.mode = KvMode::read;
    TRY(core_.kv.run(its.load));
    take_loaded(its);
    pending_[at] = {at, pending.name, pending.parts};
    its.pending = std::make_shared<PendingRecord>(std::move(pending));
  }
  bad.clear();
  return Code::ok;
}

Status Chains::take_blocks(const PendingRecord& pending) {
  for (const PendingBlock& one : pending.blocks) {
    if (!core_.allocator.take({one.ref.physical, 1})) return Code::corrupt;
    ++core_.mapped_blocks;
  }
  return Code::ok;
}

}  // namespace penstock::store
