#include "penstock/stopped_store.h"

#include "names_home.h"
#include "storage.h"
#include "store_contents.h"
#include "store_directory.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <sys/stat.h>

#include "penstock/inodes.h"

namespace penstock::agent {
namespace {

// Not where another directory of the node has the names.
AgentConfig at_once() {
  AgentConfig config;
  config.stands_by = [](const StandbyStatus&) { return false; };
  return config;
}

class LockedStore final : public StoppedStore {
 public:
  explicit LockedStore(std::unique_ptr<StoreDirectory> directory)
      : directory_(std::move(directory)) {}

  uint32_t targets() const override { return directory_->superblock().shards; }
  Outcome<InodeId> newest_inode() override;
  Outcome<void> make_meta(const Fill& fill) override;
  Outcome<NamesMoved> move_names(const std::string& to, const NamesProgress& progress) override {
    TRY_ASSIGN(const auto names, NamesHome::open(*directory_, at_once()));
    return names->move(to, progress);
  }

 private:
  Outcome<InodeId> newest_inode_of(uint32_t target);
  Outcome<void> remove_loading() const;
  Outcome<void> put_in_place() const;
  std::string loading_path() const { return directory_->meta_path() + kLoadingSuffix; }
  Failure failure(Status status, const std::string& why) const {
    return {status, directory_->path() + ": " + why};
  }

  const std::unique_ptr<StoreDirectory> directory_;
};

Outcome<InodeId> LockedStore::newest_inode() {
  InodeId newest;
  for (uint32_t target = 0; target < targets(); ++target) {
    TRY_ASSIGN(const InodeId of_target, newest_inode_of(target));
    newest = std::max(newest, of_target);
  }
  return newest;
}

Outcome<InodeId> LockedStore::newest_inode_of(uint32_t target) {
  TRY_ASSIGN(const auto shard, NodeShard::with_disk(target, directory_->data_path(target), false,
                                                    engine::Duration{}));
  TRY_ASSIGN(const StoredTarget opened, open_target(place_of(*directory_, target), *shard, false));
  const Result<InodeId> newest = store::newest_inode(*opened.kv, inodes::kRecordsInode);
  if (newest) return *newest;
  return failure(newest.error(), fmt::format("the database of target {} cannot be read: {}", target,
                                             newest.error().name()));
}

Outcome<void> LockedStore::make_meta(const Fill& fill) {
  ASSERT(fill != nullptr);
  TRY_ASSIGN(const KeptNames names, read_kept_names(directory_->path()));
  if (!names.at.empty() || names.moves) {
    return failure(Code::already_exists,
                   fmt::format("its names are in {} (restore that database from its backup; or, if "
                               "it is lost for ever, remove the file '{}' here, and load)",
                               names.at.empty() ? "the directory, and were being moved" : names.at,
                               kNamesName));
  }
  struct stat facts {};
  if (::lstat(directory_->meta_path().c_str(), &facts) == 0) {
    return failure(
        Code::already_exists,
        "there is a namespace already (move the directory 'meta' away first, and keep it)");
  }
  TRY(remove_loading());
  Outcome<void> filled;
  {
    TRY_ASSIGN(const auto kv, kv::open_rocksdb({.path = loading_path(), .create = true}));
    filled = fill(*kv);
  }
  if (filled) filled = put_in_place();
  // What cannot be removed now is removed the next time.
  if (!filled) (void)remove_loading();
  return filled;
}

// What a load that was killed has left, or one that failed.
Outcome<void> LockedStore::remove_loading() const {
  for (const std::string& path : {loading_path(), loading_path() + kCreatingSuffix}) {
    std::error_code error;
    std::filesystem::remove_all(path, error);
    if (error) {
      return failure(Status::from_errno(error.value()),
                     fmt::format("{} cannot be removed: {}", path, error.message()));
    }
  }
  return {};
}

Outcome<void> LockedStore::put_in_place() const {
  Status status = sync_directory(loading_path());
  if (status.ok() && ::rename(loading_path().c_str(), directory_->meta_path().c_str()) != 0) {
    status = Status::from_errno(errno);
  }
  if (status.ok()) status = sync_directory(directory_->path());
  if (status.ok()) return {};
  return failure(status, fmt::format("cannot put the namespace in its place: {}", status.name()));
}

}  // namespace

Outcome<NamesFound> find_names(const std::string& directory) {
  const Result<std::string> text = read_kept_file(directory + "/" + kSuperblockName);
  if (!text) {
    return Failure{text.error(), fmt::format("{}: is not a store: {} cannot be read", directory,
                                             kSuperblockName)};
  }
  auto words = words_of(*text);
  TRY_ASSIGN(const KeptNames kept, read_kept_names(directory));
  if (kept.moves) {
    return Failure{Code::busy, directory +
                                   ": a move of its names is not settled (start its node "
                                   "once, or wait until the move has ended)"};
  }
  return NamesFound{kept.at, words["uuid"]};
}

Outcome<std::unique_ptr<StoppedStore>> StoppedStore::open(const std::string& directory) {
  AgentConfig config;
  config.directory = directory;
  config.create = false;
  TRY_ASSIGN(auto opened, StoreDirectory::open(config, false));
  return std::unique_ptr<StoppedStore>(std::make_unique<LockedStore>(std::move(opened)));
}

}  // namespace penstock::agent
