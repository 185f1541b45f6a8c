// Operations on open files.
#include "limits.h"
#include "lock_requests.h"
#include "newer_requests.h"
#include "operations.h"
#include "session.h"

#include <cstring>
#include <fcntl.h>
#include <linux/falloc.h>
#include <unistd.h>

namespace penstock::fuse {
namespace {

metrics::Counter& read_counter() {
  static metrics::Counter counter("fuse.read.bytes");
  return counter;
}
metrics::Counter& write_counter() {
  static metrics::Counter counter("fuse.write.bytes");
  return counter;
}

client::OpenFlags to_flags(int flags) {
  client::OpenFlags out;
  const int access = flags & O_ACCMODE;
  out.read = access == O_RDONLY || access == O_RDWR;
  out.write = access == O_WRONLY || access == O_RDWR;
  out.truncate = (flags & O_TRUNC) != 0;
  out.append = (flags & O_APPEND) != 0;
  return out;
}

client::AccessTimes::Mode access_mode(const Front& front, int flags) {
  return (flags & O_NOATIME) != 0 ? client::AccessTimes::Mode::none
                                  : front.options.access_times().mode;
}

fuse_file_info opened(Front& front, client::FileRef file) {
  fuse_file_info info{};
  const bool writes = client::may_write(*file);
  info.fh = front.handles.add(std::move(file));
  // Pages are dropped when they become stale, not when a file is opened.
  info.keep_cache = !front.is_shared;
  info.direct_io = front.is_shared;
  // Closing it has nothing to wait for, and no locks that are ours to end.
  info.noflush = !writes && front.locks == nullptr;
  return info;
}

// The kernel must not hide from us the read that changes the time of access.
void see_access(Front& front, InodeId inode, int flags, fuse_file_info& reply) {
  const client::FileRef& file = HandleTable::get(reply.fh).file;
  if (!client::may_read(*file) || !client::access_is_due(*file)) return;
  if (client::length_of(*file) <= kReadAgainBytesMax) {
    reply.keep_cache = 0;
  } else if ((flags & O_ACCMODE) == O_RDONLY) {
    front.files.note_access(inode, front.options.access_times());
  }
}

void close_undelivered(Front& front, const fuse_file_info& info) {
  if (client::FileRef file = front.handles.remove(info.fh)) {
    const Status status = front.files.close_file(std::move(file));
    if (!status.ok()) log::warning("mount: closing a file: {}", status.name());
  }
}

const client::FileWriter* pointer_to(const std::optional<client::FileWriter>& writer) {
  return writer ? &*writer : nullptr;
}

// While a request changes a file's bytes: at its end the kernel hears of what that has taken from
// the file, as the reply says nothing of it.
class TellWhatIsTaken {
 public:
  TellWhatIsTaken(Front& front, const client::FileRef& file)
      : front_(front), file_(file), before_(client::privileges_taken(*file)) {}
  ~TellWhatIsTaken() {
    if (client::privileges_taken(*file_) == before_) [[likely]]
      return;
    front_.cache->attributes_changed(client::inode_of(*file_));
  }
  TellWhatIsTaken(const TellWhatIsTaken&) = delete;
  TellWhatIsTaken& operator=(const TellWhatIsTaken&) = delete;

 private:
  Front& front_;
  const client::FileRef& file_;
  const uint32_t before_;
};

Status extend(Call& call, const client::FileRef& file, uint64_t end) {
  if (end <= client::length_of(*file)) return {};
  meta::SetAttributes changes;
  changes.length = end;
  // The privileges that a change takes were taken by touch() or punch().
  changes.keeps_set_ids = true;
  Front& front = call.front();
  const InodeId inode = client::inode_of(*file);
  return front.files.set_attributes(call.credentials(), inode, changes, front.cache).has_value()
             ? Status()
             : Status(Code::no_space);
}

// Room that removed files still hold is made free first.
bool has_room(Front& front, uint64_t bytes) {
  constexpr size_t kFilesAtOnce = 256;
  while (bytes > front.files.status().free_bytes) {
    const Result<uint64_t> collected = front.files.collect(kFilesAtOnce);
    if (!collected || *collected == 0) return false;
  }
  return true;
}

struct Range {
  uint64_t begin = 0;
  uint64_t count = 0;
};

Status allocate_in(Call& call, const client::FileRef& file, int mode, Range range) {
  Front& front = call.front();
  // The kernel does not say whether this caller's write keeps set-id bits.
  const auto writer = call.writer(*file, call.credentials().uid == 0);
  const TellWhatIsTaken telling(front, file);
  const bool keep = (mode & FALLOC_FL_KEEP_SIZE) != 0;
  const int what = mode & ~FALLOC_FL_KEEP_SIZE;
  const auto punch = [&] {
    return front.files.punch(file, range.begin, range.count, front.cache, pointer_to(writer));
  };
  if (what == FALLOC_FL_PUNCH_HOLE && keep) return punch();
  if (what == FALLOC_FL_ZERO_RANGE) {
    TRY(punch());
    return keep ? Status() : extend(call, file, range.begin + range.count);
  }
  if (what != 0) return Code::not_supported;
  // Every update is written to new blocks, so none can be reserved for a file; what can be promised
  // is that there is room now.
  if (!has_room(front, range.count)) return Code::no_space;
  TRY(front.files.touch(file, front.cache, pointer_to(writer)));
  return keep ? Status() : extend(call, file, range.begin + range.count);
}

}  // namespace

void open(Call& call, fuse_ino_t inode, fuse_file_info* info) {
  if (is_virtual(inode)) return call.error(EPERM);
  Front& front = call.front();
  const InodeId id{inode};
  front.cache->touch(id);
  // The kernel truncates with a request of its own.
  client::OpenFlags flags = to_flags(info->flags);
  flags.truncate = false;
  flags.accesses = access_mode(front, info->flags);
  auto file = front.files.open_inode(call.credentials(), id, flags, false, front.cache);
  if (!file) return call.status(file.error());
  fuse_file_info reply = opened(front, std::move(*file));
  see_access(front, id, info->flags, reply);
  if (!call.open(reply)) close_undelivered(front, reply);
}

void create(Call& call, fuse_ino_t parent, const char* name, mode_t mode, fuse_file_info* info) {
  Front& front = call.front();
  const VirtualDirectory* directory = front.virtual_directory;
  if (is_virtual(parent)) return call.error(EPERM);
  if (directory && directory->is_its_name(InodeId{parent}, name)) return call.error(EISDIR);
  front.cache->touch(InodeId{parent});
  client::OpenFlags flags = to_flags(info->flags);
  flags.create = flags.exclusive = true;
  flags.truncate = false;  // what is new is empty
  flags.accesses = access_mode(front, info->flags);
  meta::Attributes attributes;
  const bool unnamed = std::strcmp(name, kUnnamed) == 0;
  auto file = unnamed ? front.files.open_unnamed(call.credentials(), InodeId{parent}, flags,
                                                 mode & 07777, &attributes, front.cache)
                      : front.files.open_name(call.credentials(), InodeId{parent}, name, flags,
                                              mode & 07777, {}, false, &attributes, front.cache);
  if (!file && file.error() == Code::already_exists && (info->flags & O_EXCL) == 0) {
    // The file was made since the kernel looked for it. The kernel would take it for new, and check
    // no right to it: told that its look-up is stale, it looks again, and opens what is there.
    return call.error(ESTALE);
  }
  if (!file) return call.status(file.error());
  const fuse_file_info reply = opened(front, std::move(*file));
  if (!reply_created(call, attributes, reply)) close_undelivered(front, reply);
}

void read(Call& call, fuse_ino_t inode, size_t size, off_t offset, fuse_file_info* info) {
  if (size > kRequestBytesMax || offset < 0) return call.error(EINVAL);
  Front& front = call.front();
  front.cache->touch(InodeId{inode});
  // Straight from the disk into this memory, and from there to the kernel: the one copy that a
  // mount costs.
  const engine::MemoryRef memory{Session::reply_memory(), size};
  const auto got =
      front.files.read(HandleTable::get(info->fh).file, static_cast<uint64_t>(offset), memory);
  if (!got) return call.status(got.error());
  read_counter().add(*got);
  call.data(memory.data, *got);
}

void write(Call& call, fuse_ino_t inode, const char* bytes, size_t size, off_t offset,
           fuse_file_info* info) {
  if (offset < 0) return call.error(EINVAL);
  Front& front = call.front();
  const InodeId id{inode};
  front.cache->touch(id);
  const client::FileRef& file = HandleTable::get(info->fh).file;
  const auto position = static_cast<uint64_t>(offset);
  const bool appends = (info->flags & O_APPEND) && !info->writepage;
  // The bytes stand where the kernel copied them to, on a page boundary (see kRequestHeaderBytes).
  // The seam has one type of memory for both directions; a write does not change it.
  const engine::MemoryRef memory{reinterpret_cast<std::byte*>(const_cast<char*>(bytes)), size};
  // Writes that ask for the disk are not gathered, nor are pages that the kernel writes back.
  const bool at_once = (info->flags & (O_DIRECT | O_DSYNC | O_SYNC)) != 0 || info->writepage;
  // Storing to a mapping takes nothing from a file.
  const auto writer = info->writepage ? std::nullopt : call.writer(*file, !request_takes_set_ids());
  bool moved = false;
  const auto put = [&]() -> Result<uint64_t> {
    const TellWhatIsTaken telling(front, file);
    if (appends) {
      // The kernel appends at the end that it knows; another writer may have moved it meanwhile.
      TRY_ASSIGN(const auto appended,
                 front.files.append(file, memory, !at_once, front.cache, pointer_to(writer)));
      moved = appended.offset != position;
      return appended.bytes;
    }
    return at_once
               ? front.files.write(file, position, memory, false, front.cache, pointer_to(writer))
               : front.files.write_soon(file, position, memory, front.cache, pointer_to(writer));
  }();
  if (!put) return call.status(put.error());
  write_counter().add(*put);
  call.written(*put);
  // The kernel now has these bytes at another offset than the file.
  if (moved) front.cache->data_changed(id, 0, UINT64_MAX, [] {});
}

void release(Call& call, fuse_ino_t, fuse_file_info* info) {
  Front& front = call.front();
  // The kernel passes no error of a release on: a program that wants to know calls fsync() before.
  if (client::FileRef file = front.handles.remove(info->fh)) {
    if (front.locks != nullptr) front.locks->closed(file);
    const Status status = front.files.close_file(std::move(file));
    if (!status.ok()) log::warning("mount: closing a file: {}", status.name());
  }
  call.error(0);
}

void flush(Call& call, fuse_ino_t inode, fuse_file_info* info) {
  Front& front = call.front();
  const Status flushed = front.files.flush_file(HandleTable::get(info->fh).file);
  if (front.locks == nullptr) return call.status(flushed);
  // Closing any of a process's descriptors of the file ends its locks there.
  front.locks->release(call.answered_later(), InodeId{inode}, info->lock_owner, flushed);
}

void sync(Call& call, fuse_ino_t, int only_data, fuse_file_info* info) {
  const client::FileRef& file = HandleTable::get(info->fh).file;
  call.status(call.front().files.sync_file(file, only_data != 0));
}

void seek(Call& call, fuse_ino_t, off_t offset, int whence, fuse_file_info* info) {
  const bool hole = whence == SEEK_HOLE;
  if (!hole && whence != SEEK_DATA) return call.error(EINVAL);
  if (offset < 0) return call.error(ENXIO);
  const client::FileRef& file = HandleTable::get(info->fh).file;
  const auto found = call.front().files.seek(file, static_cast<uint64_t>(offset), hole);
  if (!found && found.error().code() == Code::no_data) return call.error(ENXIO);
  if (!found) return call.status(found.error());
  call.found_at(static_cast<off_t>(*found));
}

void allocate(Call& call, fuse_ino_t inode, int mode, off_t offset, off_t length,
              fuse_file_info* info) {
  if (offset < 0 || length <= 0) return call.error(EINVAL);
  const auto begin = static_cast<uint64_t>(offset);
  const auto count = static_cast<uint64_t>(length);
  if (!range_within(begin, count, limits::kFileBytesMax)) return call.error(EFBIG);
  Front& front = call.front();
  const InodeId id{inode};
  front.cache->touch(id);
  const client::FileRef& file = HandleTable::get(info->fh).file;
  call.status(allocate_in(call, file, mode, {begin, count}));
}

}  // namespace penstock::fuse
