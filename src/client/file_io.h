// Reading, writing and syncing one open file, for threads that may block.
#pragma once

#include "collector.h"
#include "live_attributes.h"
#include "notifier.h"
#include "privileges.h"

namespace penstock::client {

// Thread safe. Has the clients of all shards; an operation goes to that of its first byte's target,
// so that small ones stay within one loop. Takes an inode's control lock only where bytes change
// without a client: punch() and touch().
class FileIo {
 public:
  FileIo(Core& core, HeldInodes& held, LiveAttributes& live, Privileges& privileges,
         Collector& collector, Notifier& notifier);

  Client& client(size_t shard) { return *clients_[shard]; }

  // As the functions of FileSystem with these names.
  Result<uint64_t> read(const FileRef&, uint64_t offset, engine::MemoryRef);
  Result<uint64_t> write(const FileRef&, uint64_t offset, engine::MemoryRef, bool durable,
                         Observer* self, const FileWriter* writer);
  Result<uint64_t> write_soon(const FileRef&, uint64_t offset, engine::MemoryRef, Observer* self,
                              const FileWriter* writer);
  Result<FileSystem::Appended> append(const FileRef&, engine::MemoryRef, bool soon, Observer* self,
                                      const FileWriter* writer);
  Status flush(const FileRef&);
  Status sync(const FileRef&, bool only_data);
  Result<uint64_t> seek(const FileRef&, uint64_t offset, bool hole);
  Status punch(const FileRef&, uint64_t offset, uint64_t length, Observer* self,
               const FileWriter* writer);
  Status touch(const FileRef&, Observer* self, const FileWriter* writer);
  void note_access(InodeId inode, AccessTimes times);

  // For WriteBehind: writes bytes that were gathered to the targets, or tells that it could not.
  Status put_gathered(const Gathered& gathered, bool durable);
  void tell_lost(const Gathered& gathered);

 private:
  Status run(IoOp& io);
  Status run_with_room(IoOp& io);
  static void fill(IoOp& io, const FileRef& file, uint64_t offset, engine::MemoryRef memory,
                   Observer* self, const FileWriter* writer);
  Result<uint64_t> write_with_room(IoOp& io);
  enum class Taken : uint8_t { no, yes, watched };
  Taken take(const FileRef& file, uint64_t offset, engine::MemoryRef memory, const Observer* self,
             const FileWriter* writer);
  void tell_taken(Inode& inode, ByteRange range, Observer* self);
  std::optional<uint64_t> read_recent(const OpenFile& file, uint64_t offset,
                                      engine::MemoryRef memory);
  void note_read(const OpenFile& file);
  bool may_wait(const FileRef& file, uint64_t offset, engine::MemoryRef memory) const;
  Status clear_range(const OpenFile& file, uint64_t offset, uint64_t end, const FileWriter* writer);

  Core& core_;
  HeldInodes& held_;
  LiveAttributes& live_;
  Privileges& privileges_;
  Collector& collector_;
  Notifier& notifier_;
  shards::Company company_;
  shards::DataPlane plane_;
  std::vector<std::unique_ptr<Client>> clients_;
};

}  // namespace penstock::client
