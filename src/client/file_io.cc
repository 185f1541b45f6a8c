#include "file_io.h"

#include "held_inodes.h"

namespace penstock::client {

FileIo::FileIo(Core& core, HeldInodes& held, LiveAttributes& live, Privileges& privileges,
               Collector& collector, Notifier& notifier)
    : core_(core),
      held_(held),
      live_(live),
      privileges_(privileges),
      collector_(collector),
      notifier_(notifier),
      plane_{core.config.chains.get(),
             &core.lengths,
             &core.observers,
             &core.accesses,
             &core.behind,
             &company_,
             &core.table,
             core.config.holding,
             &held,
             core.drops} {
  clients_.reserve(core.config.shards.size());
  for (const Shard& shard : core.config.shards) {
    clients_.push_back(shards::make_client(*shard.loop, *shard.net, plane_));
  }
}

Status FileIo::run(IoOp& io) {
  TRY(core_.check_open());
  if (io.file == nullptr || io.file->closed()) return Code::bad_handle;
  const Placement& placement = io.file->inode().placement;
  const ChainId chain = placement.chain_of(placement.chunk_of(io.offset));
  const size_t index = chain.value % clients_.size();
  struct Waiting {
    engine::Loop* loop = nullptr;
    engine::Op* done = nullptr;
  } waiting;
  engine::Loop& loop = *core_.config.shards[index].loop;
  return engine::thread_caller().call(loop, [&](engine::Op& done) {
    waiting = {&loop, &done};
    io.owner = &waiting;
    io.completion = [](engine::Op& op) {
      auto& self = op.owner_as<Waiting>();
      self.loop->complete(*self.done, op.status);
    };
    clients_[index]->submit(io);
  });
}

// Again while removed files have room to give.
Status FileIo::run_with_room(IoOp& io) {
  Status status = run(io);
  // What others append meanwhile stands behind a part of it.
  while (status == Code::no_space && !(io.at_end && io.transferred > 0) && collector_.make_room()) {
    status = run(io);
  }
  return status;
}

// Whether these bytes may be taken for now. What is wrong with them is found where they are
// written.
bool FileIo::may_wait(const FileRef& file, uint64_t offset, engine::MemoryRef memory) const {
  if (file == nullptr || file->closed() || !file->may_write()) return false;
  if (memory.length == 0 || memory.length > inodes::limits::kBehindWriteMax) return false;
  // Who writes is to hear of a quota.
  const uint64_t allowed = file->inode().allowed.load(std::memory_order_relaxed);
  if (memory.length > allowed || offset > allowed - memory.length) return false;
  return range_within(offset, memory.length, file->inode().placement.file_bytes_max());
}

// Under a hold that allows writing.
FileIo::Taken FileIo::take(const FileRef& file, uint64_t offset, engine::MemoryRef memory,
                           const Observer* self, const FileWriter* writer) {
  if (!may_wait(file, offset, memory)) return Taken::no;
  Inode& inode = file->inode();
  const auto others_watch = [&] {
    return core_.observers.concerns(inode.watchers.load(std::memory_order_seq_cst), self);
  };
  if (others_watch() || file->locks().is_lost() ||
      !core_.behind.take(file, file->shared_inode(), offset, memory, writer)) {
    return Taken::no;
  }
  return others_watch() ? Taken::watched : Taken::yes;
}

// An observer that came meanwhile has seen these bytes, or is told of them now; see
// Behind::pending.
void FileIo::tell_taken(Inode& inode, ByteRange range, Observer* self) {
  core_.behind.flush(inode);
  notifier_.changed(inode.id, range.offset, range.length, self);
}

Result<uint64_t> FileIo::write_soon(const FileRef& file, uint64_t offset, engine::MemoryRef memory,
                                    Observer* self, const FileWriter* writer) {
  if (may_wait(file, offset, memory)) {
    Held held(held_);
    TRY(held.begin(file->inode().id, holds::Hold::exclusive));
    TRY(held.make_fit(file->inode()));
    const Taken taken = take(file, offset, memory, self, writer);
    held.end();
    if (taken == Taken::watched) tell_taken(file->inode(), {offset, memory.length}, self);
    if (taken != Taken::no) return memory.length;
  }
  return write(file, offset, memory, false, self, writer);
}

Result<FileSystem::Appended> FileIo::append(const FileRef& file, engine::MemoryRef memory,
                                            bool soon, Observer* self, const FileWriter* writer) {
  if (file == nullptr || file->closed()) return Code::bad_handle;
  Inode& inode = file->inode();
  const std::lock_guard in_turn(inode.appending);
  if (soon) {
    Held held(held_);
    TRY(held.begin(inode.id, holds::Hold::exclusive));
    TRY(held.make_fit(inode));
    const uint64_t end = inode.visible_length();
    const Taken taken = take(file, end, memory, self, writer);
    held.end();
    if (taken == Taken::watched) tell_taken(inode, {end, memory.length}, self);
    if (taken != Taken::no) return FileSystem::Appended{end, memory.length};
  }
  core_.behind.flush(inode);
  IoOp io;
  fill(io, file, 0, memory, self, writer);
  io.at_end = true;
  TRY_ASSIGN(const uint64_t bytes, write_with_room(io));
  return FileSystem::Appended{io.offset, bytes};
}

Status FileIo::flush(const FileRef& file) {
  if (file == nullptr || file->closed()) return Code::bad_handle;
  core_.behind.flush(file->inode());
  return file->take_loss();
}

Status FileIo::put_gathered(const Gathered& gathered, bool durable) {
  ASSERT(gathered.length > 0 && gathered.started);
  IoOp io;
  io.file = gathered.file;
  io.kind = IoKind::write;
  io.offset = gathered.begin;
  io.memory = {gathered.data(), gathered.length};
  io.behind = true;
  io.durable = durable;
  Inode& inode = *gathered.inode;
  const auto quiet = inodes::RecentBytes::quiet_changes(inode);
  const Status put = run_with_room(io);
  // A file that was written as a whole. Between nodes nobody tells of the others' changes.
  const bool is_whole = gathered.begin == 0 &&
                        gathered.length <= inodes::limits::kRecentFileBytes &&
                        inode.length.load(std::memory_order_acquire) == gathered.length;
  if (put.ok() && quiet && is_whole && core_.config.holding == nullptr) {
    core_.observers.recent().keep(inode, *quiet, {gathered.data(), gathered.length});
  }
  return put;
}

// Does not wait for the observers: the thread that wrote the bytes may be what a kernel waits for.
void FileIo::tell_lost(const Gathered& gathered) {
  notifier_.mention(gathered.inode->id, gathered.inode->watchers.load(std::memory_order_seq_cst),
                    gathered.begin, INT64_MAX - gathered.begin);
}

// How much of what is wanted, all of it, was copied from what was written a moment ago.
std::optional<uint64_t> FileIo::read_recent(const OpenFile& file, uint64_t offset,
                                            engine::MemoryRef memory) {
  if (core_.config.holding != nullptr || memory.kind != engine::MemoryKind::host) return {};
  if (!core_.check_open().ok() || !file.may_read()) return {};
  Inode& inode = file.inode();
  const uint64_t begun = inode.changes_begun.load(std::memory_order_seq_cst);
  const uint64_t length = inode.length.load(std::memory_order_acquire);
  if (memory.length == 0 || offset >= length) return {};
  const uint64_t bytes = std::min(memory.length, length - offset);
  if (!core_.observers.recent().read(inode, offset, memory.sub(0, bytes).bytes())) return {};
  // Length and bytes are of the same moment.
  if (inode.changes_begun.load(std::memory_order_seq_cst) != begun) return {};
  if (file.access_is_due()) note_read(file);
  return bytes;
}

// As of a read by a shard's client.
void FileIo::note_read(const OpenFile& file) {
  Inode& inode = file.inode();
  const meta::FileTime now = core_.now();
  inode.access_due.store(false, std::memory_order_relaxed);
  inode.accessed.store(now, std::memory_order_relaxed);
  core_.accesses.note(inode.id, now);
  const uint32_t watchers = inode.watchers.load(std::memory_order_relaxed);
  if (!core_.observers.concerns(watchers, file.opener())) return;
  core_.observers.data_changed(watchers, file.opener(), inode.id, 0, 0, [] {});
}

Result<uint64_t> FileIo::read(const FileRef& file, uint64_t offset, engine::MemoryRef memory) {
  if (file != nullptr && !file->closed()) {
    core_.behind.flush(file->inode());
    if (const std::optional<uint64_t> bytes = read_recent(*file, offset, memory)) return *bytes;
  }
  IoOp io;
  io.file = file;
  io.kind = IoKind::read;
  io.offset = offset;
  io.memory = memory;
  // Never short because of an error: to a kernel a short read is the end of the file.
  TRY(run(io));
  ASSERT(io.transferred <= memory.length);
  return io.transferred;
}

void FileIo::fill(IoOp& io, const FileRef& file, uint64_t offset, engine::MemoryRef memory,
                  Observer* self, const FileWriter* writer) {
  io.file = file;
  io.kind = IoKind::write;
  io.offset = offset;
  io.memory = memory;
  io.origin = self;
  io.writer = writer;
}

Result<uint64_t> FileIo::write(const FileRef& file, uint64_t offset, engine::MemoryRef memory,
                               bool durable, Observer* self, const FileWriter* writer) {
  if (file != nullptr && !file->closed()) core_.behind.flush(file->inode());
  IoOp io;
  fill(io, file, offset, memory, self, writer);
  io.durable = durable;
  return write_with_room(io);
}

Result<uint64_t> FileIo::write_with_room(IoOp& io) {
  const Status status = run_with_room(io);
  // A part of the bytes is a short write; all of them with an error are not durable.
  const bool part = io.transferred > 0 && io.transferred < io.memory.length;
  if (!status.ok() && !part) return status;
  ASSERT(io.transferred <= io.memory.length);
  return io.transferred;
}

Status FileIo::sync(const FileRef& file, bool only_data) {
  // Here rather than by way of another thread.
  if (file != nullptr && !file->closed()) core_.behind.flush_durably(file->inode());
  IoOp io;
  io.file = file;
  io.kind = IoKind::sync;
  io.only_data = only_data;
  return run(io);
}

Result<uint64_t> FileIo::seek(const FileRef& file, uint64_t offset, bool hole) {
  if (file == nullptr || file->closed()) return Code::bad_handle;
  Inode& inode = file->inode();
  Held held(held_);
  TRY(held.begin(inode.id, holds::Hold::shared));
  TRY(held.make_fit(inode));
  core_.behind.flush(inode);
  const uint64_t end = inode.length.load(std::memory_order_acquire);
  if (offset >= end) return Code::no_data;
  uint64_t found = hole ? end : offset;
  if (inode.sparse.load(std::memory_order_relaxed)) {
    TRY_ASSIGN(found, core_.targets.seek(inode.id, inode.placement, offset, end, hole));
  }
  ASSERT(found >= offset && found <= end);
  if (!hole && found >= end) return Code::no_data;
  return found;
}

void FileIo::note_access(InodeId id, AccessTimes times) {
  if (times.mode == AccessTimes::Mode::none) return;
  const meta::FileTime when = core_.now();
  Result<Attributes> found = live_.of(id);
  if (!found || (found->flags & meta::kInodeNoAtime) != 0) return;
  if (found->type == meta::FileType::directory && !times.directories) return;
  if (times.mode == AccessTimes::Mode::relative && !access_is_due(*found, when)) return;
  if (const std::shared_ptr<Inode> inode = core_.table.peek(id)) {
    inode->access_due.store(false, std::memory_order_relaxed);
    inode->accessed.store(when, std::memory_order_relaxed);
  }
  core_.accesses.note(id, when);
  notifier_.mention(id, core_.table.watchers(id), 0, 0);
}

Status FileIo::touch(const FileRef& file, Observer* self, const FileWriter* writer) {
  if (file == nullptr || file->closed()) return Code::bad_handle;
  if (!file->may_write()) return Code::access_denied;
  Inode& inode = file->inode();
  {
    Held held(held_);
    TRY(held.begin(inode.id, holds::Hold::exclusive));
    const std::lock_guard lock(inode.control);
    TRY(held.make_fit_locked(inode));
    TRY(privileges_.take_for(*file, writer));
    notifier_.count_written(inode);
  }
  notifier_.changed(inode.id, 0, 0, self);
  return Code::ok;
}

// With the control lock held all the while: what gives the file privileges waits meanwhile.
Status FileIo::clear_range(const OpenFile& file, uint64_t offset, uint64_t end,
                           const FileWriter* writer) {
  Inode& inode = file.inode();
  const std::lock_guard lock(inode.control);
  TRY(privileges_.take_for(file, writer));
  if (offset < end) inode.sparse.store(true, std::memory_order_relaxed);
  const Placement& placement = inode.placement;
  uint64_t at = offset;
  while (at < end) {
    const uint32_t chunk = placement.chunk_of(at);
    const uint64_t chunk_end = placement.offset_of(chunk) + placement.chunk_bytes();
    const uint64_t stop = std::min(end, chunk_end);
    ASSERT(stop > at);
    TRY(core_.targets.clear(inode.id, placement, chunk, placement.within(at),
                            static_cast<uint32_t>(stop - placement.offset_of(chunk)), false));
    at = stop;
  }
  return Code::ok;
}

Status FileIo::punch(const FileRef& file, uint64_t offset, uint64_t length, Observer* self,
                     const FileWriter* writer) {
  if (file == nullptr || file->closed()) return Code::bad_handle;
  if (!file->may_write()) return Code::access_denied;
  if (length == 0 || offset > INT64_MAX || length > INT64_MAX - offset) {
    return Code::invalid_argument;
  }
  Inode& inode = file->inode();
  core_.behind.flush(inode);
  Held held(held_);
  TRY(held.begin(inode.id, holds::Hold::exclusive));
  TRY(held.make_fit(inode));
  const uint64_t file_end = inode.length.load(std::memory_order_acquire);
  // The last block goes as a whole, where all of its bytes do: none is kept for what is behind
  // them.
  const bool to_the_end = offset + length >= file_end;
  const uint64_t end = to_the_end ? align_up(file_end, limits::kBlockBytes) : offset + length;
  inodes::Change change;
  core_.observers.begin(change, inode, {offset, length});
  const Status status = clear_range(*file, offset, end, writer);
  core_.observers.end(change);
  // Beyond the end there is nothing to clear, but the file was changed all the same.
  notifier_.count_written(inode);
  held.end();
  notifier_.changed(inode.id, offset, offset < end ? end - offset : 0, self);
  return status;
}

}  // namespace penstock::client
