#include "store_lock.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

namespace penstock::agent {
namespace {

// Each turn is lost only to another process that replaced or removed the file just then.
constexpr int kAttemptsMax = 100;

// The number by which the kernel names its first namespace of processes, in which every process can
// be seen (PROC_PID_INIT_INO).
constexpr ino_t kFirstProcessNamespace = 0xEFFFFFFC;

bool is_same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

bool sees_all_processes() {
  struct stat facts {};
  return ::stat("/proc/self/ns/pid", &facts) == 0 && facts.st_ino == kFirstProcessNamespace;
}

// The process that took the flock of this file, by the kernel's list of locks (proc_locks(5)).
// Processes that have ended, or that cannot be seen from here, are not in it.
pid_t holder_in_list(const struct stat& file) {
  std::ifstream list("/proc/locks");
  for (std::string line; std::getline(list, line);) {
    int pid = 0;
    unsigned major_number = 0, minor_number = 0;
    unsigned long inode = 0;
    if (std::sscanf(line.c_str(), "%*d: FLOCK %*s %*s %d %x:%x:%lu", &pid, &major_number,
                    &minor_number, &inode) != 4) {
      continue;
    }
    if (inode == file.st_ino && makedev(major_number, minor_number) == file.st_dev) return pid;
  }
  return 0;
}

// The user that started the process: the effective one may be that of a set-user-id program.
std::optional<uid_t> real_user_of(pid_t pid) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);) {
    unsigned uid = 0;
    if (std::sscanf(line.c_str(), "Uid: %u", &uid) == 1) return uid;
  }
  return std::nullopt;
}

// Whether the process has the file open; true if it cannot be told.
bool may_have_open(pid_t pid, const struct stat& file) {
  std::error_code error;
  const std::filesystem::directory_iterator open_files(fmt::format("/proc/{}/fd", pid), error);
  if (error) return true;
  for (const auto& entry : open_files) {
    struct stat facts {};
    if (::stat(entry.path().c_str(), &facts) == 0 && is_same_file(facts, file)) return true;
  }
  return false;
}

// The kernel's word, or what the holder of an agent's lock has written into it.
std::string holder_in_words(const LockHolderFacts& holder, int file) {
  if (holder.pid > 0) return fmt::format("process {}", holder.pid);
  char text[32] = {};
  const ssize_t length = ::pread(file, text, sizeof text - 1, 0);
  const long written = length > 0 ? std::strtol(text, nullptr, 10) : 0;
  if (written > 0) return fmt::format("process {}", written);
  return "a process that cannot be seen from here, perhaps of another container";
}

// An exclusive lock on the file that `path` names when this returns. in_use when another process
// has it; then `file` is that file, open.
Status lock_current(const std::string& path, UniqueFd& file) {
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    file.reset(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kOwnerOnly));
    if (!file) return Status::from_errno(errno);
    if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      return errno == EWOULDBLOCK ? Status(Code::in_use) : Status::from_errno(errno);
    }
    // It may have been replaced or removed between the two.
    struct stat ours {
    }, named{};
    if (::fstat(file.get(), &ours) != 0) return Status::from_errno(errno);
    if (::stat(path.c_str(), &named) == 0 && is_same_file(ours, named)) return Code::ok;
  }
  return Code::busy;
}

// Puts a new file, locked by us, in the place of one that a stranger has locked. Only the process
// that has the lock of the new file while it has its first name may rename or remove it: of two
// that try at once one finds it locked.
LockOutcome replace_stranger(const std::string& path) {
  const std::string made = path + ".new";
  UniqueFd replacement, current;
  const Status mine = lock_current(made, replacement);
  if (!mine.ok()) {
    return {UniqueFd(), mine, "another process that is starting"};
  }
  // What was seen before the lock was ours may be over.
  const Status now = lock_current(path, current);
  if (now.code() == Code::in_use) {
    const LockHolderFacts holder = find_lock_holder(current.get(), replacement.get());
    if (holder.kind == LockHolder::stranger) {
      if (::rename(made.c_str(), path.c_str()) == 0) return {std::move(replacement), {}, {}};
      return {UniqueFd(), Status::from_errno(errno), {}};
    }
    ::unlink(made.c_str());
    return {UniqueFd(), Code::in_use, holder_in_words(holder, current.get())};
  }
  ::unlink(made.c_str());
  if (!now.ok()) return {UniqueFd(), now, {}};
  return {std::move(current), {}, {}};
}

}  // namespace

LockHolderFacts find_lock_holder(int fd, int own) {
  struct stat file {};
  if (::fstat(fd, &file) != 0) return {};
  const pid_t pid = holder_in_list(file);
  if (pid <= 0) {
    // The process that took the lock has ended, which an agent does not do before its lock: if the
    // list can be believed, which does not name what is on some file systems.
    struct stat ours {};
    const bool complete = own >= 0 && ::fstat(own, &ours) == 0 &&
                          holder_in_list(ours) == ::getpid() && sees_all_processes();
    return {complete ? LockHolder::stranger : LockHolder::unseen, 0};
  }
  return {judge_lock_holder(pid, fd), pid};
}

LockHolder judge_lock_holder(pid_t pid, int fd) {
  struct stat file {};
  if (::fstat(fd, &file) != 0) return LockHolder::unseen;
  const std::optional<uid_t> user = real_user_of(pid);
  const bool trusted = user && (*user == 0 || *user == file.st_uid) && may_have_open(pid, file);
  return trusted ? LockHolder::trusted : LockHolder::stranger;
}

LockOutcome lock_store(const std::string& path) {
  LockOutcome outcome;
  outcome.status = lock_current(path, outcome.fd);
  if (outcome.status.code() == Code::in_use) {
    const LockHolderFacts holder = find_lock_holder(outcome.fd.get(), -1);
    outcome.holder = holder_in_words(holder, outcome.fd.get());
    outcome.fd.reset();
    if (holder.kind == LockHolder::trusted) return outcome;
    outcome = replace_stranger(path);
    if (outcome.fd) {
      log::warning("{}: was locked by {}, which serves no store; replaced", path,
                   holder.pid > 0 ? fmt::format("process {}", holder.pid) : "a process that ended");
    }
  }
  // One of an earlier release may be opened by all users.
  if (outcome.fd && ::fchmod(outcome.fd.get(), kOwnerOnly) != 0) {
    outcome.status = Status::from_errno(errno);
  }
  if (!outcome.status.ok()) outcome.fd.reset();
  return outcome;
}

}  // namespace penstock::agent
