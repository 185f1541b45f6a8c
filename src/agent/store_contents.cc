#include "store_contents.h"

#include "disks.h"
#include "store_lock.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <dirent.h>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock::agent {
namespace {

// Of a node that asked to join: the key by which it comes again (src/cluster).
constexpr const char* kIdentityName = "identity";

// In the order in which they are removed.
constexpr std::array kMadeNames = {
    kMetaName,    "meta.creating",       kTargetsName,         kSecretName,   "secret.new",
    kClusterName, "cluster.new",         "penstock.store.new", kRecordsName,  "records.new",
    kNamesName,   "names.new",           kStandbyName,         "standby.new", kDisksName,
    "LOCK.new",   "penstock.making.new", kMakingName};
// The database's own lock, and the mark beside it (docs/formats/metadata-mark.md).
constexpr const char* kDatabaseLockName = "LOCK";
constexpr const char* kMarkName = "PENSTOCK";
constexpr size_t kMarkBytesMax = 4096;

// Names that do not make a directory a used one: of the file system, and of commands that may have
// prepared to run a node.
bool is_harmless(const std::string& name) {
  return name == "lost+found" || name == kLockName || name == kIdentityName ||
         name.ends_with(".sock") || name.ends_with(".log") || name.ends_with(".pid");
}

// True when a process that serves no store has the database's lock (fcntl, by RocksDB).
bool stranger_has_database_lock(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!file) return false;
  struct flock wanted {};
  wanted.l_type = F_WRLCK;
  wanted.l_whence = SEEK_SET;
  if (::fcntl(file.get(), F_GETLK, &wanted) != 0 || wanted.l_type == F_UNLCK) return false;
  return wanted.l_pid > 0 && judge_lock_holder(wanted.l_pid, file.get()) == LockHolder::stranger;
}

// Puts a copy of the file that only its owner may open in its place.
Status replace_with_copy(const std::string& path, int file) {
  std::array<char, kMarkBytesMax> content;
  const ssize_t length = ::pread(file, content.data(), content.size(), 0);
  if (length < 0) return Status::from_errno(errno);
  const std::string made = path + ".new";
  const UniqueFd copy(
      ::open(made.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, kOwnerOnly));
  if (!copy || ::fchmod(copy.get(), kOwnerOnly) != 0) return Status::from_errno(errno);
  if (::write(copy.get(), content.data(), static_cast<size_t>(length)) != length) {
    return Status(Code::no_space);
  }
  if (::fsync(copy.get()) != 0 || ::rename(made.c_str(), path.c_str()) != 0) {
    return Status::from_errno(errno);
  }
  return Code::ok;
}

// The mark's lock tells of a second user of the database. One that a stranger holds tells nothing.
Status free_mark(const std::string& path, int lock) {
  const UniqueFd mark(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!mark) return errno == ENOENT ? Status() : Status::from_errno(errno);
  if (::flock(mark.get(), LOCK_EX | LOCK_NB) == 0) return Code::ok;
  if (find_lock_holder(mark.get(), lock).kind != LockHolder::stranger) return Code::ok;
  log::warning("{}: was locked by a process that serves no store; replaced", path);
  return replace_with_copy(path, mark.get());
}

// What is not there is missed where it is needed.
Status close_one(const std::string& path, mode_t mode) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0 || (facts.st_mode & 0077) == 0) return Code::ok;
  if (::chmod(path.c_str(), mode) != 0) return Status::from_errno(errno);
  log::warning("{}: was open to all users; now it is its owner's alone", path);
  return Code::ok;
}

}  // namespace

Result<std::set<std::string>> names_in(const std::string& path) {
  DIR* directory = ::opendir(path.c_str());
  if (directory == nullptr) return Status::from_errno(errno);
  std::set<std::string> names;
  while (const dirent* entry = ::readdir(directory)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.insert(name);
  }
  ::closedir(directory);
  return names;
}

std::string name_in_the_way(const std::set<std::string>& names) {
  // What was made is known by the sign that is made first and removed last. Before the sign itself
  // there is only its draft.
  const bool made = names.contains(kMakingName);
  for (const std::string& name : names) {
    if (is_harmless(name) || name == "LOCK.new" || name == "penstock.making.new") continue;
    if (made && std::find(kMadeNames.begin(), kMadeNames.end(), name) != kMadeNames.end()) continue;
    return name;
  }
  return {};
}

Status remove_made(const std::string& path) {
  for (const char* name : kMadeNames) {
    std::error_code error;
    if (std::string_view(name) == kMakingName) TRY(sync_directory(path));
    std::filesystem::remove_all(path + "/" + name, error);
    if (error) return Status::from_errno(error.value());
  }
  return sync_directory(path);
}

Status close_to_others(const std::string& path, int lock) {
  const std::string meta = path + "/" + kMetaName;
  struct stat facts {};
  // Where it may be missing, whoever opened the directory has found that.
  if (::lstat(meta.c_str(), &facts) != 0) {
    if (errno != ENOENT) return Status::from_errno(errno);
  } else if ((facts.st_mode & 0077) != 0) {
    if (::chmod(meta.c_str(), kOwnerOnlyDirectory) != 0) return Status::from_errno(errno);
    TRY_ASSIGN(const std::set<std::string> names, names_in(meta));
    for (const std::string& name : names) {
      const std::string file = meta + "/" + name;
      if (::lstat(file.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) continue;
      if (::chmod(file.c_str(), kOwnerOnly) != 0) return Status::from_errno(errno);
    }
    log::info("{}: was open to all users; now it is its owner's alone", meta);
  }
  // With the secret any user could make the proof that a file may be opened.
  TRY(close_one(path + "/" + kSecretName, kOwnerOnly));
  TRY(close_one(path + "/" + kTargetsName, kOwnerOnlyDirectory));
  TRY(free_mark(meta + "/" + kMarkName, lock));
  const std::string database_lock = meta + "/" + kDatabaseLockName;
  if (stranger_has_database_lock(database_lock)) {
    log::warning("{}: was locked by a process that serves no store; replaced", database_lock);
    ::unlink(database_lock.c_str());
  }
  return Code::ok;
}

}  // namespace penstock::agent
