// The file system: names that lead to open files, whose bytes the clients of shards move.
//
// A node has one FileSystem, shared by all its fronts and threads, and one Client per shard. The
// FileSystem is for threads that may block (mount workers, control sockets, commands); a Client
// moves bytes without blocking, from its shard's loop.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/client/layout.h"
#include "penstock/engine.h"
#include "penstock/meta.h"
#include "penstock/open_files.h"
#include "penstock/shards.h"

namespace penstock::client {

using meta::Attributes;
using meta::Credentials;
using meta::FileWriter;

// Of the libraries below, what everybody who has a file system handles.
using inodes::AccessTimes;
using inodes::ByteRange;
using inodes::ChainTable;
using inodes::FileRef;
using inodes::kObserversMax;
using inodes::kRecordsInode;
using inodes::Observer;
using inodes::OpenFile;
using inodes::Shard;
using shards::Allowance;
using shards::Client;
using shards::Flow;
using shards::IoKind;
using shards::IoOp;
using shards::kIoOpsMax;
using shards::kWeightMax;
using shards::Terms;
using shards::Traffic;

using inodes::access_is_due;
using inodes::inode_of;
using inodes::length_of;
using inodes::locks_of;
using inodes::may_lose_privileges;
using inodes::may_read;
using inodes::may_write;
using inodes::privileges_taken;

using FileSystemConfig = inodes::Config;

struct OpenFlags {
  bool read = true;
  bool write = false;
  bool create = false;
  bool exclusive = false;
  bool truncate = false;
  bool append = false;  // the opener writes to the end only; for files that only grow
  AccessTimes::Mode accesses = AccessTimes::Mode::relative;
};

// A file on its way into the file system, content first.
struct NewFile {
  // What the caller wants. Its changes are made by the same user, behind everything else.
  std::string_view path;
  uint32_t mode = 0;
  meta::SetAttributes changes;  // no length
  bool replace = false;         // what has the name, unless that is a directory

  // From place_files() to make_files(): open for writing, where that has not failed. A status that
  // the caller sets in between ends it: nothing of it stays.
  Status status;
  FileRef file;
  meta::NewFile place;
};

struct FileSystemStatus {
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;
  uint64_t inodes = 0;
  uint64_t open_files = 0;
  uint64_t removed_waiting = 0;  // inodes whose chunks are yet to be removed
};

// Thread safe. Blocking: never call it from a loop's thread. All names and paths are foreign input
// and are checked here. `self` is the calling front's own observer, which is not told of the
// change; null for all others.
class FileSystem {
 public:
  // Settles what a dead process left open and starts collecting removed files.
  static Outcome<std::unique_ptr<FileSystem>> open(meta::Meta& meta, FileSystemConfig config);
  virtual ~FileSystem() = default;
  // Settles all open files, stops the collector. Every later call fails with closed. The loops must
  // still run; the object is destroyed after every IoOp has ended and the loops have stopped.
  // References to open files may outlive it.
  virtual void close() = 0;

  // What config.holding is to tell of the holds that come and go, from when its lease begins until
  // after close(); there are none without one.
  virtual holds::Keeping& keeping() = 0;
  // Other nodes have the same files: names and attributes are true for the moment only, and what is
  // kept of an inode until Observer::inode_recalled().
  virtual bool is_shared() const = 0;
  // This node is limited in what it does: calls have to say the groups of users, too, as whoever
  // has the names checks what a kernel has checked already.
  virtual bool is_limited() const = 0;
  // What listing a directory by its number begins with there: whether that user may list it.
  virtual Status begin_listing(const Credentials&, InodeId directory) = 0;
  // A program is being told these entries of a directory; and the attributes of each, which are
  // asked for next. May block.
  virtual void listed(InodeId directory, std::span<const meta::DirectoryEntry> entries,
                      bool with_attributes) = 0;
  // Locks of files for all nodes; null where the file system is not shared. What locks_of() was
  // used for is told by closed() before the file is closed.
  virtual locks::Locking* locking() = 0;
  // How long from now on what is kept may be given out by who cannot ask here.
  virtual engine::Duration lease_left() const = 0;

  // A file that another agent had exclusively that is no more, and has nothing under way to the
  // targets: where its length was not recorded it is as long as its data reach. May block.
  virtual Status settle_lost(InodeId inode) = 0;
  // The same for all files of which that is so: whose writers are on record, and that no other
  // agent has exclusively.
  virtual Status settle_all_lost() = 0;
  // Another agent may have let go of a removed inode. Does not block.
  virtual void unused_elsewhere() = 0;

  // The client of config.shards[shard]; lives as long as the file system.
  virtual Client& client(size_t shard) = 0;

  // Namespace reads that no open file can change go straight there.
  virtual meta::Meta& meta() = 0;

  virtual Result<Attributes> lookup(const Credentials&, InodeId parent, std::string_view name) = 0;
  // Whether this entry may be given to an observer that keeps it until then, or until it hears that
  // it changes. No inode: that there is none. Where the file system is shared.
  virtual bool give_entry(InodeId parent, std::string_view name, InodeId inode,
                          engine::Time until) = 0;
  virtual Result<Attributes> resolve(const Credentials&, std::string_view path, bool follow) = 0;
  // Many paths at once, each as by resolve().
  virtual Result<std::vector<Result<Attributes>>> resolve_many(
      const Credentials&, const std::vector<std::string_view>& paths, bool follow) = 0;
  // Many paths at once, each as if it were opened for reading: its attributes, or why it could not
  // be. In the order of the paths.
  virtual Result<std::vector<Result<Attributes>>> look_for_reading(
      const Credentials&, const std::vector<std::string_view>& paths) = 0;
  // With the length and times of open files as they are at this moment.
  virtual Result<Attributes> attributes(InodeId inode) = 0;
  // A length here truncates or extends the data too.
  virtual Result<Attributes> set_attributes(const Credentials&, InodeId inode,
                                            const meta::SetAttributes&, Observer* self) = 0;

  // `create`, `exclusive` and the layout need parent and name; opening by inode is for fronts that
  // looked it up before. Permission to open is checked when `check` is set (a kernel with
  // default_permissions has checked already).
  virtual Result<FileRef> open_inode(const Credentials&, InodeId inode, OpenFlags flags, bool check,
                                     Observer* self) = 0;
  virtual Result<FileRef> open_name(const Credentials&, InodeId parent, std::string_view name,
                                    OpenFlags flags, uint32_t mode,
                                    std::optional<meta::Layout> layout, bool check,
                                    Attributes* attributes, Observer* self) = 0;
  // A new file without a name in the directory; link() may give it one while it is open.
  virtual Result<FileRef> open_unnamed(const Credentials&, InodeId parent, OpenFlags flags,
                                       uint32_t mode, Attributes* attributes, Observer* self) = 0;
  // Many files that do not exist yet. After the first call they can be written, and no look-up
  // finds them; the second gives them their names, in one transaction, and closes them. Each file
  // whose path was found must come to the second. An error of the whole is also that of each file.
  // What takes the place of another is durable before it does: whatever happens, the name leads to
  // the one or to the other, whole (decision 0033).
  virtual Status place_files(const Credentials&, std::span<NewFile> files) = 0;
  virtual Status make_files(const Credentials&, std::span<NewFile> files, Observer* self) = 0;
  virtual Result<FileRef> open_path(const Credentials&, std::string_view path, OpenFlags flags,
                                    uint32_t mode, std::optional<meta::Layout> layout,
                                    Attributes* attributes) = 0;
  // Settles length and times if this was open for writing; the first error of a write-behind is
  // reported here. The reference must be the last user's.
  virtual Status close_file(FileRef file) = 0;

  virtual Result<uint64_t> read(const FileRef&, uint64_t offset, engine::MemoryRef) = 0;
  // `writer` of this and the following: as IoOp::writer.
  virtual Result<uint64_t> write(const FileRef&, uint64_t offset, engine::MemoryRef, bool durable,
                                 Observer* self, const FileWriter* writer) = 0;
  // As write(), and may keep a small write that goes on where the last one ended in memory for a
  // moment (FileSystemConfig::behind_age). All readers see it at once; that it could not be written
  // to the targets is told once for each open of the file, by sync_file() or flush_file().
  virtual Result<uint64_t> write_soon(const FileRef&, uint64_t offset, engine::MemoryRef,
                                      Observer* self, const FileWriter* writer) = 0;
  // As write(), or with `soon` as write_soon(), to where the file ends when that is written: no two
  // of them, on whatever nodes, write the same bytes of the file.
  struct Appended {
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };
  virtual Result<Appended> append(const FileRef&, engine::MemoryRef, bool soon, Observer* self,
                                  const FileWriter* writer) = 0;
  // What write_soon() took of this file is in the targets, not necessarily durable.
  virtual Status flush_file(const FileRef&) = 0;
  // An application read what is no regular file (or, of one, bytes that did not come from here):
  // its time of access changes as `times` say. Cheap.
  virtual void note_access(InodeId inode, AccessTimes times) = 0;
  // `only_data`: as fdatasync(2).
  virtual Status sync_file(const FileRef&, bool only_data = false) = 0;
  // Everything of all files: data, lengths, names.
  virtual Status sync_all() = 0;
  // The first byte at or behind `offset` that is in a hole (or the end of the file), or that is
  // not. no_data when `offset` is not below the length, or no data follows.
  virtual Result<uint64_t> seek(const FileRef&, uint64_t offset, bool hole) = 0;
  // Zeros from now on; keeps the length.
  virtual Status punch(const FileRef&, uint64_t offset, uint64_t length, Observer* self,
                       const FileWriter* writer) = 0;
  // The file counts as written, though no byte of it is: times, and privileges that are lost.
  virtual Status touch(const FileRef&, Observer* self, const FileWriter* writer) = 0;

  virtual Result<Attributes> make_directory(const Credentials&, InodeId parent,
                                            std::string_view name, uint32_t mode, Observer*) = 0;
  virtual Result<Attributes> make_node(const Credentials&, InodeId parent, std::string_view name,
                                       meta::FileType type, uint32_t mode, uint64_t device,
                                       Observer*) = 0;
  virtual Result<Attributes> make_symlink(const Credentials&, InodeId parent, std::string_view name,
                                          std::string_view target, Observer*) = 0;
  virtual Result<Attributes> link(const Credentials&, InodeId inode, InodeId parent,
                                  std::string_view name, Observer*) = 0;
  virtual Status unlink(const Credentials&, InodeId parent, std::string_view name, Observer*) = 0;
  virtual Status remove_directory(const Credentials&, InodeId parent, std::string_view name,
                                  Observer*) = 0;
  virtual Status rename(const Credentials&, InodeId parent, std::string_view name,
                        InodeId new_parent, std::string_view new_name, meta::RenameFlags flags,
                        Observer*) = 0;
  virtual Status set_xattr(const Credentials&, InodeId inode, std::string_view name,
                           std::string_view value, meta::XattrMode mode, Observer*) = 0;
  virtual Status remove_xattr(const Credentials&, InodeId inode, std::string_view name,
                              Observer*) = 0;
  // Those of meta, and kLayoutXattr and kTablesXattr; the first of these can be set, too.
  virtual Result<std::string> get_xattr(const Credentials&, InodeId inode,
                                        std::string_view name) = 0;

  // What new files in the directory get from now on, and new directories pass on; for its owner.
  // The failure says what is possible: not_supported if no table of chains is as wanted.
  virtual Outcome<Attributes> set_layout(const Credentials&, InodeId directory,
                                         const LayoutChange& change, Observer*) = 0;
  // Which tables there are to choose from at this moment.
  virtual std::vector<ChainTable> tables() = 0;

  // The parent directory and last component of a path; for path-based calls that create or remove.
  struct PathEnd {
    InodeId parent;
    std::string name;
  };
  virtual Result<PathEnd> resolve_parent(const Credentials&, std::string_view path) = 0;

  virtual FileSystemStatus status() = 0;

  // Quotas: see meta::Meta. The right to set them is the caller's to check.
  virtual Status set_quota(meta::QuotaSubject subject, const meta::QuotaLimits& limits,
                           std::string_view path) = 0;
  virtual Status delete_quota(meta::QuotaSubject subject) = 0;
  virtual Result<std::vector<meta::Quota>> quotas() = 0;
  virtual Result<meta::QuotaCheck> check_quota(meta::QuotaSubject subject, bool repair) = 0;
  virtual Result<std::optional<meta::Quota>> quota_of(InodeId inode) = 0;

  // Trash: see meta::Meta. The right to set days, and to empty it, is the caller's to check.
  virtual Status set_trash(InodeId directory, std::optional<uint32_t> days,
                           std::string_view path) = 0;
  virtual Result<meta::TrashDays> trash_of(InodeId inode) = 0;
  virtual Result<std::vector<meta::TrashSetting>> trash_settings() = 0;
  virtual Result<meta::TrashEmptied> empty_trash(InodeId hour, uint64_t after, size_t limit) = 0;

  // Removes the chunks of removed files that no open uses, of at most `limit` files; returns how
  // many. A thread of the file system does so whenever something was removed; this is for a front
  // whose write found the disk full.
  virtual Result<uint64_t> collect(size_t limit) = 0;

  // Another file system over the same names took the last name of an inode, or made it without one;
  // or gave it its first name. For the one that owns recovery, which removes it in time.
  virtual void orphaned_elsewhere(InodeId inode) = 0;
  virtual void named_elsewhere(InodeId inode) = 0;

  // At most kObserversMax at a time; an observer must not be removed while one of its own calls is
  // in progress, and hears nothing any more once remove_observer() has returned.
  virtual void add_observer(Observer& observer) = 0;
  virtual void remove_observer(Observer& observer) = 0;
  // From now on the observer is told of changes to this inode (for a directory: its entries), until
  // unwatch(). Opening with `self` set watches, too. A mount watches what its kernel knows: from
  // the first lookup to the kernel's FORGET. Nothing is paid for inodes that no observer watches.
  virtual void watch(InodeId inode, Observer& observer) = 0;
  virtual void unwatch(InodeId inode, Observer& observer) = 0;
  // For an observer that hears of beginnings, watches the file, and is about to read bytes that
  // others will find without asking: what is being changed at this moment. What begins later it is
  // told of. Does not block.
  virtual std::vector<ByteRange> changes_under_way(const OpenFile& file) = 0;
};

}  // namespace penstock::client
