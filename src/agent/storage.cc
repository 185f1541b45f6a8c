#include "storage.h"

#include "limits.h"

#include <algorithm>
#include <bit>
#include <unistd.h>

#include "penstock/arena.h"
#include "penstock/chunks.h"

namespace penstock::agent {

Outcome<std::unique_ptr<Storage>> Storage::open(const AgentConfig& config) {
  std::unique_ptr<Storage> storage(new Storage);
  TRY_ASSIGN(storage->directory_, StoreDirectory::open(config));
  const StoreDirectory& directory = *storage->directory_;
  TRY_ASSIGN(storage->meta_kv_,
             kv::open_rocksdb({.path = directory.meta_path(), .create = directory.fresh()}));
  return storage;
}

Outcome<void> Storage::add_target(NodeShard& shard, bool defragment) {
  ASSERT(shard.index() == targets_.size() && shard.index() < shard_count());
  ASSERT(shard.disk() != nullptr);
  const std::string data = directory_->data_path(shard.index());
  Target made;
  TRY_ASSIGN(made.kv, kv::open_rocksdb({.path = directory_->kv_path(shard.index()),
                                        .create = directory_->fresh()}));
  store::TargetConfig config;
  config.directory = data;
  config.id = TargetId(shard.index());
  const ChainId chain = chunks::chain_of(config.id);
  config.old_chain = chain;
  config.capacity_bytes = directory_->superblock().capacity_bytes / shard_count();
  config.defragment.enabled = defragment;
  TRY_ASSIGN(made.target, store::Target::open(shard.loop(), *shard.disk(), *made.kv, config));
  made.service = chunks::make_service(*made.target, chain);
  targets_.push_back(std::move(made));
  return {};
}

Outcome<void> Storage::open_meta(uint64_t cache_bytes, std::function<meta::Capacity()> capacity) {
  ASSERT(meta_ == nullptr && meta_kv_ != nullptr);
  const Superblock& superblock = directory_->superblock();
  meta::MetaOptions options;
  options.default_layout.chunk_bytes_log2 =
      static_cast<uint32_t>(std::countr_zero(superblock.chunk_bytes));
  options.default_layout.chain_count = superblock.shards;
  options.root_uid = ::geteuid();
  options.root_gid = ::getegid();
  options.capacity = std::move(capacity);
  // The database is this process's alone.
  options.cached_records = static_cast<size_t>(std::clamp(cache_bytes / arena::kExtentBytes,
                                                          uint64_t{limits::kMetaRecordsMin},
                                                          uint64_t{limits::kMetaRecordsMax}));
  TRY_ASSIGN(meta_, meta::Meta::open(*meta_kv_, engine::system_clock(), options));
  return {};
}

void Storage::close_meta() {
  if (meta_ == nullptr) return;
  const Status closed = meta_->close();
  if (!closed.ok()) log::error("{}: closing the namespace: {}", directory_->path(), closed.name());
  meta_.reset();
}

Outcome<void> Storage::finish_making() {
  if (!directory_->fresh()) return {};
  ASSERT(targets_.size() == shard_count() && meta_ != nullptr);
  return directory_->finish_making();
}

Storage::~Storage() {
  if (directory_ == nullptr) return;
  close_meta();
  for (Target& target : targets_) {
    target.service.reset();
    target.target.reset();
    // Its workers may still be on the way out of waking the loop.
    target.kv.reset();
  }
  meta_kv_.reset();
  directory_->undo_making();
}

}  // namespace penstock::agent
