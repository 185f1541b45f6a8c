// One operation of a program: plain data, so that programs can be printed, read back and shortened.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::differential {

enum class Kind : uint8_t {
  // On names.
  open,
  mkdir,
  rmdir,
  unlink,
  rename,
  link,
  link_file,
  symlink,
  readlink,
  mknod,
  truncate,
  chmod,
  chown,
  utimens,
  access,
  set_xattr,
  get_xattr,
  remove_xattr,
  list_xattr,
  set_acl,
  stat,
  list,
  statfs,
  // On open files.
  close,
  dup,
  read,
  write,
  pread,
  pwrite,
  pwritev2,
  ftruncate,
  fallocate,
  seek,
  fchmod,
  fchown,
  futimens,
  fsync,
  flock,
  lock,
  copy_range,
  send_file,
  get_flags,
  set_flags,
  get_fl,
  set_fl,
  advise,
  // On mappings and open listings.
  map,
  map_write,
  map_read,
  map_sync,
  unmap,
  open_stream,
  read_stream,
  seek_stream,
  close_stream,
  // Of the process, and of the tester.
  umask,
  relax,
  compare,
  // Of the node of a mount: it is killed or stopped, and is back.
  lose,
  restore,
};
inline constexpr size_t kKinds = static_cast<size_t>(Kind::restore) + 1;

// Who acts: processes of their own, the first two of them root's.
inline constexpr uint32_t kActors = 5;
inline constexpr std::array<uint32_t, kActors> kUsers{0, 0, 1001, 1002, 1001};

// How many mounts there may be of the tree under test, each of another node.
inline constexpr uint32_t kMountsMax = 8;

// What a process has.
inline constexpr int kFiles = 6;
inline constexpr int kStreams = 2;
inline constexpr int kMaps = 2;

struct Operation {
  Kind kind = Kind::stat;
  uint8_t actor = 0;
  int mount = 0;  // through which of the mounts what it names is looked up
  int at = -1;    // the open directory that names start from; -1: the tree's top
  int slot = 0;   // the open file, or the listing
  int other = 0;  // a second one, the mapping, or the extended attribute
  std::string path;
  std::string path2;
  std::array<int64_t, 4> numbers{};  // what they mean depends on the kind: see kKindWords

  friend bool operator==(const Operation&, const Operation&) = default;
};

using Program = std::vector<Operation>;

std::string_view name_of(Kind kind);
// True for one operation in `n`, by what it is: the same wherever it stands in a program.
bool one_in(const Operation& operation, uint64_t n);
// `1 pwrite slot=2 length=100 offset=4096 seed=7`: the actor, the kind, then what is not 0.
std::string to_text(const Operation& operation);
// The reverse; nothing when a line makes no sense.
std::optional<Operation> operation_of(std::string_view line);

}  // namespace penstock::differential
