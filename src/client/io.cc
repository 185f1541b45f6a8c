// Reading, writing and syncing for threads that may block.
#include "file_system.h"

namespace penstock::client {

Status FileSystemImpl::run_io(IoOp& io) {
  TRY(check_open());
  if (io.file == nullptr || io.file->closed()) return Code::bad_handle;
  // On the shard of the first byte's target, so that small operations stay within one loop.
  const Placement& placement = io.file->inode().placement;
  const size_t chain = placement.chain_of(placement.chunk_of(io.offset));
  const size_t index = chain % config_.shards.size();
  struct Turn {
    engine::Loop* loop = nullptr;
    engine::Op* done = nullptr;
  } turn;
  return config_.caller->call(*config_.shards[index].loop, [&](engine::Op& done) {
    turn = {config_.shards[index].loop, &done};
    io.owner = &turn;
    io.completion = [](engine::Op& op) {
      auto& self = op.owner_as<Turn>();
      self.loop->complete(*self.done, op.status);
    };
    clients_[index]->submit(io);
  });
}

// Whether these bytes may be taken for now. What is wrong with them is found where they are
// written.
bool FileSystemImpl::may_wait(const FileRef& file, uint64_t offset,
                              engine::MemoryRef memory) const {
  if (file == nullptr || file->closed() || !file->may_write()) return false;
  if (memory.length == 0 || memory.length > limits::kBehindWriteMax) return false;
  return range_within(offset, memory.length, file->inode().placement.file_bytes_max());
}

Result<uint64_t> FileSystemImpl::write_soon(const FileRef& file, uint64_t offset,
                                            engine::MemoryRef memory, Observer* self,
                                            const FileWriter* writer) {
  TRY(check_open());
  if (!may_wait(file, offset, memory)) return write(file, offset, memory, false, self, writer);
  Inode& inode = file->inode();
  const auto others_watch = [&] {
    return observers_.concerns(inode.watchers.load(std::memory_order_seq_cst), self);
  };
  if (others_watch() || !behind_.take(file, file->shared_inode(), offset, memory, writer)) {
    return write(file, offset, memory, false, self, writer);
  }
  // Whoever came meanwhile has seen these bytes, or is told of them now; see Behind::pending.
  if (others_watch()) {
    behind_.flush(inode);
    tell_changed(inode.id, offset, memory.length, self);
  }
  return memory.length;
}

Status FileSystemImpl::flush_file(const FileRef& file) {
  TRY(check_open());
  if (file == nullptr || file->closed()) return Code::bad_handle;
  behind_.flush(file->inode());
  return file->take_loss();
}

Status FileSystemImpl::put_gathered(const Gathered& gathered, bool durable) {
  IoOp io;
  io.file = gathered.file;
  io.kind = IoKind::write;
  io.offset = gathered.begin;
  io.memory = {gathered.data(), gathered.length};
  io.behind = true;
  io.durable = durable;
  Status status = run_io(io);
  while (status == Code::no_space && make_room()) status = run_io(io);
  return status;
}

// Nobody waits for the observers: who brought the bytes may be what a kernel waits for.
void FileSystemImpl::tell_lost(const Gathered& gathered) {
  const uint32_t watchers = gathered.inode->watchers.load(std::memory_order_seq_cst);
  if (!observers_.concerns(watchers, nullptr)) return;
  observers_.data_changed(watchers, nullptr, gathered.inode->id, gathered.begin,
                          INT64_MAX - gathered.begin, [] {});
}

Result<uint64_t> FileSystemImpl::read(const FileRef& file, uint64_t offset,
                                      engine::MemoryRef memory) {
  if (file != nullptr && !file->closed()) behind_.flush(file->inode());
  IoOp io;
  io.file = file;
  io.kind = IoKind::read;
  io.offset = offset;
  io.memory = memory;
  // Never short because of an error: to a kernel a short read is the end of the file.
  TRY(run_io(io));
  return io.transferred;
}

Result<uint64_t> FileSystemImpl::write(const FileRef& file, uint64_t offset,
                                       engine::MemoryRef memory, bool durable, Observer* self,
                                       const FileWriter* writer) {
  if (file != nullptr && !file->closed()) behind_.flush(file->inode());
  IoOp io;
  io.file = file;
  io.kind = IoKind::write;
  io.durable = durable;
  io.offset = offset;
  io.memory = memory;
  io.origin = self;
  io.writer = writer;
  Status status = run_io(io);
  while (status == Code::no_space && make_room()) status = run_io(io);
  // A part of the bytes is a short write; all of them with an error are not durable.
  const bool part = io.transferred > 0 && io.transferred < memory.length;
  if (!status.ok() && !part) return status;
  return io.transferred;
}

Result<uint64_t> FileSystemImpl::seek(const FileRef& file, uint64_t offset, bool hole) {
  TRY(check_open());
  if (file == nullptr || file->closed()) return Code::bad_handle;
  Inode& inode = file->inode();
  behind_.flush(inode);
  const uint64_t end = inode.length.load(std::memory_order_acquire);
  if (offset >= end) return Code::no_data;
  uint64_t found = hole ? end : offset;
  if (inode.sparse.load(std::memory_order_relaxed)) {
    TRY_ASSIGN(found, targets_.seek(inode.id, inode.placement, offset, end, hole));
  }
  if (!hole && found >= end) return Code::no_data;
  return found;
}

void FileSystemImpl::note_access(InodeId id, AccessTimes times) {
  if (times.mode == AccessTimes::Mode::none) return;
  const meta::FileTime when = now();
  Result<Attributes> found = attributes(id);
  if (!found || (found->flags & meta::kInodeNoAtime) != 0) return;
  if (found->type == meta::FileType::directory && !times.directories) return;
  if (times.mode == AccessTimes::Mode::relative && !access_is_due(*found, when)) return;
  if (const std::shared_ptr<Inode> inode = table_.peek(id)) {
    inode->access_due.store(false, std::memory_order_relaxed);
    inode->accessed.store(when, std::memory_order_relaxed);
  }
  accesses_.note(id, when);
  const uint32_t watchers = table_.watchers(id);
  if (!observers_.concerns(watchers, nullptr)) return;
  // Nobody waits for others to hear of it.
  observers_.data_changed(watchers, nullptr, id, 0, 0, [] {});
}

Status FileSystemImpl::sync_file(const FileRef& file, bool only_data) {
  // Here rather than by way of another thread.
  if (file != nullptr && !file->closed()) behind_.flush_durably(file->inode());
  IoOp io;
  io.file = file;
  io.kind = IoKind::sync;
  io.only_data = only_data;
  return run_io(io);
}

Status FileSystemImpl::sync_all() {
  TRY(check_open());
  behind_.flush_all();
  give_back_dropped();
  struct Synced {
    std::shared_ptr<Inode> inode;
    uint64_t changes = 0;
    Lengths::Recorded recorded;
  };
  std::vector<Synced> all;
  for (std::shared_ptr<Inode>& inode : table_.acquire_all()) {
    const uint64_t changes = inode->changes.load(std::memory_order_acquire);
    all.push_back({std::move(inode), changes, {}});
  }
  Status status = accesses_.record();
  if (status.ok()) status = targets_.sync_all();
  for (Synced& one : all) {
    if (!status.ok()) break;
    const std::lock_guard lock(one.inode->control);
    if (!one.inode->loaded.load(std::memory_order_relaxed)) continue;
    status = lengths_.record(*one.inode, false, false);
    one.recorded = Lengths::recorded(*one.inode);
  }
  if (status.ok()) status = meta_.sync();
  for (Synced& one : all) {
    if (status.ok()) {
      const std::lock_guard lock(one.inode->control);
      Lengths::note_synced(*one.inode, one.recorded, one.changes);
    }
    const Status dropped = give_back(one.inode, false);
    static_cast<void>(dropped);  // Nothing was settled: this was no writer.
  }
  return status;
}

Status FileSystemImpl::drop_privileges_for(const OpenFile& file, const FileWriter* writer) {
  const FileWriter* const dropper = file.dropper(writer);
  return dropper == nullptr ? Status() : lengths_.drop_privileges(file.inode(), *dropper);
}

Status FileSystemImpl::touch(const FileRef& file, Observer* self, const FileWriter* writer) {
  TRY(check_open());
  if (file == nullptr || file->closed()) return Code::bad_handle;
  if (!file->may_write()) return Code::access_denied;
  {
    const std::lock_guard lock(file->inode().control);
    TRY(drop_privileges_for(*file, writer));
  }
  note_written(file->inode(), 0, 0, self);
  return Code::ok;
}

void FileSystemImpl::note_written(Inode& inode, uint64_t offset, uint64_t bytes, Observer* self) {
  inode.modified.store(config_.shards.front().loop->clock().wall(), std::memory_order_relaxed);
  note_change(inode.id);
  tell_changed(inode.id, offset, bytes, self);
}

// What gives the file privileges waits meanwhile.
Status FileSystemImpl::clear_range(const OpenFile& file, uint64_t offset, uint64_t end,
                                   const FileWriter* writer) {
  Inode& inode = file.inode();
  const std::lock_guard lock(inode.control);
  TRY(drop_privileges_for(file, writer));
  if (offset < end) inode.sparse.store(true, std::memory_order_relaxed);
  const Placement& placement = inode.placement;
  uint64_t at = offset;
  while (at < end) {
    const uint32_t chunk = placement.chunk_of(at);
    const uint64_t chunk_end = placement.offset_of(chunk) + placement.chunk_bytes();
    const uint64_t stop = std::min(end, chunk_end);
    TRY(targets_.clear(inode.id, placement, chunk, placement.within(at),
                       static_cast<uint32_t>(stop - placement.offset_of(chunk)), false));
    at = stop;
  }
  return Code::ok;
}

Status FileSystemImpl::punch(const FileRef& file, uint64_t offset, uint64_t length, Observer* self,
                             const FileWriter* writer) {
  TRY(check_open());
  if (file == nullptr || file->closed()) return Code::bad_handle;
  if (!file->may_write()) return Code::access_denied;
  if (length == 0 || offset > INT64_MAX || length > INT64_MAX - offset) {
    return Code::invalid_argument;
  }
  Inode& inode = file->inode();
  behind_.flush(inode);
  const uint64_t file_end = inode.length.load(std::memory_order_acquire);
  // The last block goes as a whole, where all of its bytes do: none is kept for what is behind
  // them.
  const bool to_the_end = offset + length >= file_end;
  const uint64_t end = to_the_end ? align_up(file_end, limits::kBlockBytes) : offset + length;
  const Status status = clear_range(*file, offset, end, writer);
  // Beyond the end there is nothing to clear, but the file was changed all the same.
  note_written(inode, offset, offset < end ? end - offset : 0, self);
  return status;
}

}  // namespace penstock::client
