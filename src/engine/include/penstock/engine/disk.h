// The disk seam: files in a directory tree, with asynchronous reads, writes and syncs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "penstock/engine/loop.h"
#include "penstock/engine/memory.h"

namespace penstock::engine {

using DiskFile = Id<struct DiskFileTag, uint32_t>;

enum class DiskOpKind : uint8_t {
  read,      // short only at the end of the file
  write,     // all or an error; not durable before a sync, but see `durable`
  sync,      // every write to the file that completed before this was submitted becomes durable
  allocate,  // reserve [offset, offset + length) and extend the file to its end; ENOSPC if it
             // cannot
  discard,   // give [offset, offset + length) back to the file system; it reads as zeros or fails
};

// One operation on one open file. With a direct file, offset, length and address must be multiples
// of DiskFacts::alignment, else the operation ends with invalid_argument.
struct DiskOp : Op {
  DiskOpKind kind = DiskOpKind::read;
  DiskFile file;
  uint64_t offset = 0;
  MemoryRef memory;          // read, write: memory.length bytes are transferred, up to 1 GiB
  uint64_t length = 0;       // allocate, discard
  uint64_t transferred = 0;  // out, for reads
  // Of a write: when it ends with ok it is on stable storage, with all that is needed to read it
  // back. That says nothing of other writes, and a power cut may tear one that has not ended.
  bool durable = false;

  // For the implementation, which queues and splits without allocating.
  struct {
    uint64_t done = 0;
    uint32_t aux = 0;
  } progress;
};

struct DiskOpenOptions {
  bool create = false;  // make the file if it is missing
  bool direct = true;   // use O_DIRECT where the file system can
  bool read_only = false;
};

// What this disk is and why, for `penstock status`.
struct DiskFacts {
  std::string backend;        // "io_uring", "threads", "simulated"
  std::string reason;         // why not the best backend; empty if it is the best
  bool direct = false;        // O_DIRECT works in the root directory
  std::string direct_reason;  // why not; empty if it does
  uint64_t alignment = 1;     // of offset, length and address for direct files
  bool fixed_buffers = false;
  Route route = Route::disk_direct;  // what an aligned operation on a direct file takes
};

struct DiskSpace {
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;  // as df shows it: without what is reserved for root
};

// An exclusive claim on a directory; given up when destroyed or when the process ends.
class DirectoryLock {
 public:
  virtual ~DirectoryLock() = default;
};

// Paths are absolute or relative to the process's directory, as given; simulated disks have a tree
// of their own. Everything but submit() and poll() blocks and is for start, stop and rare growth;
// all from the owner thread of the loop, or before it runs.
class Disk : public Poller {
 public:
  virtual const DiskFacts& facts() const = 0;

  virtual Outcome<DiskFile> open(const std::string& path, DiskOpenOptions options) = 0;
  // No operation may be in flight on the file.
  virtual void close(DiskFile file) = 0;
  virtual Result<uint64_t> size(DiskFile file) = 0;

  // The operation completes in a later turn of the loop that this disk was made for. At most
  // kDiskOpsMax are in flight below; more wait in order here without failing.
  virtual void submit(DiskOp& op) = 0;

  // Makes `memory` known as `id` (chosen by the node, below kDiskBuffersMax), to spare the kernel
  // work per operation. not_supported or no_memory (the memlock limit) mean: it works without, the
  // reference stays valid and operations take the ordinary way. Unregister before unmapping, with
  // nothing in flight.
  virtual Status register_buffer(BufferId id, MutableBytes memory) = 0;
  virtual void unregister_buffer(BufferId id) = 0;

  virtual Status make_directory(const std::string& path) = 0;  // ok if it exists; durable
  virtual Result<std::vector<std::string>> list(const std::string& path) = 0;  // names, sorted
  virtual Status remove(const std::string& path) = 0;                          // a file; durable
  virtual Result<std::string> read_file(const std::string& path) = 0;          // up to 1 MiB
  // Writes a new file and renames it over `path`; durable when it returns.
  virtual Status replace_file(const std::string& path, const std::string& content) = 0;
  // in_use when another process (or another lock of this one) holds it.
  virtual Result<std::unique_ptr<DirectoryLock>> lock_directory(const std::string& path) = 0;
  virtual Result<DiskSpace> space(const std::string& path) = 0;
};

inline constexpr uint32_t kDiskOpsMax = 1024;      // in flight below one Disk
inline constexpr uint32_t kDiskBuffersMax = 1024;  // registered buffers of one node

}  // namespace penstock::engine
