#include "disks.h"

#include "limits.h"
#include "store_contents.h"
#include "store_lock.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "penstock/cluster.h"

namespace penstock::agent {
namespace {

constexpr uint64_t kVersion = 1;
// Of a disk that was taken off: the first release would look for it.
constexpr uint64_t kTakenOffVersion = 2;
// In the order in which they are removed.
constexpr const char* kMadeOnDisk[] = {"data",     "kv",           "kv.creating",
                                       "identity", "identity.new", "penstock.making.new"};

Failure damaged(const std::string& path) {
  return {Code::corrupt, path + ": is damaged (restore the file from a backup)"};
}

Outcome<Disk> read_disk(const std::string& path, const std::string& name) {
  const Result<std::string> text = read_kept_file(path);
  if (!text) {
    return Failure{text.error(), fmt::format("{}: cannot be read: {}", path, text.error().name())};
  }
  auto words = words_of(*text);
  uint64_t version = 0, number = 0;
  if (!parse_number(words["penstock-disk"], &version)) return damaged(path);
  if (version != kVersion && version != kTakenOffVersion) {
    return Failure{Code::wrong_version,
                   fmt::format("{}: has format {}, this program reads format {} (use the version "
                               "of penstock that wrote it)",
                               path, version, kTakenOffVersion)};
  }
  const auto target = cluster::parse_uuid(words["target"]);
  const std::string& at = words["path"];
  if (!target || !at.starts_with('/') || !parse_number(name, &number) ||
      number >= limits::kDisksMax) {
    return damaged(path);
  }
  return Disk{.number = static_cast<uint32_t>(number),
              .path = at,
              .target = *target,
              .is_taken_off = version == kTakenOffVersion};
}

Status remove_made_disk(const std::string& path) {
  for (const char* name : kMadeOnDisk) {
    std::error_code error;
    std::filesystem::remove_all(path + "/" + name, error);
    if (error) return Status::from_errno(error.value());
  }
  TRY(sync_directory(path));
  if (::unlink((path + "/" + kMakingName).c_str()) != 0 && errno != ENOENT) {
    return Status::from_errno(errno);
  }
  return Code::ok;
}

}  // namespace

TargetId store_id_of(const Disk& disk) {
  static_assert(limits::kFirstDiskTarget >= 64, "behind the targets of a directory");
  static_assert(limits::kFirstDiskTarget + limits::kDisksMax <= kFirstSharedChain.value);
  ASSERT(disk.number < limits::kDisksMax);
  return TargetId(limits::kFirstDiskTarget + disk.number);
}

Outcome<std::vector<Disk>> read_disks(const std::string& directory) {
  const std::string list = directory + "/" + kDisksName;
  const auto names = names_in(list);
  std::vector<Disk> disks;
  if (!names && names.error() == Code::not_found) return disks;
  if (!names) {
    return Failure{names.error(),
                   fmt::format("{}: cannot be read: {}", list, names.error().name())};
  }
  for (const std::string& name : *names) {
    if (name.ends_with(".new")) continue;  // was to be put in its place when the process ended
    TRY_ASSIGN(Disk disk, read_disk(list + "/" + name, name));
    disks.push_back(std::move(disk));
  }
  std::sort(disks.begin(), disks.end(),
            [](const Disk& a, const Disk& b) { return a.number < b.number; });
  return disks;
}

Outcome<void> list_disk(const std::string& directory, const Disk& disk) {
  ASSERT(disk.target && disk.path.starts_with('/') && disk.number < limits::kDisksMax);
  const std::string list = directory + "/" + kDisksName;
  Status status;
  if (::mkdir(list.c_str(), kOwnerOnlyDirectory) == 0) {
    status = sync_directory(directory);
  } else if (errno != EEXIST) {
    status = Status::from_errno(errno);
  }
  const std::string path = fmt::format("{}/{}", list, disk.number);
  if (status.ok()) {
    status = keep_file(path,
                       fmt::format("penstock-disk {}\ntarget {}\npath {}\n",
                                   disk.is_taken_off ? kTakenOffVersion : kVersion,
                                   cluster::text_of(*disk.target), disk.path),
                       kOwnerOnly);
  }
  if (status.ok()) return {};
  return Failure{status, fmt::format("{}: cannot be written: {}", path, status.name())};
}

Outcome<void> begin_making_disk(const std::string& path) {
  const auto failed = [&](int error) {
    return Failure{
        Status::from_errno(error),
        fmt::format("{}: cannot be made a disk of this node: {}", path, std::strerror(error))};
  };
  if (path.find('\n') != std::string::npos || path.size() > limits::kDiskPathBytesMax) {
    return Failure{Code::invalid_argument, path + ": its name is too long, or not one line"};
  }
  if (::mkdir(path.c_str(), kOwnerOnlyDirectory) != 0 && errno != EEXIST) return failed(errno);
  const auto names = names_in(path);
  if (!names) {
    return Failure{names.error(), fmt::format("{}: is no directory to put a target in: {}", path,
                                              names.error().name())};
  }
  Status status;
  if (names->contains(kMakingName)) {
    status = remove_made_disk(path);
  } else {
    for (const std::string& name : *names) {
      if (name == "lost+found" || name == "penstock.making.new") continue;
      return Failure{Code::not_empty,
                     fmt::format("{}: is not empty: there is '{}' (give an empty directory, such "
                                 "as where the disk is mounted)",
                                 path, name)};
    }
  }
  if (status.ok()) status = keep_file(path + "/" + kMakingName, "", kOwnerOnly);
  for (const char* name : {"/data", "/kv"}) {
    if (status.ok() && ::mkdir((path + name).c_str(), kOwnerOnlyDirectory) != 0) {
      status = Status::from_errno(errno);
    }
  }
  if (status.ok()) status = sync_directory(path);
  if (status.ok()) return {};
  return Failure{status,
                 fmt::format("{}: cannot be made a disk of this node: {}", path, status.name())};
}

void finish_making_disk(const std::string& path) {
  (void)::unlink((path + "/" + kMakingName).c_str());
  (void)sync_directory(path);
}

void undo_making_disk(const std::string& path) {
  const Status removed = remove_made_disk(path);
  if (!removed.ok()) log::warning("{}: what was made there stays: {}", path, removed.name());
}

}  // namespace penstock::agent
