// Open files as everything above sees them, those who must hear of changes, and what a file system
// is built on.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "penstock/engine.h"
#include "penstock/holds.h"
#include "penstock/inodes/chain_addresses.h"
#include "penstock/inodes/chain_tables.h"
#include "penstock/locks.h"
#include "penstock/meta.h"

namespace penstock::inodes {

using meta::Attributes;
using meta::FileWriter;

struct Inode;    // what all opens of a file share
class OpenFile;  // one open of one inode: its access mode

// The reads that leave a time of access, as mount options name it.
struct AccessTimes {
  enum class Mode : uint8_t {
    relative,  // relatime: the first read after a change, and one a day
    strict,    // strictatime: each
    none,      // noatime
  };
  Mode mode = Mode::relative;
  bool directories = true;  // false: nodiratime
  friend bool operator==(const AccessTimes&, const AccessTimes&) = default;
};

// Counted reference to an open file. The inode stays readable while one exists, also when its last
// name is gone. Copies may be made and dropped in any thread; the last one dropped without
// FileSystem::close_file() settles the length in the background.
using FileRef = std::shared_ptr<OpenFile>;

// What a file reference tells without blocking. Thread safe.
InodeId inode_of(const OpenFile& file);
// For locks of the file that are asked for through this open (Config::locking).
locks::Open& locks_of(const OpenFile& file);
bool may_read(const OpenFile& file);
bool may_write(const OpenFile& file);
// Whether the next read of it will change its time of access.
bool access_is_due(const OpenFile& file);
uint64_t length_of(const OpenFile& file);  // with every completed write, wherever its bytes are
// Whether a write by a program that keeps the set-id bits, or not, may take privileges from the
// file; and how often a write has.
bool may_lose_privileges(const OpenFile& file, bool keeps_set_ids);
uint32_t privileges_taken(const OpenFile& file);

// Bytes [offset, offset + length) of a file.
struct ByteRange {
  uint64_t offset = 0;
  uint64_t length = 0;
};

// Must hear of changes that it did not make itself: a mount, whose kernel keeps attributes,
// entries and pages. It is told only about what it watches, see FileSystem::watch(). Called from
// any thread; must not block.
class Observer {
 public:
  virtual ~Observer() = default;
  // Bytes [offset, offset + length) and the attributes changed; length 0: only the attributes. The
  // change is reported to its maker only after `done` was called (in any thread, exactly once).
  virtual void data_changed(InodeId inode, uint64_t offset, uint64_t length,
                            std::function<void()> done) = 0;
  virtual void entry_changed(InodeId parent, std::string_view name) = 0;
  // Another agent is about to change it: to be dropped before that time, after which nobody keeps
  // it.
  virtual void entry_recalled(InodeId parent, std::string_view name, engine::Time) {
    entry_changed(parent, name);
  }
  // Another agent is about to get the inode, once `done` was called: bytes and attributes may be
  // others then. Who needs longer to forget them lets nobody find them meanwhile that can help it.
  virtual void inode_recalled(InodeId inode, std::function<void()> done) {
    data_changed(inode, 0, INT64_MAX, std::move(done));
  }

  // Whether it is to hear of changes of bytes before they begin. That is for those whose readers do
  // not ask the file system: what it keeps of the range has to go before a reader who does ask can
  // find the new bytes. Constant.
  virtual bool hears_beginnings() const { return false; }
  // From when this returns until the change has ended (FileSystem::changes_under_way()), readers
  // may find the old bytes or the new ones.
  virtual void data_changing(InodeId, ByteRange) {}
};

inline constexpr uint32_t kObserversMax = 32;

// A shard as the file system sees it.
struct Shard {
  engine::Loop* loop = nullptr;
  engine::Net* net = nullptr;
};

// Keeps the one block that the file system has for itself, where no chain does. Thread safe; may
// block.
class RecordsFile {
 public:
  virtual ~RecordsFile() = default;
  // no_data if it never was written.
  virtual Status read(std::span<std::byte> block) = 0;
  // Durable, and whole or as before, when it returns.
  virtual Status write(std::span<const std::byte> block) = 0;
};

// What a file system is built on, and its bounds.
struct Config {
  std::vector<Shard> shards;
  // Where the chains of layouts are served. More may become known at any time.
  std::shared_ptr<const ChainAddresses> chains;
  // What directories may choose from. More may be offered at any time. Null: nothing.
  std::shared_ptr<const ChainTables> tables;
  // Has the chunk of kRecordsInode; known from the start, and the same for ever. Not used where
  // there is `records`.
  ChainId records_chain{0};
  std::shared_ptr<RecordsFile> records;
  // Free and total bytes of all targets, for statfs and no_space decisions.
  std::function<engine::DiskSpace()> space;
  // For what FileSystem::write_soon() takes: memory, and how long it waits there.
  uint64_t behind_bytes_max = 64 * kMiB;
  engine::Duration behind_age = std::chrono::seconds(1);
  // After a crash so many inode numbers are looked up for files that it took back, and once for as
  // many new files a record is made durable.
  uint32_t written_ids_step = 4096;
  // What processes that died left behind, and what was removed, is this file system's to look
  // after: of all file systems over the same names that of the process that has them. False: it
  // keeps no records, and removes what it made itself and could not name, nothing else.
  bool owns_recovery = true;
  // This node may be limited in what it does by whoever has the names (decision 0066), who then
  // wants to hear before bytes or names of a file are read or written, by whom. Thread safe; the
  // second may block. Empty: nothing limits it.
  std::function<bool()> is_limited = {};
  std::function<Status(const meta::Credentials&, InodeId, uint32_t wanted)> access = {};
  // What this process may keep and change beside others that have the same names. Outlives the file
  // system. Null: there are no others.
  holds::Holding* holding = nullptr;
  // With that: the locks of files that others have as well. Outlives the file system.
  locks::Locking* locking = nullptr;
  // With that: whether another agent has an inode in use of which this one has an exclusive hold;
  // may block.
  std::function<bool(InodeId)> is_in_use_elsewhere = {};
  // The same: whether another agent, that lives, may be changing it, so that recovery leaves it
  // alone.
  std::function<bool(InodeId)> is_exclusive_elsewhere = {};
  // The same: what this process keeps of names, for kernels that keep entries as well. Null:
  // nothing is kept. Outlives the file system.
  holds::KeptEntries* entries = nullptr;
};

// An inode is to be made fit for an operation that runs under a hold of it; see Inode::fit.
struct FitRequest : engine::Op {
  engine::Loop* loop = nullptr;
  Inode* inode = nullptr;  // kept alive by the caller
  holds::Hold hold = holds::Hold::shared;
};

// Does so, for loops: in a thread that may block. Thread safe.
class Fitter {
 public:
  virtual ~Fitter() = default;
  // Completes on the request's loop.
  virtual void make_fit_later(FitRequest& request) = 0;
};

// What the file system itself keeps, in chunks of this inode on Config::records_chain, or else by
// Config::records; no file has its number.
inline constexpr InodeId kRecordsInode{UINT64_MAX - 1};

}  // namespace penstock::inodes
