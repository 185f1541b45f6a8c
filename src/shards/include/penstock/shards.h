// Reads, writes and syncs of open files, by the client of one shard, which moves their bytes
// without blocking and gives turns to flows.
#pragma once

#include <memory>
#include <vector>

#include "penstock/engine.h"
#include "penstock/open_files.h"
#include "penstock/shards/company.h"
#include "penstock/shards/flow.h"
#include "penstock/shards/limits.h"
#include "penstock/telemetry.h"

namespace penstock::inodes {

class AccessTimesNoted;
class DropQueue;
class InodeTable;
class Lengths;
class Observers;
class WriteBehind;

}  // namespace penstock::inodes

namespace penstock::shards {

using inodes::FileRef;
using inodes::Observer;
using meta::FileWriter;

enum class IoKind : uint8_t { read, write, sync };

// One read, write or sync of an open file. Reads end at the file's length, short or with 0; holes
// read as zeros. Writes extend the file; they become visible to all readers on completion, and when
// durable the bytes and the length are on stable storage then. sync makes everything durable that
// completed on the inode before (offset and memory are ignored).
struct IoOp : engine::Op {
  FileRef file;
  IoKind kind = IoKind::read;
  bool durable = false;       // writes
  bool only_data = false;     // syncs: what is needed to read the bytes again; not the times
  bool refuse_holes = false;  // reads: no_data instead of zeros
  // Reads from a block's first byte on, whose bytes are verified where they are going: the CRC-32C
  // of each block, 4 bytes for each that the range touches. Those that are read in full are not
  // verified here; what stands for others, and behind the end of the file, means nothing.
  engine::MemoryRef checksums = {};
  uint64_t offset = 0;
  // Writes: `offset` is where the file ends when the write begins, and is set to that.
  bool at_end = false;
  engine::MemoryRef memory;  // up to limits::kIoBytesMax
  engine::Time deadline = engine::kNever;
  Observer* origin = nullptr;  // writes: the observer that need not be told, as it asked for this
  // Writes: the program that takes privileges from the file, where that is not the opener.
  const FileWriter* writer = nullptr;
  Flow* flow = nullptr;  // that it is scheduled with; null: the node's own
  Traffic traffic = Traffic::by_size;
  // The way to the targets of bytes that FileSystem::write_soon() took: for the file system only.
  bool behind = false;

  // out. After an error: the bytes before the first that failed; of a write, these are in the file.
  uint64_t transferred = 0;
  engine::Route route = engine::Route::none;

  // Where its steps are recorded during a trace; the submitter's to set.
  telemetry::OperationTrace* trace = nullptr;

  // The client's: its record of the operation, or a mark of where it waits to begin, so that
  // cancel() need not search. No type of its own, as it is one or the other.
  void* internal = nullptr;
};

// Owner thread of its loop only.
class Client {
 public:
  virtual ~Client() = default;
  // access_denied when the file was not opened for this kind; invalid_argument for ranges beyond
  // limits::kFileBytesMax. Beyond some bounds it waits for its flow's turn; what one flow submits
  // begins in order.
  virtual void submit(IoOp& op) = 0;
  // Asks for an early end; the operation completes exactly once, with cancelled or as it was.
  virtual void cancel(IoOp& op) = 0;
};

// Operations that one Client has in progress: what a few busy rings hold.
inline constexpr uint32_t kIoOpsMax = 4096;

// What all clients of a node share; outlives them.
struct DataPlane {
  const inodes::ChainAddresses* chains = nullptr;
  inodes::Lengths* lengths = nullptr;
  inodes::Observers* observers = nullptr;
  inodes::AccessTimesNoted* accesses = nullptr;
  inodes::WriteBehind* behind = nullptr;
  Company* company = nullptr;
  inodes::InodeTable* inodes = nullptr;
  // Null, both: nobody else has the files.
  holds::Holding* holding = nullptr;
  inodes::Fitter* fitter = nullptr;
  std::shared_ptr<inodes::DropQueue> drops;
};

// The client of the shard that runs `loop`. Its loop outlives it, and so does `plane`; every IoOp
// has ended when it goes.
std::unique_ptr<Client> make_client(engine::Loop& loop, engine::Net& net, const DataPlane& plane);

}  // namespace penstock::shards
