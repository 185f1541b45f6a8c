#include "storage.h"

#include "limits.h"
#include "store_contents.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <unistd.h>

#include "penstock/arena.h"
#include "penstock/chunks.h"
#include "penstock/cluster.h"

namespace penstock::agent {

Outcome<std::unique_ptr<Storage>> Storage::open(const AgentConfig& config, uint8_t roles) {
  std::unique_ptr<Storage> storage(new Storage);
  TRY_ASSIGN(storage->directory_, StoreDirectory::open(config));
  const StoreDirectory& directory = *storage->directory_;
  if (roles == 0 || cluster::has_names(roles) || cluster::runs_controller(roles)) {
    TRY_ASSIGN(storage->names_, NamesHome::open(directory, config));
    return storage;
  }
  if (!config.names.empty()) {
    return Failure{Code::invalid_argument,
                   directory.path() +
                       ": has no names of its own, which are where the node with "
                       "the role meta has them (leave --kv away)"};
  }
  const auto names = names_in(directory.meta_path());
  if (names && names->empty()) return storage;
  return Failure{Code::not_empty, directory.path() +
                                      ": is a store with names of its own; a node that joins "
                                      "has the names of its cluster (give an empty or a new "
                                      "directory)"};
}

TargetPlace place_of(const StoreDirectory& directory, uint32_t target) {
  const Superblock& superblock = directory.superblock();
  ASSERT(target < superblock.shards);
  return {.id = TargetId(target),
          .directory = directory.target_path(target),
          .data = directory.data_path(target),
          .kv = directory.kv_path(target),
          .create = directory.fresh(),
          .capacity_bytes = superblock.capacity_bytes / superblock.shards};
}

Outcome<StoredTarget> open_target(const TargetPlace& place, NodeShard& shard, bool defragment) {
  ASSERT(shard.disk() != nullptr);
  StoredTarget made;
  TRY_ASSIGN(made.kv, kv::open_rocksdb({.path = place.kv, .create = place.create}));
  store::TargetConfig config;
  config.directory = place.data;
  config.id = place.id;
  config.old_chain = chunks::chain_of(config.id);
  config.capacity_bytes = place.capacity_bytes;
  config.defragment.enabled = defragment;
  TRY_ASSIGN(made.target, store::Target::open(shard.loop(), *shard.disk(), *made.kv, config));
  return made;
}

Outcome<void> Storage::add_target(NodeShard& shard, const TargetPlace& place, bool defragment) {
  ASSERT(shard.index() == targets_.size());
  Target made;
  TRY_ASSIGN(static_cast<StoredTarget&>(made), open_target(place, shard, defragment));
  made.service = chunks::make_service(*made.target, chunks::chain_of(place.id));
  made.directory = place.directory;
  targets_.push_back(std::move(made));
  return {};
}

std::unique_ptr<engine::Service> Storage::make_service_for_others(uint32_t shard) {
  ASSERT(shard < own_targets() && shard < targets_.size());
  return chunks::make_service(*targets_[shard].target, chunks::chain_of(TargetId(shard)),
                              chunks::kCallsMax, chunks::Durable::all);
}

void Storage::add_no_target(const NodeShard& shard) {
  ASSERT(shard.index() == targets_.size());
  targets_.emplace_back();
}

Outcome<void> Storage::open_meta(uint64_t cache_bytes, std::function<meta::Capacity()> capacity,
                                 std::function<bool(const meta::Layout&)> reaches) {
  ASSERT(meta_ == nullptr && names_ != nullptr);
  const Superblock& superblock = directory_->superblock();
  meta::MetaOptions options;
  options.default_layout.chunk_bytes_log2 =
      static_cast<uint32_t>(std::countr_zero(superblock.chunk_bytes));
  // Without a target of its own no file can be made before a table is chosen.
  options.default_layout.chain_count = std::max(superblock.shards, 1u);
  options.root_uid = ::geteuid();
  options.root_gid = ::getegid();
  options.capacity = std::move(capacity);
  options.reaches = std::move(reaches);
  // The database is this process's alone.
  options.cached_records = static_cast<size_t>(std::clamp(cache_bytes / (arena::kExtentBytes / 2),
                                                          uint64_t{limits::kMetaRecordsMin},
                                                          uint64_t{limits::kMetaRecordsMax}));
  TRY_ASSIGN(meta_, meta::Meta::open(names_->kv(), engine::system_clock(), options));
  return {};
}

Outcome<void> Storage::checkpoint_meta() {
  ASSERT(names_ != nullptr);
  const std::lock_guard lock(checkpoint_mutex_);
  const std::string path = meta_copy_path(directory_->path());
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) {
    return Failure{Status::from_errno(error.value()),
                   fmt::format("{}: cannot be removed: {}", path, error.message())};
  }
  return names_->checkpoint(path);
}

void Storage::close_meta() {
  if (meta_ == nullptr) return;
  const Status closed = meta_->close();
  if (!closed.ok()) log::error("{}: closing the namespace: {}", directory_->path(), closed.name());
  meta_.reset();
}

Outcome<void> Storage::finish_making() {
  if (!directory_->fresh()) return {};
  ASSERT(targets_.size() >= own_targets() && (meta_ == nullptr || names_ != nullptr));
  if (names_ != nullptr) TRY(names_->finish_making());
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
  names_.reset();
  directory_->undo_making();
}

}  // namespace penstock::agent
