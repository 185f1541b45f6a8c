// What the agent says of a file, as stat(2) says it.
#pragma once

#include <algorithm>
#include <sys/stat.h>
#include <time.h>

#include "penstock/wire.h"

namespace penstock::files {

inline timespec to_timespec(const wire::Time& time) {
  return {static_cast<time_t>(time.seconds), static_cast<long>(time.nanoseconds)};
}

inline void to_stat(const wire::Attributes& from, struct stat* to) {
  *to = {};
  to->st_ino = from.inode;
  to->st_mode = from.type | from.mode;
  to->st_nlink = from.links;
  to->st_uid = from.uid;
  to->st_gid = from.gid;
  to->st_rdev = from.device;
  to->st_size = static_cast<off_t>(from.length);
  to->st_blksize = static_cast<blksize_t>(std::min<uint64_t>(from.chunk_bytes, kMiB));
  to->st_blocks = static_cast<blkcnt_t>(from.allocated / 512);
  to->st_atim = to_timespec(from.accessed);
  to->st_mtim = to_timespec(from.modified);
  to->st_ctim = to_timespec(from.changed);
}

}  // namespace penstock::files
