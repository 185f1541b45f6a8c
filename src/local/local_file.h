// A file of another file system, as it is read and written.
#pragma once

#include <atomic>
#include <memory>

#include "penstock/base.h"
#include "penstock/route.h"

namespace penstock::local {

// What tells that a file's bytes, or where they lie, may have changed.
struct FileVersion {
  bool known = false;
  uint64_t size = 0;
  engine::WallTime modified;
  engine::WallTime changed;
  uint64_t own_writes = 0;  // by the same LocalFile past the page cache, that have ended

  static FileVersion of(int fd, uint64_t own_writes);
  // Both times lie so far back.
  bool is_older_than(engine::Duration age) const;
  friend bool operator==(const FileVersion&, const FileVersion&) = default;
};

// Whether the byte of the file can be read without waiting for a disk. Thread safe.
bool is_in_memory(int fd, uint64_t offset);

// Up to two open files for one: through the page cache, and past it. Thread safe.
class LocalFile {
 public:
  // Takes a duplicate of `fd`, and opens the other one by its name in /proc.
  static Outcome<std::unique_ptr<LocalFile>> open(int fd);

  // Reads what is in the page cache, if that is all of it that the file has, without waiting for
  // anything.
  bool read_now(route::HostIo& io);
  // Both fill in the operation's `transferred` and `route`, and may block.
  Status read(route::HostIo& io);
  Status write(route::HostIo& io);

  // Whether its pages may be mapped for devices: it is readable, and of a file system whose times
  // tell of every change.
  bool can_map() const;
  FileVersion version() const { return FileVersion::of(buffered_.get(), own_writes()); }
  uint64_t own_writes() const { return own_writes_.load(std::memory_order_acquire); }
  // For a mapping; none when there is no descriptor left.
  UniqueFd duplicate() const;

 private:
  uint64_t read_cached(route::HostIo& io);
  bool ends_at(uint64_t offset);
  bool may_go_direct(uint64_t offset, const std::byte* memory, uint64_t length) const;

  UniqueFd buffered_;  // none when only O_DIRECT can be had
  UniqueFd direct_;    // none when the file system has none
  bool asked_direct_ = false;
  bool readable_ = false;
  bool in_memory_ = false;  // the file system is in memory alone
  // Relaxed: found out by the first thread that tries, and true for all.
  std::atomic<bool> can_look_{true};    // the file system tells what is cached
  std::atomic<bool> can_direct_{true};  // O_DIRECT works as we use it
  // A write past the page cache sets the file's time when it begins, and takes pages out of the
  // cache when it ends: pages that were pinned in between are old, though the time is the same.
  std::atomic<uint64_t> own_writes_{0};
};

}  // namespace penstock::local
