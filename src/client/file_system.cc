#include "file_system.h"

namespace penstock::client {

Outcome<std::unique_ptr<FileSystem>> FileSystem::open(meta::Meta& meta, FileSystemConfig config) {
  if (config.shards.empty() || config.chains == nullptr ||
      (config.owns_recovery && config.records == nullptr &&
       !config.chains->knows(config.records_chain))) {
    return Failure{Code::invalid_argument,
                   "file system: it needs a shard, and a place for its records"};
  }
  auto made = std::make_unique<FileSystemImpl>(meta, std::move(config));
  auto recovered = made->recover();
  if (!recovered) return recovered.error();
  made->start();
  return std::unique_ptr<FileSystem>(std::move(made));
}

FileSystemImpl::FileSystemImpl(meta::Meta& to_meta, FileSystemConfig config)
    : core_(
          to_meta, std::move(config),
          [this](const Gathered& gathered, bool durable) {
            return io_.put_gathered(gathered, durable);
          },
          [this](const Gathered& gathered) { io_.tell_lost(gathered); }),
      notifier_(core_),
      loader_(core_),
      held_(core_, loader_, notifier_),
      live_(core_, held_),
      cuts_(core_, loader_, live_),
      closer_(core_, held_, loader_),
      collector_(core_, held_, closer_),
      privileges_(core_, closer_),
      listed_(core_),
      names_(core_, held_, live_, listed_, collector_, notifier_),
      trash_(core_, names_, collector_),
      layouts_(core_, notifier_),
      attributes_(core_, held_, loader_, live_, cuts_, privileges_, closer_, notifier_),
      opens_(core_, held_, loader_, live_, cuts_, closer_, notifier_),
      new_files_(core_, loader_, closer_, collector_, names_, notifier_),
      all_(core_, closer_),
      io_(core_, held_, live_, privileges_, collector_, notifier_) {}

// Without close() before it this is as a crash: nothing more is settled.
FileSystemImpl::~FileSystemImpl() {
  core_.closed.store(true, std::memory_order_relaxed);
  collector_.stop();
  core_.behind.halt();
  core_.lengths.stop();
  trash_.stop();
}

void FileSystemImpl::start() {
  collector_.start();
  core_.behind.start();
  trash_.start();
  core_.drops->wake();
}

void FileSystemImpl::close() {
  core_.behind.stop();
  if (core_.closed.exchange(true, std::memory_order_relaxed)) return;
  trash_.stop();
  collector_.stop();
  closer_.give_back_dropped();
  Status settled = all_.record_final();
  held_.end_recording();
  if (settled.ok()) settled = core_.accesses.record();
  if (settled.ok()) settled = core_.written_ids.close();
  if (!settled.ok()) {
    log::error("file system: closing: lengths of open files could not be recorded: {}",
               settled.name());
  }
  core_.lengths.stop();
}

Status FileSystemImpl::settle_lost(InodeId inode) {
  TRY(core_.check_open());
  TRY_ASSIGN(const bool unsettled, core_.meta.is_unsettled(inode));
  return unsettled ? Recovery(core_).settle(inode) : Status();
}

Status FileSystemImpl::settle_all_lost() {
  TRY(core_.check_open());
  const Outcome<void> settled = Recovery(core_).settle_all();
  return settled ? Status() : settled.error().status;
}

FileSystemStatus FileSystemImpl::status() {
  FileSystemStatus status;
  if (core_.config.space) {
    const engine::DiskSpace space = core_.config.space();
    status.total_bytes = space.total_bytes;
    status.free_bytes = space.free_bytes;
  }
  if (const auto counts = core_.meta.counts()) status.inodes = counts->inodes;
  status.open_files = core_.table.open_count();
  const int64_t waiting = core_.drops->removed.load(std::memory_order_relaxed);
  status.removed_waiting = waiting > 0 ? static_cast<uint64_t>(waiting) : 0;
  return status;
}

Result<Attributes> FileSystemImpl::lookup(const Credentials& credentials, InodeId parent,
                                          std::string_view name) {
  TRY(core_.check_open());
  return names_.lookup(credentials, parent, name);
}

Result<Attributes> FileSystemImpl::resolve(const Credentials& credentials, std::string_view path,
                                           bool follow) {
  TRY(core_.check_open());
  return names_.resolve(credentials, path, follow);
}

Result<std::vector<Result<Attributes>>> FileSystemImpl::resolve_many(
    const Credentials& credentials, const std::vector<std::string_view>& paths, bool follow) {
  TRY(core_.check_open());
  return names_.resolve_many(credentials, paths, follow);
}

Result<Attributes> FileSystemImpl::attributes(InodeId inode) {
  TRY(core_.check_open());
  return live_.of(inode);
}

Result<Attributes> FileSystemImpl::make_directory(const Credentials& credentials, InodeId parent,
                                                  std::string_view name, uint32_t mode,
                                                  Observer* self) {
  TRY(core_.check_open());
  return names_.make_directory(credentials, parent, name, mode, self);
}

Result<Attributes> FileSystemImpl::make_node(const Credentials& credentials, InodeId parent,
                                             std::string_view name, meta::FileType type,
                                             uint32_t mode, uint64_t device, Observer* self) {
  TRY(core_.check_open());
  return names_.make_node(credentials, parent, name, type, mode, device, self);
}

Result<Attributes> FileSystemImpl::make_symlink(const Credentials& credentials, InodeId parent,
                                                std::string_view name, std::string_view target,
                                                Observer* self) {
  TRY(core_.check_open());
  return names_.make_symlink(credentials, parent, name, target, self);
}

Result<Attributes> FileSystemImpl::link(const Credentials& credentials, InodeId inode,
                                        InodeId parent, std::string_view name, Observer* self) {
  TRY(core_.check_open());
  return names_.link(credentials, inode, parent, name, self);
}

Status FileSystemImpl::unlink(const Credentials& credentials, InodeId parent, std::string_view name,
                              Observer* self) {
  TRY(core_.check_open());
  return names_.unlink(credentials, parent, name, self);
}

Status FileSystemImpl::remove_directory(const Credentials& credentials, InodeId parent,
                                        std::string_view name, Observer* self) {
  TRY(core_.check_open());
  return names_.remove_directory(credentials, parent, name, self);
}

Status FileSystemImpl::rename(const Credentials& credentials, InodeId parent, std::string_view name,
                              InodeId new_parent, std::string_view new_name,
                              meta::RenameFlags flags, Observer* self) {
  TRY(core_.check_open());
  return names_.rename(credentials, parent, name, new_parent, new_name, flags, self);
}

Status FileSystemImpl::set_trash(InodeId directory, std::optional<uint32_t> days,
                                 std::string_view path) {
  TRY(core_.check_open());
  return names_.set_trash(directory, days, path);
}

Result<meta::TrashEmptied> FileSystemImpl::empty_trash(InodeId hour, uint64_t after, size_t limit) {
  TRY(core_.check_open());
  return names_.empty_trash(hour, after, limit);
}

Status FileSystemImpl::set_xattr(const Credentials& credentials, InodeId inode,
                                 std::string_view name, std::string_view value,
                                 meta::XattrMode mode, Observer* self) {
  TRY(core_.check_open());
  if (Layouts::is_one(name)) return layouts_.set_text(credentials, inode, name, value, self);
  return attributes_.set_xattr(credentials, inode, name, value, mode, self);
}

Status FileSystemImpl::remove_xattr(const Credentials& credentials, InodeId inode,
                                    std::string_view name, Observer* self) {
  TRY(core_.check_open());
  return attributes_.remove_xattr(credentials, inode, name, self);
}

Result<std::string> FileSystemImpl::get_xattr(const Credentials& credentials, InodeId inode,
                                              std::string_view name) {
  TRY(core_.check_open());
  if (Layouts::is_one(name)) return layouts_.get_text(inode, name);
  return core_.meta.get_xattr(credentials, inode, name);
}

Outcome<Attributes> FileSystemImpl::set_layout(const Credentials& credentials, InodeId directory,
                                               const LayoutChange& change, Observer* self) {
  if (const Status open = core_.check_open(); !open.ok()) {
    return Failure{open, "the file system is closed"};
  }
  return layouts_.set(credentials, directory, change, self);
}

Result<FileSystem::PathEnd> FileSystemImpl::resolve_parent(const Credentials& credentials,
                                                           std::string_view path) {
  TRY(core_.check_open());
  return names_.resolve_parent(credentials, path);
}

// To list names, and to look them up where that is allowed, too.
Status FileSystemImpl::begin_listing(const Credentials& credentials, InodeId directory) {
  TRY(core_.check_open());
  const Status both =
      core_.begin_use(credentials, directory, meta::kAccessRead | meta::kAccessExecute);
  return both == Code::access_denied ? core_.begin_use(credentials, directory, meta::kAccessRead)
                                     : both;
}

Result<Attributes> FileSystemImpl::set_attributes(const Credentials& credentials, InodeId inode,
                                                  const meta::SetAttributes& changes,
                                                  Observer* self) {
  TRY(core_.check_open());
  if (changes.length) TRY(core_.begin_use(credentials, inode, meta::kAccessWrite));
  return attributes_.set(credentials, inode, changes, self);
}

Result<uint64_t> FileSystemImpl::read(const FileRef& file, uint64_t offset,
                                      engine::MemoryRef memory) {
  TRY(core_.check_open());
  return io_.read(file, offset, memory);
}

Result<uint64_t> FileSystemImpl::write(const FileRef& file, uint64_t offset,
                                       engine::MemoryRef memory, bool durable, Observer* self,
                                       const FileWriter* writer) {
  TRY(core_.check_open());
  return io_.write(file, offset, memory, durable, self, writer);
}

Result<uint64_t> FileSystemImpl::write_soon(const FileRef& file, uint64_t offset,
                                            engine::MemoryRef memory, Observer* self,
                                            const FileWriter* writer) {
  TRY(core_.check_open());
  return io_.write_soon(file, offset, memory, self, writer);
}

Result<FileSystem::Appended> FileSystemImpl::append(const FileRef& file, engine::MemoryRef memory,
                                                    bool soon, Observer* self,
                                                    const FileWriter* writer) {
  TRY(core_.check_open());
  return io_.append(file, memory, soon, self, writer);
}

Status FileSystemImpl::flush_file(const FileRef& file) {
  TRY(core_.check_open());
  return io_.flush(file);
}

Status FileSystemImpl::sync_file(const FileRef& file, bool only_data) {
  TRY(core_.check_open());
  return io_.sync(file, only_data);
}

Status FileSystemImpl::sync_all() {
  TRY(core_.check_open());
  return all_.sync();
}

Result<uint64_t> FileSystemImpl::seek(const FileRef& file, uint64_t offset, bool hole) {
  TRY(core_.check_open());
  return io_.seek(file, offset, hole);
}

Status FileSystemImpl::punch(const FileRef& file, uint64_t offset, uint64_t length, Observer* self,
                             const FileWriter* writer) {
  TRY(core_.check_open());
  return io_.punch(file, offset, length, self, writer);
}

Status FileSystemImpl::touch(const FileRef& file, Observer* self, const FileWriter* writer) {
  TRY(core_.check_open());
  return io_.touch(file, self, writer);
}

Result<uint64_t> FileSystemImpl::collect(size_t limit) {
  TRY(core_.check_open());
  return collector_.collect(limit);
}

void FileSystemImpl::orphaned_elsewhere(InodeId inode) {
  if (core_.check_open().ok()) collector_.add(inode);
}

void FileSystemImpl::named_elsewhere(InodeId inode) {
  if (core_.check_open().ok()) collector_.take_out(inode);
}

void FileSystemImpl::note_access(InodeId inode, AccessTimes times) {
  if (core_.check_open().ok()) io_.note_access(inode, times);
}

Status FileSystemImpl::close_file(FileRef file) {
  return closer_.close(std::move(file));
}

Result<FileRef> FileSystemImpl::open_inode(const Credentials& credentials, InodeId inode,
                                           OpenFlags flags, bool check, Observer* self) {
  TRY(core_.check_open());
  if (flags.truncate && !flags.write) return Code::invalid_argument;
  return opens_.inode(inode, {credentials, flags, check, self}, nullptr);
}

Result<FileRef> FileSystemImpl::open_name(const Credentials& credentials, InodeId parent,
                                          std::string_view name, OpenFlags flags, uint32_t mode,
                                          std::optional<meta::Layout> layout, bool check,
                                          Attributes* attributes, Observer* self) {
  TRY(core_.check_open());
  if (flags.truncate && !flags.write) return Code::invalid_argument;
  return opens_.name({parent, name, mode, layout}, {credentials, flags, check, self}, attributes);
}

Result<FileRef> FileSystemImpl::open_unnamed(const Credentials& credentials, InodeId parent,
                                             OpenFlags flags, uint32_t mode, Attributes* attributes,
                                             Observer* self) {
  TRY(core_.check_open());
  return opens_.unnamed(parent, mode, {credentials, flags, false, self}, attributes);
}

Result<FileRef> FileSystemImpl::open_path(const Credentials& credentials, std::string_view path,
                                          OpenFlags flags, uint32_t mode,
                                          std::optional<meta::Layout> layout,
                                          Attributes* attributes) {
  TRY(core_.check_open());
  if (flags.truncate && !flags.write) return Code::invalid_argument;
  return opens_.path(path, {credentials, flags}, mode, layout, attributes);
}

Result<std::vector<Result<Attributes>>> FileSystemImpl::look_for_reading(
    const Credentials& credentials, const std::vector<std::string_view>& paths) {
  TRY_ASSIGN(std::vector<Result<Attributes>> all, resolve_many(credentials, paths, true));
  for (Result<Attributes>& found : all) {
    if (!found) continue;
    const Status may = check_open_of(credentials, *found, OpenFlags{});
    if (!may.ok()) found = may;
  }
  return all;
}

// These look themselves whether the file system is open: what they were given must be ended.
Status FileSystemImpl::place_files(const Credentials& credentials, std::span<NewFile> files) {
  return new_files_.place(credentials, files);
}

Status FileSystemImpl::make_files(const Credentials& credentials, std::span<NewFile> files,
                                  Observer* self) {
  return new_files_.make(credentials, files, self);
}

}  // namespace penstock::client
