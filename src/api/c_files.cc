// penstock.h: files and names.
#include "handles.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

using namespace penstock;       // NOLINT: this file is the C border
using namespace penstock::api;  // NOLINT

namespace penstock::api {
namespace {

// The flags of open(2) that mean something here; -1 for any other.
int64_t to_open_flags(int flags) {
  constexpr int kHarmless = O_CLOEXEC | O_NOCTTY | O_DIRECT | O_LARGEFILE | O_NONBLOCK;
  constexpr int kKnown = O_ACCMODE | O_CREAT | O_EXCL | O_TRUNC | kHarmless;
  if ((flags & ~kKnown) != 0) return -1;
  uint32_t out = 0;
  switch (flags & O_ACCMODE) {
    case O_RDONLY:
      out = wire::kOpenRead;
      break;
    case O_WRONLY:
      out = wire::kOpenWrite;
      break;
    case O_RDWR:
      out = wire::kOpenRead | wire::kOpenWrite;
      break;
    default:
      return -1;
  }
  if ((flags & O_CREAT) != 0) out |= wire::kOpenCreate;
  if ((flags & O_EXCL) != 0) out |= wire::kOpenExclusive;
  if ((flags & O_TRUNC) != 0) out |= wire::kOpenTruncate;
  return out;
}

int put_stat(const Outcome<struct stat>& seen, struct stat* st) {
  if (!seen) return fail(seen.error());
  *st = *seen;
  return 0;
}

int done(const Outcome<void>& asked) {
  return asked ? 0 : fail(asked.error());
}

int stat_path(penstock_session* session, const char* path, bool follow, struct stat* st) {
  int error = check_session(session, "stat");
  if (error == 0) error = check_path(path, "stat");
  if (error != 0) return error;
  if (st == nullptr) return fail_with(EINVAL, "stat: no place for the result");
  return put_stat(stat_of(session_of(session), wire::PathAttributes{path, follow}), st);
}

// A call about an open file that answers nothing.
int file_call(penstock_session* session, penstock_file file, const char* what,
              const wire::RequestBody& request, bool repeatable) {
  const int error = check_session(session, what);
  if (error != 0) return error;
  if (session_of(session).files().access_of(file) == 0) {
    return fail(EBADF, fmt::format("{}: the file is not open", what));
  }
  return done(ask(session_of(session), request, repeatable));
}

// A call about one or two paths that answers nothing. Such calls change the namespace: they are not
// made twice.
int path_call(penstock_session* session, const char* what, const char* path, const char* other,
              const std::function<wire::RequestBody()>& request) {
  int error = check_session(session, what);
  if (error == 0) error = check_path(path, what);
  if (error == 0 && other != nullptr) error = check_path(other, what);
  if (error != 0) return error;
  return done(ask(session_of(session), request(), false));
}

int change(penstock_session* session, const char* what, const char* path,
           wire::ChangeAttributes changes) {
  return path_call(session, what, path, nullptr, [&] {
    changes.path = path;
    return wire::RequestBody(changes);
  });
}

}  // namespace
}  // namespace penstock::api

penstock_file penstock_open(penstock_session* session, const char* path, int flags, mode_t mode) {
  int error = check_session(session, "open");
  if (error == 0) error = check_path(path, "open");
  if (error != 0) return error;
  const int64_t wire_flags = to_open_flags(flags);
  if (wire_flags < 0) return fail(EINVAL, fmt::format("open {}: a flag is not supported", path));
  const uint32_t creation = (flags & O_CREAT) != 0 ? creation_mode(mode) : 0;
  const Outcome<int32_t> file =
      open_path(session_of(session), path, static_cast<uint32_t>(wire_flags), creation);
  return file ? *file : fail(file.error());
}

penstock_file penstock_open_fd(penstock_session* session, int fd) {
  const int error = check_session(session, "open descriptor");
  if (error != 0) return error;
  if (::fcntl(fd, F_GETFD) < 0) return fail_with(EBADF, "open descriptor: it is not open");
  const Outcome<int32_t> file = session_of(session).files().open(
      [](uint32_t id) -> wire::RequestBody { return wire::OpenDescriptor{id}; }, {fd});
  return file ? *file : fail(file.error());
}

int penstock_file_close(penstock_session* session, penstock_file file) {
  const int error = check_session(session, "close");
  if (error != 0) return error;
  return done(session_of(session).files().close(file));
}

int penstock_file_close_later(penstock_session* session, penstock_file file) {
  const int error = check_session(session, "close");
  if (error != 0) return error;
  return done(session_of(session).files().close_later(file));
}

int penstock_fstat(penstock_session* session, penstock_file file, struct stat* st) {
  const int error = check_session(session, "fstat");
  if (error != 0) return error;
  if (st == nullptr) return fail_with(EINVAL, "fstat: no place for the result");
  if (session_of(session).files().access_of(file) == 0) {
    return fail_with(EBADF, "fstat: the file is not open");
  }
  const wire::FileAttributes request{static_cast<uint32_t>(file)};
  return put_stat(stat_of(session_of(session), request), st);
}

int penstock_ftruncate(penstock_session* session, penstock_file file, uint64_t length) {
  return file_call(session, file, "ftruncate",
                   wire::TruncateFile{static_cast<uint32_t>(file), length}, true);
}

int penstock_fsync(penstock_session* session, penstock_file file) {
  // After the agent's death there may be nothing left to sync: the caller must hear of it.
  return file_call(session, file, "fsync", wire::SyncFile{static_cast<uint32_t>(file)}, false);
}

int penstock_stat(penstock_session* session, const char* path, struct stat* st) {
  return stat_path(session, path, true, st);
}

int penstock_lstat(penstock_session* session, const char* path, struct stat* st) {
  return stat_path(session, path, false, st);
}

int penstock_birth_time(penstock_session* session, const char* path, struct timespec* time) {
  int error = check_session(session, "birth time");
  if (error == 0) error = check_path(path, "birth time");
  if (error != 0) return error;
  if (time == nullptr) return fail_with(EINVAL, "birth time: no place for the result");
  const Outcome<wire::Attributes> seen =
      attributes_of(session_of(session), wire::PathAttributes{path, false});
  if (!seen) return fail(seen.error());
  *time = to_timespec(seen->created);
  return 0;
}

int penstock_chmod(penstock_session* session, const char* path, mode_t mode) {
  wire::ChangeAttributes changes;
  changes.mode = mode & 07777;
  return change(session, "chmod", path, changes);
}

int penstock_lchown(penstock_session* session, const char* path, uid_t uid, gid_t gid) {
  wire::ChangeAttributes changes;
  changes.follow = false;
  // -1 leaves an id as it is, as for lchown(2).
  if (uid != static_cast<uid_t>(-1)) changes.uid = uid;
  if (gid != static_cast<gid_t>(-1)) changes.gid = gid;
  return change(session, "lchown", path, changes);
}

int penstock_utimens(penstock_session* session, const char* path, const struct timespec times[2]) {
  wire::ChangeAttributes changes;
  changes.follow = false;
  const auto set = [](const timespec& time, std::optional<wire::Time>* value, bool* is_now) {
    if (time.tv_nsec == UTIME_OMIT) return true;
    if (time.tv_nsec == UTIME_NOW) {
      *is_now = true;
      return true;
    }
    constexpr int64_t kSecond = 1'000'000'000;
    if (time.tv_nsec < 0 || time.tv_nsec >= kSecond) return false;
    *value = wire::Time{time.tv_sec, static_cast<uint32_t>(time.tv_nsec)};
    return true;
  };
  if (times == nullptr) {
    changes.accessed_now = changes.modified_now = true;
  } else if (!set(times[0], &changes.accessed, &changes.accessed_now) ||
             !set(times[1], &changes.modified, &changes.modified_now)) {
    return fail_with(EINVAL, "utimens: a time is out of range");
  }
  return change(session, "utimens", path, changes);
}

int penstock_mkdir(penstock_session* session, const char* path, mode_t mode) {
  return path_call(session, "mkdir", path, nullptr, [&] {
    return wire::RequestBody(wire::MakeDirectory{path, creation_mode(mode)});
  });
}

int penstock_rmdir(penstock_session* session, const char* path) {
  return path_call(session, "rmdir", path, nullptr, [&] {
    return wire::RequestBody(wire::Remove{path, true});
  });
}

int penstock_unlink(penstock_session* session, const char* path) {
  return path_call(session, "unlink", path, nullptr, [&] {
    return wire::RequestBody(wire::Remove{path, false});
  });
}

int penstock_rename(penstock_session* session, const char* from, const char* to) {
  if (to == nullptr) return fail_with(EINVAL, "rename: no path");
  return path_call(session, "rename", from, to, [&] {
    return wire::RequestBody(wire::Rename{from, to});
  });
}

int penstock_link(penstock_session* session, const char* from, const char* to) {
  if (to == nullptr) return fail_with(EINVAL, "link: no path");
  return path_call(session, "link", from, to, [&] {
    return wire::RequestBody(wire::MakeLink{from, to});
  });
}

int penstock_symlink(penstock_session* session, const char* target, const char* path) {
  if (target == nullptr || target[0] == '\0') return fail_with(ENOENT, "symlink: no target");
  if (std::strlen(target) > penstock::limits::kPathBytesMax) {
    return fail_with(ENAMETOOLONG, "symlink: the target is too long");
  }
  return path_call(session, "symlink", path, nullptr, [&] {
    return wire::RequestBody(wire::MakeSymlink{target, path});
  });
}

ssize_t penstock_readlink(penstock_session* session, const char* path, char* buffer, size_t size) {
  int error = check_session(session, "readlink");
  if (error == 0) error = check_path(path, "readlink");
  if (error != 0) return error;
  if (buffer == nullptr || size == 0) return fail_with(EINVAL, "readlink: no place for the result");
  const Connection::Answer answer =
      session_of(session).connection().call(wire::ReadSymlink{path}, true);
  if (!answer) return fail(answer.error());
  const auto* target = std::get_if<wire::Target>(&*answer);
  if (target == nullptr) return fail_with(EPROTO, "readlink: the agent's answer is no target");
  const size_t length = std::min(size, target->text.size());
  // Without a terminating zero, as readlink(2).
  std::copy_n(target->text.data(), length, buffer);
  return static_cast<ssize_t>(length);
}

int penstock_list(penstock_session* session, const char* path,
                  int (*visit)(void* context, const char* name, uint64_t inode, unsigned char type),
                  void* context) {
  int error = check_session(session, "list");
  if (error == 0) error = check_path(path, "list");
  if (error != 0) return error;
  if (visit == nullptr) return fail_with(EINVAL, "list: nobody to visit the entries");
  uint64_t after = 0;
  while (true) {
    const Connection::Answer answer =
        session_of(session).connection().call(wire::ListDirectory{path, after}, true);
    if (!answer) return fail(answer.error());
    const auto* page = std::get_if<wire::Page>(&*answer);
    if (page == nullptr) return fail_with(EPROTO, "list: the agent's answer is no page");
    for (const wire::Entry& entry : page->entries) {
      if (visit(context, entry.name.c_str(), entry.inode, static_cast<unsigned char>(entry.type)) !=
          0) {
        return 0;
      }
      after = entry.cookie;
    }
    if (page->end || page->entries.empty()) return 0;
  }
}

int penstock_sync(penstock_session* session) {
  const int error = check_session(session, "sync");
  if (error != 0) return error;
  return done(ask(session_of(session), wire::SyncAll{}, false));
}
