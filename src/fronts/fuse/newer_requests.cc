#include "newer_requests.h"

#include "call.h"
#include "virtual_directory.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <linux/fuse.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <utility>

namespace penstock::fuse {
namespace {

// As in linux/fuse.h, of which Debian 12 has an older one.
constexpr uint32_t kTmpfile = 51;
constexpr uint32_t kStatx = 52;

struct StatxTime {
  int64_t seconds = 0;
  uint32_t nanoseconds = 0;
  int32_t reserved = 0;
};
struct StatxReply {
  uint64_t valid_seconds = 0;
  uint32_t valid_nanoseconds = 0;
  uint32_t flags = 0;
  uint64_t spare[2] = {};
  uint32_t mask = 0;
  uint32_t block_bytes = 0;
  uint64_t attributes = 0;
  uint32_t links = 0;
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint16_t mode = 0;
  uint16_t spare_mode = 0;
  uint64_t inode = 0;
  uint64_t length = 0;
  uint64_t blocks = 0;
  uint64_t attributes_mask = 0;
  StatxTime accessed, created, changed, modified;
  uint32_t device_major = 0;
  uint32_t device_minor = 0;
  uint32_t file_system_major = 0;
  uint32_t file_system_minor = 0;
  uint64_t more_spare[14] = {};
};
static_assert(sizeof(StatxTime) == 16 && sizeof(StatxReply) == 288);

// Of the request that this thread serves.
thread_local bool takes_set_ids = false;
// Of the INIT of a kernel that this thread serves: it leaves it to the node to take privileges; it
// lets files be mapped whose reads it does not keep, where that is wanted.
thread_local bool offers_privileges = false;
thread_local bool maps_direct_files = false;

// As in linux/fuse.h, of which Debian 12 has an older one: of the second half of the flags.
constexpr uint32_t kDirectFilesMayBeMapped = 1u << 4;

template <class T>
T part_of(std::span<const std::byte> request) {
  T part{};
  const size_t at = sizeof(fuse_in_header);
  const size_t bytes = std::min(sizeof part, request.size() - at);
  std::memcpy(&part, request.data() + at, bytes);
  return part;
}

// Notes flags of a request that libfuse drops.
void note_flags(Front& front, uint32_t opcode, std::span<const std::byte> request) {
  takes_set_ids = false;
  if (opcode == FUSE_WRITE) {
    const auto write = part_of<fuse_write_in>(request);
    takes_set_ids = (write.write_flags & FUSE_WRITE_KILL_SUIDGID) != 0;
  } else if (opcode == FUSE_SETATTR) {
    const auto change = part_of<fuse_setattr_in>(request);
    takes_set_ids = (change.valid & FATTR_KILL_SUIDGID) != 0;
  } else if (opcode == FUSE_INIT) {
    const auto init = part_of<fuse_init_in>(request);
    offers_privileges = (init.flags & FUSE_HANDLE_KILLPRIV_V2) != 0;
    front.takes_privileges.store(offers_privileges, std::memory_order_relaxed);
    maps_direct_files = front.is_shared && (init.flags & FUSE_INIT_EXT) != 0 &&
                        (init.flags2 & kDirectFilesMayBeMapped) != 0;
  }
}

StatxTime to_statx_time(const timespec& time) {
  return {time.tv_sec, static_cast<uint32_t>(time.tv_nsec), 0};
}

StatxReply to_reply(const struct stat& stat) {
  StatxReply reply;
  reply.mask = STATX_BASIC_STATS;
  reply.block_bytes = static_cast<uint32_t>(stat.st_blksize);
  reply.links = static_cast<uint32_t>(stat.st_nlink);
  reply.uid = stat.st_uid;
  reply.gid = stat.st_gid;
  reply.mode = static_cast<uint16_t>(stat.st_mode);
  reply.inode = stat.st_ino;
  reply.length = static_cast<uint64_t>(stat.st_size);
  reply.blocks = static_cast<uint64_t>(stat.st_blocks);
  reply.accessed = to_statx_time(stat.st_atim);
  reply.changed = to_statx_time(stat.st_ctim);
  reply.modified = to_statx_time(stat.st_mtim);
  reply.device_major = major(stat.st_rdev);
  reply.device_minor = minor(stat.st_rdev);
  return reply;
}

// An errno, or 0 with the attributes.
int find_attributes(Front& front, uint64_t inode, StatxReply& reply) {
  if (is_virtual(inode)) {
    if (front.virtual_directory == nullptr) return ENOENT;
    const std::optional<struct stat> stat = front.virtual_directory->attributes_of(inode);
    if (!stat) return ENOENT;
    reply = to_reply(*stat);
    return 0;
  }
  front.cache->touch(InodeId{inode});
  const auto attributes = front.files.attributes(InodeId{inode});
  if (!attributes) return attributes.error().to_errno();
  reply = to_reply(to_stat(*attributes));
  reply.valid_seconds = static_cast<uint64_t>(front.cache_seconds);
  reply.mask |= STATX_BTIME;
  reply.created = {attributes->created.seconds(),
                   static_cast<uint32_t>(attributes->created.nanoseconds()), 0};
  return 0;
}

void reply_attributes(Front& front, int device, const fuse_in_header& request) {
  StatxReply reply;
  int error = 0;
  try {
    error = find_attributes(front, request.nodeid, reply);
  } catch (const std::bad_alloc&) {
    error = ENOMEM;
  }
  fuse_out_header header{};
  header.unique = request.unique;
  header.error = -error;
  header.len = sizeof header + (error == 0 ? sizeof reply : 0);
  iovec parts[2] = {{&header, sizeof header}, {&reply, sizeof reply}};
  // A reply that cannot be written is dropped: the caller was interrupted or the mount is gone.
  (void)!::writev(device, parts, error == 0 ? 2 : 1);
}

}  // namespace

bool serve_newer_request(void* context, int device, std::span<std::byte> request) {
  fuse_in_header header;
  if (request.size() < sizeof header) return false;
  std::memcpy(&header, request.data(), sizeof header);
  note_flags(*static_cast<Front*>(context), header.opcode, request);
  if (header.opcode == kTmpfile) {
    // The same fields and the same reply as for making a file, with the name "/".
    header.opcode = FUSE_CREATE;
    std::memcpy(request.data(), &header, sizeof header);
    return false;
  }
  if (header.opcode != kStatx) return false;
  reply_attributes(*static_cast<Front*>(context), device, header);
  return true;
}

void amend_reply(std::span<const iovec> parts) {
  const bool takes = std::exchange(offers_privileges, false);
  const bool maps = std::exchange(maps_direct_files, false);
  if (!takes && !maps) [[likely]]
    return;
  // The header, and what it is about; an error has no more than the header.
  if (parts.size() < 2 || parts[1].iov_len < sizeof(fuse_init_out)) return;
  fuse_init_out init;
  std::memcpy(&init, parts[1].iov_base, sizeof init);
  if (takes) init.flags |= FUSE_HANDLE_KILLPRIV_V2;
  if (maps) {
    init.flags |= FUSE_INIT_EXT;
    init.flags2 |= kDirectFilesMayBeMapped;
  }
  std::memcpy(parts[1].iov_base, &init, sizeof init);
}

bool request_takes_set_ids() {
  return takes_set_ids;
}

}  // namespace penstock::fuse
