// What is in a store's directory beside the store's own work: the rests of a making that was cut
// short, and what an earlier release left open to all users.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <sys/types.h>

#include "penstock/base.h"

namespace penstock::agent {

inline constexpr const char* kSuperblockName = "penstock.store";
inline constexpr const char* kMakingName = "penstock.making";
inline constexpr const char* kLockName = "LOCK";
inline constexpr const char* kSecretName = "secret";
inline constexpr const char* kMetaName = "meta";
// Of a database beside its place: while one is loaded, and while RocksDB's files of one are made.
inline constexpr const char* kLoadingSuffix = ".loading";
inline constexpr const char* kCreatingSuffix = ".creating";
// Of one that is being removed.
inline constexpr const char* kRemovedSuffix = ".removed";
// Of the copy of a running node's database that a command reads (penstock/meta_copy.h), and of the
// file that is locked meanwhile.
inline constexpr const char* kCopySuffix = ".checkpoint";
inline constexpr const char* kCopyLockSuffix = ".lock";
inline constexpr const char* kTargetsName = "targets";
inline constexpr const char* kLimitsName = "limits";
inline constexpr const char* kClusterName = "cluster";  // the cluster library's
inline constexpr const char* kNamesName = "names";      // where the names are; none: in `meta`
inline constexpr const char* kStandbyName = "standby";  // others may have the names: turn.h
inline constexpr const char* kRecordsName =
    "records";  // the file system's, where no target has them

Result<std::set<std::string>> names_in(const std::string& path);

// The first name that keeps a store from being made in a directory with these; empty if none does.
// The rests of a making that was cut short do not.
std::string name_in_the_way(const std::set<std::string>& names);

// Removes what a making may have left, the sign of it last, so that being killed here is no worse
// than being killed there. The caller holds the store's lock, and there is no superblock.
Status remove_made(const std::string& path);

// Takes from all users but the owner what an earlier release let them read in `meta`: the directory
// itself, its files, and the locks that another user's process may hold there; and the secret and
// the targets, however they came to be open. `lock` is the store's lock, which the caller holds.
Status close_to_others(const std::string& path, int lock);

// Where a running node makes a copy of its namespace's database.
inline std::string meta_copy_path(const std::string& directory) {
  return directory + "/" + kMetaName + kCopySuffix;
}
// Removes a copy that nobody reads, which a killed command has left.
void remove_unused_meta_copy(const std::string& directory);

}  // namespace penstock::agent
