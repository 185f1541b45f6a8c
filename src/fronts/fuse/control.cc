// ioctl: what programs ask of the mount beside reading and writing. The flags of inodes, in the two
// forms that Linux has for them; and what 3FS's mount answers.
#include "control_3fs.h"
#include "operations.h"

#include <cstring>
#include <linux/fs.h>

namespace penstock::fuse {
namespace {

// The same flags under the names of the second form.
struct FlagNames {
  uint32_t flag;
  uint32_t extended;
};
constexpr FlagNames kFlagNames[] = {
    {meta::kInodeImmutable, FS_XFLAG_IMMUTABLE},
    {meta::kInodeAppendOnly, FS_XFLAG_APPEND},
    {meta::kInodeNoDump, FS_XFLAG_NODUMP},
    {meta::kInodeNoAtime, FS_XFLAG_NOATIME},
};
static_assert(meta::kInodeImmutable == FS_IMMUTABLE_FL && meta::kInodeAppendOnly == FS_APPEND_FL &&
              meta::kInodeNoDump == FS_NODUMP_FL && meta::kInodeNoAtime == FS_NOATIME_FL);

void get_flags(Call& call, InodeId inode, bool extended, size_t out_bytes) {
  const auto attributes = call.front().files.attributes(inode);
  if (!attributes) return call.status(attributes.error());
  if (!extended) {
    if (out_bytes < sizeof attributes->flags) return call.error(EINVAL);
    return call.controlled(&attributes->flags, sizeof attributes->flags);
  }
  fsxattr out{};
  for (const FlagNames& names : kFlagNames) {
    if ((attributes->flags & names.flag) != 0) out.fsx_xflags |= names.extended;
  }
  if (out_bytes < sizeof out) return call.error(EINVAL);
  call.controlled(&out, sizeof out);
}

// The flags that a request wants; nothing when it asks for what there is not.
std::optional<uint32_t> wanted_flags(bool extended, const void* in, size_t in_bytes) {
  if (!extended) {
    uint32_t flags = 0;
    if (in_bytes < sizeof flags) return std::nullopt;
    std::memcpy(&flags, in, sizeof flags);
    return flags;
  }
  fsxattr wanted{};
  if (in_bytes < sizeof wanted) return std::nullopt;
  std::memcpy(&wanted, in, sizeof wanted);
  uint32_t flags = 0;
  for (const FlagNames& names : kFlagNames) {
    if ((wanted.fsx_xflags & names.extended) == 0) continue;
    wanted.fsx_xflags &= ~names.extended;
    flags |= names.flag;
  }
  // Hints about extents and projects belong to other file systems.
  const bool others = wanted.fsx_xflags != 0 || wanted.fsx_extsize != 0 || wanted.fsx_projid != 0 ||
                      wanted.fsx_cowextsize != 0;
  if (others) return std::nullopt;
  return flags;
}

void set_flags(Call& call, InodeId inode, std::optional<uint32_t> flags) {
  if (!flags || (*flags & ~meta::kInodeFlags) != 0) return call.error(EOPNOTSUPP);
  Front& front = call.front();
  const auto now_is = front.files.attributes(inode);
  if (!now_is) return call.status(now_is.error());
  meta::SetAttributes changes;
  changes.flags = flags;
  // The kernel keeps attributes over an ioctl: it must be told, as of another's change.
  const client::Credentials who = call.owner_credentials(*now_is);
  const auto set = front.files.set_attributes(who, inode, changes, nullptr);
  if (!set) return call.status(set.error());
  call.controlled(nullptr, 0);
}

}  // namespace

// The kernel has checked that the caller may set these flags.
void control(Call& call, fuse_ino_t inode, unsigned command, void*, fuse_file_info* info,
             unsigned flags, const void* in, size_t in_bytes, size_t out_bytes) {
  const bool is_directory = (flags & FUSE_IOCTL_DIR) != 0;
  if (control_as_3fs(call, {inode, command, info, is_directory, in, in_bytes, out_bytes})) return;
  if (is_virtual(inode)) return call.error(ENOTTY);
  const InodeId id{inode};
  switch (command) {
    case FS_IOC_GETFLAGS:
    case FS_IOC_FSGETXATTR:
      return get_flags(call, id, command == FS_IOC_FSGETXATTR, out_bytes);
    case FS_IOC_SETFLAGS:
    case FS_IOC_FSSETXATTR: {
      const bool extended = command == FS_IOC_FSSETXATTR;
      return set_flags(call, id, wanted_flags(extended, in, in_bytes));
    }
    default:
      call.error(ENOTTY);
  }
}

}  // namespace penstock::fuse
