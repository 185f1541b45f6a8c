// Lists of files, as an application gives them: each has a result of its own, a number of bytes or
// 0, or a negative errno.
//
// The structs are laid out as those of penstock.h, which the C border asserts: it passes pointers
// to those on as pointers to these, hence may_alias. A list stays its caller's.
#pragma once

#include <cstdint>
#include <span>
#include <sys/stat.h>
#include <time.h>

#include "penstock/lanes.h"

namespace penstock::files {

// A file that is opened, read from its beginning and closed.
struct [[gnu::may_alias]] ListedRead {
  const char* path = nullptr;
  connection::Region* region = nullptr;  // null: the bytes go to `buffer`
  uint64_t region_offset = 0;
  void* buffer = nullptr;
  uint64_t length = 0;  // the room there
  uint64_t size = 0;    // out: of the file
  int64_t result = 0;   // out
};

// By requests for many at once, from the node cache where that has them. An error when the agent is
// gone: files that have no result by then get it, too.
Outcome<void> read_files(lanes::Session& session, class StagingPool& staging,
                         std::span<ListedRead> files);
// Into one range of a region, each at the next multiple of `alignment`. -ENOSPC for those that do
// not fit.
struct PackedRange {
  connection::Region* region = nullptr;
  uint64_t offset = 0;
  uint64_t length = 0;
  uint64_t alignment = 0;
};
Outcome<void> read_files_packed(lanes::Session& session, class StagingPool& staging,
                                std::span<ListedRead> files, const PackedRange& range);

// A new regular file, with its content. `replace`: takes the place of what has its name.
inline constexpr uint32_t kReplace = 1;
struct [[gnu::may_alias]] ListedNewFile {
  const char* path = nullptr;
  connection::Region* region = nullptr;
  uint64_t region_offset = 0;
  uint64_t length = 0;
  mode_t mode = 0;
  uid_t uid = 0;  // -1: the caller's
  gid_t gid = 0;
  uint32_t flags = 0;
  timespec times[2] = {};  // access, modification
  int result = 0;          // out
};
Outcome<void> create_files(lanes::Session& session, std::span<ListedNewFile> files);

// A path whose attributes are wanted, without following its last link.
struct [[gnu::may_alias]] ListedLook {
  const char* path = nullptr;
  struct stat st {};  // out, where the result is 0
  int result = 0;     // out
};
Outcome<void> look_at_files(lanes::Session& session, std::span<ListedLook> files);

}  // namespace penstock::files
