// Operations on attributes, of inodes and of the whole.
#include "limits.h"
#include "newer_requests.h"
#include "operations.h"

#include <algorithm>
#include <linux/xattr.h>
#include <string_view>
#include <sys/statvfs.h>
#include <sys/xattr.h>

namespace penstock::fuse {
namespace {

metrics::Counter& xattr_counter() {
  static metrics::Counter counter("fuse.xattr.gets");
  return counter;
}

meta::FileTime to_time(timespec time) {
  return {time.tv_sec, time.tv_nsec};
}

meta::SetAttributes to_changes(const struct stat& wanted, int which) {
  meta::SetAttributes changes;
  if (which & FUSE_SET_ATTR_MODE) changes.mode = wanted.st_mode & 07777;
  if (which & FUSE_SET_ATTR_UID) changes.uid = wanted.st_uid;
  if (which & FUSE_SET_ATTR_GID) changes.gid = wanted.st_gid;
  if (which & FUSE_SET_ATTR_SIZE) changes.length = static_cast<uint64_t>(wanted.st_size);
  if (which & FUSE_SET_ATTR_ATIME) changes.accessed = to_time(wanted.st_atim);
  if (which & FUSE_SET_ATTR_MTIME) changes.modified = to_time(wanted.st_mtim);
  changes.accessed_now = (which & FUSE_SET_ATTR_ATIME_NOW) != 0;
  changes.modified_now = (which & FUSE_SET_ATTR_MTIME_NOW) != 0;
  return changes;
}

constexpr int kWhatIsSet = FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID |
                           FUSE_SET_ATTR_SIZE | FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME |
                           FUSE_SET_ATTR_ATIME_NOW | FUSE_SET_ATTR_MTIME_NOW;
// What only the owner may change, or, of times that are to be now, who may write.
constexpr int kWhatOwnersSet = FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID |
                               FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME;

void reply_xattr(Call& call, const std::string& value, size_t size) {
  if (size == 0) return call.xattr_size(value.size());
  if (size < value.size()) return call.error(ERANGE);
  call.data(value.data(), value.size());
}

// Access control lists are the owner's to change.
Result<client::Credentials> credentials_for_xattr(Call& call, InodeId inode,
                                                  std::string_view name) {
  const bool is_list = name == XATTR_NAME_POSIX_ACL_ACCESS || name == XATTR_NAME_POSIX_ACL_DEFAULT;
  client::Credentials who = call.credentials();
  if (!is_list || !call.front().is_shared || who.uid == 0) return who;
  const auto now_is = call.front().files.attributes(inode);
  if (!now_is) return now_is.error();
  return call.owner_credentials(*now_is);
}

}  // namespace

void get_attributes(Call& call, fuse_ino_t inode, fuse_file_info*) {
  Front& front = call.front();
  if (is_virtual(inode)) {
    if (!front.virtual_directory) return call.error(ENOENT);
    return front.virtual_directory->get_attributes(call, inode);
  }
  const InodeId id{inode};
  front.cache->touch(id);
  const auto attributes = front.files.attributes(id);
  if (!attributes) return call.status(attributes.error());
  call.attributes(*attributes);
}

void set_attributes(Call& call, fuse_ino_t inode, struct stat* wanted, int which, fuse_file_info*) {
  if (is_virtual(inode)) return call.error(EPERM);
  if ((which & FUSE_SET_ATTR_SIZE) &&
      (wanted->st_size < 0 || static_cast<uint64_t>(wanted->st_size) > limits::kFileBytesMax)) {
    return call.error(EFBIG);
  }
  Front& front = call.front();
  const InodeId id{inode};
  front.cache->touch(id);
  meta::SetAttributes changes = to_changes(*wanted, which);
  const bool owner = (which & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)) != 0;
  const bool by_owner = (which & kWhatOwnersSet) != 0 && !changes.length;
  const bool nothing = (which & kWhatIsSet) == 0;
  if (changes.length && front.takes_privileges.load(std::memory_order_relaxed)) {
    changes.keeps_set_ids = !request_takes_set_ids();
  }
  client::Credentials credentials = call.credentials();
  const bool looks = owner || nothing || changes.keeps_set_ids == false;
  if (looks || (by_owner && front.is_shared && credentials.uid != 0)) {
    const auto now_is = front.files.attributes(id);
    if (!now_is) return call.status(now_is.error());
    // A chown() that changes no owner counts as a change all the same. The kernel also sends one
    // before a write to a set-id file by another user than the owner: if such a user may not clear
    // the bits by chown(), the write itself clears them.
    const bool stranger = credentials.uid != 0 && credentials.uid != now_is->uid;
    const bool before_write = nothing && stranger && (now_is->mode & (S_ISUID | S_ISGID)) != 0;
    changes.chown_to_nobody = nothing;
    credentials = by_owner ? call.owner_credentials(*now_is) : call.credentials_for(*now_is);
    if (before_write) {
      credentials = call.enforced_credentials();
      const auto taken = front.files.set_attributes(credentials, id, changes, front.cache);
      const bool may_not = !taken && taken.error() == Code::not_permitted;
      if (!taken && !may_not) return call.status(taken.error());
      return call.attributes(may_not ? *now_is : *taken);
    }
  }
  const auto changed = front.files.set_attributes(credentials, id, changes, front.cache);
  if (!changed) return call.status(changed.error());
  call.attributes(*changed);
}

namespace {

// What a quota leaves is what there is, where that is less.
void bound_by(const meta::Quota& quota, struct statvfs& out) {
  const auto left = [](uint64_t limit, uint64_t used) { return limit > used ? limit - used : 0; };
  if (quota.limits.bytes != 0) {
    const fsblkcnt_t blocks = quota.limits.bytes / limits::kBlockBytes;
    const fsblkcnt_t free = left(quota.limits.bytes, quota.used.bytes) / limits::kBlockBytes;
    out.f_blocks = std::min(out.f_blocks, blocks);
    out.f_bfree = out.f_bavail = std::min(out.f_bfree, free);
  }
  if (quota.limits.inodes != 0) {
    const fsfilcnt_t free = left(quota.limits.inodes, quota.used.inodes);
    out.f_files = std::min<fsfilcnt_t>(out.f_files, quota.limits.inodes);
    out.f_ffree = out.f_favail = std::min(out.f_ffree, free);
  }
}

}  // namespace

void statistics(Call& call, fuse_ino_t inode) {
  const client::FileSystemStatus status = call.front().files.status();
  struct statvfs out {};
  out.f_bsize = limits::kBlockBytes;
  out.f_frsize = limits::kBlockBytes;
  out.f_blocks = status.total_bytes / limits::kBlockBytes;
  out.f_bfree = std::min(status.free_bytes, status.total_bytes) / limits::kBlockBytes;
  out.f_bavail = out.f_bfree;
  // Inodes live in the database; each needs about a block there at most.
  out.f_files = status.inodes + out.f_bfree;
  out.f_ffree = out.f_bfree;
  out.f_favail = out.f_bfree;
  out.f_namemax = limits::kNameBytesMax;
  if (!is_virtual(inode)) {
    const auto quota = call.front().files.quota_of(InodeId{inode});
    if (quota && *quota) bound_by(**quota, out);
  }
  call.statistics(out);
}

void set_xattr(Call& call, fuse_ino_t inode, const char* name, const char* value, size_t size,
               int flags) {
  if (is_virtual(inode)) return call.error(EPERM);
  const int known = XATTR_CREATE | XATTR_REPLACE;
  if ((flags & ~known) || (flags & known) == known) return call.error(EINVAL);
  const auto mode = flags & XATTR_CREATE    ? meta::XattrMode::create
                    : flags & XATTR_REPLACE ? meta::XattrMode::replace
                                            : meta::XattrMode::any;
  Front& front = call.front();
  const InodeId id{inode};
  front.cache->touch(id);
  const auto who = credentials_for_xattr(call, id, name);
  if (!who) return call.status(who.error());
  call.status(front.files.set_xattr(*who, id, name, {value, size}, mode, front.cache));
}

void get_xattr(Call& call, fuse_ino_t inode, const char* name, size_t size) {
  if (is_virtual(inode)) return call.error(ENODATA);
  xattr_counter().add();
  const auto value = call.front().files.get_xattr(call.credentials(), InodeId{inode}, name);
  if (!value) return call.status(value.error());
  reply_xattr(call, *value, size);
}

void list_xattrs(Call& call, fuse_ino_t inode, size_t size) {
  if (is_virtual(inode)) return reply_xattr(call, "", size);
  const auto names = call.front().files.meta().list_xattrs(call.credentials(), InodeId{inode});
  if (!names) return call.status(names.error());
  std::string all;
  for (const std::string& name : *names) all.append(name).push_back('\0');
  reply_xattr(call, all, size);
}

void remove_xattr(Call& call, fuse_ino_t inode, const char* name) {
  if (is_virtual(inode)) return call.error(EPERM);
  Front& front = call.front();
  const InodeId id{inode};
  front.cache->touch(id);
  const auto who = credentials_for_xattr(call, id, name);
  if (!who) return call.status(who.error());
  call.status(front.files.remove_xattr(*who, id, name, front.cache));
}

}  // namespace penstock::fuse
