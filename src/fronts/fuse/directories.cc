// Operations on open directories. Cookies are the namespace's own, stable ones. Of a listing only
// its end is kept: a program that makes a file for each one that it lists would never come to the
// end if new files were listed, too.
#include "limits.h"
#include "operations.h"
#include "session.h"

#include <algorithm>
#include <cstring>

namespace penstock::fuse {
namespace {

// Cookies of the two names that every directory has; the namespace's own begin above.
constexpr off_t kSelfCookie = 1;
constexpr off_t kParentCookie = 2;
static_assert(kParentCookie < static_cast<off_t>(meta::kCookieMin));

// Fills the reply: the worker's memory, as far as the kernel has room.
class Listing {
 public:
  Listing(Call& call, size_t size)
      : call_(call),
        memory_(reinterpret_cast<char*>(Session::reply_memory())),
        room_(std::min(size, kRequestBytesMax)) {}

  // False when the entry does not fit any more.
  bool add(const std::string& name, uint64_t inode, mode_t type, off_t cookie) {
    struct stat stat {};
    stat.st_ino = inode;
    stat.st_mode = type;
    return took(fuse_add_direntry(call_.request(), at(), left(), name.c_str(), &stat, cookie));
  }
  bool add(const std::string& name, const fuse_entry_param& entry, off_t cookie) {
    return took(
        fuse_add_direntry_plus(call_.request(), at(), left(), name.c_str(), &entry, cookie));
  }
  bool reply() { return call_.data(memory_, used_); }

 private:
  char* at() { return memory_ + used_; }
  size_t left() const { return room_ - used_; }
  bool took(size_t bytes) {
    if (bytes > left()) return false;
    used_ += bytes;
    return true;
  }

  Call& call_;
  char* const memory_;
  const size_t room_;
  size_t used_ = 0;
};

// An entry without attributes: the kernel takes no reference.
fuse_entry_param name_only(uint64_t inode, mode_t type) {
  fuse_entry_param entry{};
  entry.attr.st_ino = inode;
  entry.attr.st_mode = type;
  return entry;
}

bool add_dots(Call& call, Listing& listing, InodeId directory, off_t offset, bool plus) {
  const auto add = [&](const char* name, uint64_t inode, off_t cookie) {
    return plus ? listing.add(name, name_only(inode, S_IFDIR), cookie)
                : listing.add(name, inode, S_IFDIR, cookie);
  };
  if (offset < kSelfCookie && !add(".", directory.value, kSelfCookie)) return false;
  if (offset >= kParentCookie) return true;
  const auto parent = call.front().files.lookup(call.credentials(), directory, "..");
  return add("..", parent ? parent->inode.value : directory.value, kParentCookie);
}

void end_at_newest(Front& front, Handle& handle) {
  handle.last_cookie.store(front.files.meta().newest_cookie(), std::memory_order_relaxed);
}

void begin_listing(Front& front, InodeId directory, Handle& handle) {
  end_at_newest(front, handle);
  front.files.note_access(directory, front.options.access_times());
}

// The next entries after `offset`. What does not fit into the reply is read again by the next call,
// so few more are asked for than can fit.
Result<std::vector<meta::DirectoryEntry>> next_entries(Call& call, InodeId directory,
                                                       const Handle& handle, off_t offset,
                                                       size_t count) {
  Front& front = call.front();
  const VirtualDirectory* virtual_directory = front.virtual_directory;
  const uint64_t after = offset <= kParentCookie ? 0 : static_cast<uint64_t>(offset);
  const uint64_t last = handle.last_cookie.load(std::memory_order_relaxed);
  std::vector<meta::DirectoryEntry> entries;
  TRY(front.files.meta().read_directory(
      directory, after, std::clamp(count, size_t{2}, kDirectoryBatchMax), false,
      [&](const meta::DirectoryEntry& entry, const meta::Attributes*) {
        if (entry.cookie > last) return false;
        const bool hidden =
            virtual_directory && virtual_directory->is_its_name(directory, entry.name.c_str());
        if (!hidden) entries.push_back(entry);
        return true;
      }));
  return entries;
}

// References that a reply gives to the kernel, from before their attributes are read until it has
// arrived or not.
class GivenEntries {
 public:
  GivenEntries(KernelCache& cache, size_t count_max) : cache_(cache) { inodes_.reserve(count_max); }
  ~GivenEntries() {
    for (const InodeId inode : inodes_) cache_.end_entry(inode, delivered_);
  }
  GivenEntries(const GivenEntries&) = delete;
  GivenEntries& operator=(const GivenEntries&) = delete;

  void begin(InodeId inode) {
    cache_.begin_entry(inode);
    inodes_.push_back(inode);
  }
  void drop_last() {
    cache_.end_entry(inodes_.back(), false);
    inodes_.pop_back();
  }
  void delivered(bool delivered) { delivered_ = delivered; }

 private:
  KernelCache& cache_;
  std::vector<InodeId> inodes_;
  bool delivered_ = false;
};

// False when it does not fit.
bool add_with_attributes(Front& front, Listing& listing, const meta::DirectoryEntry& entry,
                         GivenEntries& given) {
  const auto cookie = static_cast<off_t>(entry.cookie);
  given.begin(entry.inode);
  const auto attributes = front.files.attributes(entry.inode);
  if (attributes && listing.add(entry.name, to_entry(*attributes, front), cookie)) return true;
  given.drop_last();
  if (attributes) return false;
  // Removed meanwhile, or not readable: the name alone, so that listing goes on.
  return listing.add(entry.name, name_only(entry.inode.value, meta::type_bits(entry.type)), cookie);
}

// The virtual directory has no cookies of its own: positions will do, as its lists are short.
void read_virtual_directory(Call& call, fuse_ino_t inode, size_t size, off_t offset, bool plus) {
  VirtualDirectory* directory = call.front().virtual_directory;
  if (!directory) return call.error(ENOENT);
  Listing listing(call, size);
  const auto entries = directory->list(call, inode);
  for (size_t i = offset < 0 ? 0 : static_cast<size_t>(offset); i < entries.size(); i++) {
    const VirtualEntry& entry = entries[i];
    const auto cookie = static_cast<off_t>(i + 1);
    const bool added = plus ? listing.add(entry.name, name_only(entry.inode, entry.type), cookie)
                            : listing.add(entry.name, entry.inode, entry.type, cookie);
    if (!added) break;
  }
  listing.reply();
}

}  // namespace

void open_directory(Call& call, fuse_ino_t inode, fuse_file_info*) {
  Front& front = call.front();
  if (!is_virtual(inode)) {
    const Status may = front.files.begin_listing(call.credentials(), InodeId{inode});
    if (!may.ok()) return call.status(may);
  }
  fuse_file_info reply{};
  reply.fh = front.handles.add(nullptr);
  // A server of NFS goes on at a cookie with a fresh handle each time.
  end_at_newest(front, HandleTable::get(reply.fh));
  if (!call.open(reply)) front.handles.remove(reply.fh);
}

void release_directory(Call& call, fuse_ino_t, fuse_file_info* info) {
  call.front().handles.remove(info->fh);
  call.error(0);
}

void read_directory(Call& call, fuse_ino_t inode, size_t size, off_t offset, fuse_file_info* info) {
  if (is_virtual(inode)) return read_virtual_directory(call, inode, size, offset, false);
  Front& front = call.front();
  Listing listing(call, size);
  const InodeId directory{inode};
  front.cache->touch(directory);
  Handle& handle = HandleTable::get(info->fh);
  if (offset == 0) begin_listing(front, directory, handle);
  if (!add_dots(call, listing, directory, offset, false)) {
    listing.reply();
    return;
  }
  constexpr size_t kTypicalBytes = 40;
  const auto entries = next_entries(call, directory, handle, offset, size / kTypicalBytes);
  if (!entries) return call.status(entries.error());
  front.files.listed(directory, *entries, false);
  for (const meta::DirectoryEntry& entry : *entries) {
    if (!listing.add(entry.name, entry.inode.value, meta::type_bits(entry.type),
                     static_cast<off_t>(entry.cookie))) {
      break;
    }
  }
  listing.reply();
}

void read_directory_plus(Call& call, fuse_ino_t inode, size_t size, off_t offset,
                         fuse_file_info* info) {
  if (is_virtual(inode)) return read_virtual_directory(call, inode, size, offset, true);
  Front& front = call.front();
  Listing listing(call, size);
  const InodeId directory{inode};
  front.cache->touch(directory);
  Handle& handle = HandleTable::get(info->fh);
  if (offset == 0) begin_listing(front, directory, handle);
  if (!add_dots(call, listing, directory, offset, true)) {
    listing.reply();
    return;
  }
  constexpr size_t kTypicalBytes = 168;
  const auto entries = next_entries(call, directory, handle, offset, size / kTypicalBytes);
  if (!entries) return call.status(entries.error());
  front.files.listed(directory, *entries, true);
  GivenEntries given(*front.cache, entries->size());
  for (const meta::DirectoryEntry& entry : *entries) {
    if (!add_with_attributes(front, listing, entry, given)) break;
  }
  given.delivered(listing.reply());
}

void sync_directory(Call& call, fuse_ino_t inode, int, fuse_file_info*) {
  if (is_virtual(inode)) return call.error(0);
  call.status(call.front().files.meta().sync());
}

}  // namespace penstock::fuse
