// What tells that a file is still what it was.
#pragma once

#include <string>
#include <sys/stat.h>

#include "penstock/base.h"

namespace penstock::files {

// How a file was when it was opened. Not its access time: reading changes that.
struct FileState {
  std::string path;
  struct stat facts {};
};

inline bool same_time(const timespec& a, const timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

// Whether the file is as it was, as far as its inode, length and modification time tell.
inline bool same_content(const struct stat& before, const struct stat& now) {
  return before.st_ino == now.st_ino && before.st_size == now.st_size &&
         same_time(before.st_mtim, now.st_mtim);
}

inline Failure was_changed(const std::string& path) {
  return {Code::corrupt, path +
                             ": was changed while it was read (load it again when nobody writes to "
                             "it; who replaces it by a rename disturbs nobody)"};
}

}  // namespace penstock::files
