// The targets of a node: those in its directory, and those on disks that it was given.
#include "limits.h"
#include "node.h"
#include "store_contents.h"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <fmt/format.h>

namespace penstock::agent {

Outcome<void> Node::add_own_targets(const AgentConfig& config) {
  const StoreDirectory& directory = storage_->directory();
  for (uint32_t i = 0; i < storage_->own_targets(); ++i) {
    TRY_ASSIGN(auto shard,
               NodeShard::with_disk(i, directory.data_path(i), config.force_threads, spin_));
    shards_.push_back(std::move(shard));
    TRY(storage_->add_target(*shards_.back(), place_of(directory, i), config.defragment));
  }
  return {};
}

// Calls and sockets of a node without any target need a loop, too.
Outcome<void> Node::add_loop_alone(const AgentConfig& config) {
  TRY_ASSIGN(auto shard, NodeShard::with_disk(0, directory_, config.force_threads, spin_));
  shards_.push_back(std::move(shard));
  storage_->add_no_target(*shards_.back());
  return {};
}

// A disk that is given the first time has to be good. One that is listed may be missing.
Outcome<void> Node::add_disks(const AgentConfig& config) {
  TRY_ASSIGN(const std::vector<Disk> disks, find_disks(config));
  if (shards_.size() + disks.size() > cluster::kShardsMax) {
    return Failure{Code::too_large, fmt::format("{}: a node has at most {} targets", directory_,
                                                cluster::kShardsMax)};
  }
  for (const Disk& disk : disks) {
    const Outcome<void> added = add_disk(config, disk);
    if (!added && !disk.target) return added.error();
    disk_status_.push_back({.path = disk.path,
                            .trouble = added ? "" : added.error().message,
                            .target = disk.target.value_or(controller::Uuid())});
  }
  return {};
}

// Those that are listed, and behind them those that are given the first time.
Outcome<std::vector<Disk>> Node::find_disks(const AgentConfig& config) {
  TRY_ASSIGN(std::vector<Disk> disks, read_disks(directory_));
  for (const std::string& path : config.disks) {
    ASSERT(path.starts_with('/'));
    TRY(add_new_disk(path, disks));
  }
  std::erase_if(disks, [](const Disk& disk) { return disk.is_taken_off; });
  const bool may_have = participant_ != nullptr && cluster::has_storage(participant_->roles());
  if (may_have || disks.empty()) return disks;
  return Failure{
      Code::invalid_argument,
      fmt::format("{}: disks are for chains of a cluster, and for a node with the role storage "
                  "there{}",
                  directory_,
                  participant_ == nullptr
                      ? "; this one is alone ('--listen 127.0.0.1:PORT' makes a cluster of one)"
                      : "")};
}

Outcome<void> Node::add_new_disk(const std::string& path, std::vector<Disk>& disks) {
  const auto is_listed = [&](const Disk& disk) { return disk.path == path && !disk.is_taken_off; };
  if (participant_ == nullptr || std::any_of(disks.begin(), disks.end(), is_listed)) {
    // Without a cluster it is refused in a moment.
    if (participant_ == nullptr) disks.push_back({.path = path});
    return {};
  }
  Disk disk{.number = disks.empty() ? 0 : disks.back().number + 1, .path = path};
  if (disk.number >= limits::kDisksMax) {
    return Failure{Code::too_large, directory_ + ": has listed as many disks as a node can have"};
  }
  const auto names = names_in(path);
  const bool is_unfinished = names && names->contains(kMakingName);
  std::optional<controller::Uuid> found;
  if (!is_unfinished) {
    TRY_ASSIGN(found, participant_->target_at(path));
  }
  const auto same = std::find_if(disks.begin(), disks.end(),
                                 [&](const Disk& one) { return found && one.target == found; });
  if (same != disks.end() && same->is_taken_off) {
    return Failure{Code::not_permitted,
                   path +
                       ": was taken off this node, and the cluster has given up what is on it "
                       "(empty the directory to give the disk anew)"};
  }
  if (same != disks.end()) {
    // It is mounted elsewhere now.
    same->path = path;
    return list_disk(directory_, *same);
  }
  if (!found) {
    TRY(begin_making_disk(path));
    disk.is_made = true;
  }
  new_disks_.push_back(disk);
  disks.push_back(std::move(disk));
  return {};
}

Outcome<void> Node::add_disk(const AgentConfig& config, const Disk& disk) {
  TRY_ASSIGN(const auto found, participant_->target_at(disk.path));
  if (disk.target && found != disk.target) {
    return Failure{Code::not_found,
                   fmt::format("{}: {} (is the disk mounted?)", disk.path,
                               found ? "another target is there than the one of this disk"
                                     : "there is no target")};
  }
  const auto index = static_cast<uint32_t>(shards_.size());
  TRY_ASSIGN(auto shard,
             NodeShard::with_disk(index, data_path_of(disk), config.force_threads, spin_));
  TRY(storage_->add_target(*shard,
                           {.id = store_id_of(disk),
                            .directory = disk.path,
                            .data = data_path_of(disk),
                            .kv = kv_path_of(disk),
                            .create = disk.is_made,
                            .capacity_bytes = storage_->directory().superblock().capacity_bytes},
                           config.defragment));
  shards_.push_back(std::move(shard));
  return {};
}

std::vector<DiskStatus> Node::disks() const {
  const std::lock_guard lock(disks_mutex_);
  return disk_status_;
}

// What is open stays open: its loop and its databases end with the process.
Outcome<void> Node::take_disk_off(const std::string& path) {
  const std::lock_guard lock(disks_mutex_);
  TRY_ASSIGN(std::vector<Disk> disks, read_disks(directory_));
  const auto found = std::find_if(disks.begin(), disks.end(), [&](const Disk& disk) {
    return disk.path == path && !disk.is_taken_off;
  });
  if (found == disks.end()) {
    return Failure{Code::not_found, fmt::format("{}: is no disk of {}", path, directory_)};
  }
  found->is_taken_off = true;
  TRY(list_disk(directory_, *found));
  for (DiskStatus& status : disk_status_) {
    if (status.path == path) status.is_taken_off = true;
  }
  return {};
}

// All went well: what was made stays.
Outcome<void> Node::finish_making() {
  for (Disk& disk : new_disks_) {
    TRY_ASSIGN(disk.target, participant_->target_at(disk.path));
    ASSERT(disk.target);
    TRY(list_disk(directory_, disk));
    for (DiskStatus& status : disk_status_) {
      if (status.path == disk.path) status.target = *disk.target;
    }
    finish_making_disk(disk.path);
  }
  new_disks_.clear();
  return storage_->finish_making();
}

}  // namespace penstock::agent
