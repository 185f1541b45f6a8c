// Disks that a node was given, each with one target: PATH/data, PATH/kv and PATH/identity, and what
// the node's directory keeps of them (decision 0054).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "penstock/controller.h"

namespace penstock::agent {

inline constexpr const char* kDisksName = "disks";  // in the node's directory

struct Disk {
  uint32_t number = 0;  // never used again
  std::string path;     // absolute
  // Of its target, as it is listed; none: the disk is given the first time.
  std::optional<controller::Uuid> target = {};
  bool is_made = false;       // there was nothing there before this start
  bool is_taken_off = false;  // it is listed so that its number and its target stay known
};
inline std::string data_path_of(const Disk& disk) {
  return disk.path + "/data";
}
inline std::string kv_path_of(const Disk& disk) {
  return disk.path + "/kv";
}
// What its store is called by. Numbers below belong to targets in the directory itself, and those
// from controller::limits::kFirstSharedChain on to chains of the cluster.
TargetId store_id_of(const Disk& disk);

// Those that are listed, by their numbers. Foreign input: fails, with a reason for people, if the
// list is damaged.
Outcome<std::vector<Disk>> read_disks(const std::string& directory);
// The disk is on the list when this returns, as it is, which is durable. It has a target.
Outcome<void> list_disk(const std::string& directory, const Disk& disk);

// Prepares a path, which may be missing, for a new target. Removes what a making left that was cut
// short; refuses, having changed nothing, what holds anything else.
Outcome<void> begin_making_disk(const std::string& path);
// The disk is listed.
void finish_making_disk(const std::string& path);
// Removes what was made there.
void undo_making_disk(const std::string& path);

}  // namespace penstock::agent
