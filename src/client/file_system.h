// FileSystem: the facade of a node. It refuses calls after close() and hands all others to the
// object with that purpose.
#pragma once

#include "all_files.h"
#include "attribute_changes.h"
#include "file_io.h"
#include "held_inodes.h"
#include "layouts.h"
#include "listed.h"
#include "names.h"
#include "new_files.h"
#include "opens.h"
#include "recovery.h"
#include "trash_keeper.h"

namespace penstock::client {

class FileSystemImpl final : public FileSystem {
 public:
  FileSystemImpl(meta::Meta& meta, FileSystemConfig config);
  ~FileSystemImpl() override;

  Outcome<void> recover() { return Recovery(core_).run(); }
  void start();
  void close() override;

  holds::Keeping& keeping() override { return held_; }
  bool is_shared() const override { return core_.config.holding != nullptr; }
  bool is_limited() const override { return core_.is_limited(); }
  Status begin_listing(const Credentials& credentials, InodeId directory) override;
  void listed(InodeId directory, std::span<const meta::DirectoryEntry> entries,
              bool with_attributes) override {
    with_attributes ? listed_.bring(directory, entries) : listed_.note(directory, entries);
  }
  locks::Locking* locking() override { return core_.config.locking; }
  engine::Duration lease_left() const override {
    return is_shared() ? core_.config.holding->lease_left() : engine::Duration::max();
  }
  bool give_entry(InodeId parent, std::string_view name, InodeId inode,
                  engine::Time until) override {
    return core_.config.entries != nullptr &&
           core_.config.entries->give(parent, name, inode, until);
  }
  Status settle_lost(InodeId inode) override;
  Status settle_all_lost() override;
  void unused_elsewhere() override { core_.drops->want_collection(); }
  Client& client(size_t shard) override { return io_.client(shard); }
  meta::Meta& meta() override { return core_.meta; }
  FileSystemStatus status() override;
  void add_observer(Observer& observer) override { notifier_.add(observer); }
  void remove_observer(Observer& observer) override { notifier_.remove(observer); }
  void watch(InodeId inode, Observer& observer) override { notifier_.watch(inode, observer); }
  void unwatch(InodeId inode, Observer& observer) override { notifier_.unwatch(inode, observer); }
  std::vector<ByteRange> changes_under_way(const OpenFile& file) override {
    return core_.observers.under_way(file.inode());
  }

  Result<Attributes> lookup(const Credentials&, InodeId parent, std::string_view name) override;
  Result<Attributes> resolve(const Credentials&, std::string_view path, bool follow) override;
  Result<std::vector<Result<Attributes>>> resolve_many(const Credentials&,
                                                       const std::vector<std::string_view>& paths,
                                                       bool follow) override;
  Result<Attributes> attributes(InodeId inode) override;
  Result<Attributes> make_directory(const Credentials&, InodeId parent, std::string_view name,
                                    uint32_t mode, Observer* self) override;
  Result<Attributes> make_node(const Credentials&, InodeId parent, std::string_view name,
                               meta::FileType type, uint32_t mode, uint64_t device,
                               Observer* self) override;
  Result<Attributes> make_symlink(const Credentials&, InodeId parent, std::string_view name,
                                  std::string_view target, Observer* self) override;
  Result<Attributes> link(const Credentials&, InodeId inode, InodeId parent, std::string_view name,
                          Observer* self) override;
  Status unlink(const Credentials&, InodeId parent, std::string_view name, Observer* self) override;
  Status remove_directory(const Credentials&, InodeId parent, std::string_view name,
                          Observer* self) override;
  Status rename(const Credentials&, InodeId parent, std::string_view name, InodeId new_parent,
                std::string_view new_name, meta::RenameFlags flags, Observer* self) override;
  Status set_xattr(const Credentials&, InodeId inode, std::string_view name, std::string_view value,
                   meta::XattrMode mode, Observer* self) override;
  Status remove_xattr(const Credentials&, InodeId inode, std::string_view name,
                      Observer* self) override;
  Result<std::string> get_xattr(const Credentials&, InodeId inode, std::string_view name) override;
  Outcome<Attributes> set_layout(const Credentials&, InodeId directory, const LayoutChange& change,
                                 Observer* self) override;
  Status set_quota(meta::QuotaSubject subject, const meta::QuotaLimits& limits,
                   std::string_view path) override {
    return core_.meta.set_quota(subject, limits, path);
  }
  Status delete_quota(meta::QuotaSubject subject) override {
    return core_.meta.delete_quota(subject);
  }
  Result<std::vector<meta::Quota>> quotas() override { return core_.meta.quotas({}, SIZE_MAX); }
  Result<meta::QuotaCheck> check_quota(meta::QuotaSubject subject, bool repair) override {
    return core_.meta.check_quota(subject, repair);
  }
  Result<std::optional<meta::Quota>> quota_of(InodeId inode) override {
    return core_.meta.quota_of(inode);
  }
  Status set_trash(InodeId directory, std::optional<uint32_t> days, std::string_view path) override;
  Result<meta::TrashDays> trash_of(InodeId inode) override { return core_.meta.trash_of(inode); }
  Result<std::vector<meta::TrashSetting>> trash_settings() override {
    return core_.meta.trash_settings({}, SIZE_MAX);
  }
  Result<meta::TrashEmptied> empty_trash(InodeId hour, uint64_t after, size_t limit) override;
  std::vector<ChainTable> tables() override { return layouts_.tables(); }
  Result<PathEnd> resolve_parent(const Credentials&, std::string_view path) override;

  Result<Attributes> set_attributes(const Credentials&, InodeId inode, const meta::SetAttributes&,
                                    Observer* self) override;

  Result<FileRef> open_inode(const Credentials&, InodeId inode, OpenFlags flags, bool check,
                             Observer* self) override;
  Result<FileRef> open_name(const Credentials&, InodeId parent, std::string_view name,
                            OpenFlags flags, uint32_t mode, std::optional<meta::Layout> layout,
                            bool check, Attributes* attributes, Observer* self) override;
  Result<FileRef> open_unnamed(const Credentials&, InodeId parent, OpenFlags flags, uint32_t mode,
                               Attributes* attributes, Observer* self) override;
  Result<FileRef> open_path(const Credentials&, std::string_view path, OpenFlags flags,
                            uint32_t mode, std::optional<meta::Layout> layout,
                            Attributes* attributes) override;
  Status place_files(const Credentials&, std::span<NewFile> files) override;
  Status make_files(const Credentials&, std::span<NewFile> files, Observer* self) override;

  Result<std::vector<Result<Attributes>>> look_for_reading(
      const Credentials&, const std::vector<std::string_view>& paths) override;
  Status close_file(FileRef file) override;

  Result<uint64_t> read(const FileRef&, uint64_t offset, engine::MemoryRef) override;
  Result<uint64_t> write(const FileRef&, uint64_t offset, engine::MemoryRef, bool durable,
                         Observer* self, const FileWriter* writer) override;
  Result<uint64_t> write_soon(const FileRef&, uint64_t offset, engine::MemoryRef, Observer* self,
                              const FileWriter* writer) override;
  Result<Appended> append(const FileRef&, engine::MemoryRef, bool soon, Observer* self,
                          const FileWriter* writer) override;
  Status flush_file(const FileRef&) override;
  void note_access(InodeId inode, AccessTimes times) override;
  Status sync_file(const FileRef&, bool only_data) override;
  Status sync_all() override;
  Result<uint64_t> seek(const FileRef&, uint64_t offset, bool hole) override;
  Status punch(const FileRef&, uint64_t offset, uint64_t length, Observer* self,
               const FileWriter* writer) override;
  Status touch(const FileRef&, Observer* self, const FileWriter* writer) override;

  Result<uint64_t> collect(size_t limit) override;
  void orphaned_elsewhere(InodeId inode) override;
  void named_elsewhere(InodeId inode) override;

 private:
  Core core_;
  Notifier notifier_;
  InodeLoader loader_;
  HeldInodes held_;
  LiveAttributes live_;
  Cuts cuts_;
  Closer closer_;
  Collector collector_;
  Privileges privileges_;
  Listed listed_;
  Names names_;
  TrashKeeper trash_;
  Layouts layouts_;
  AttributeChanges attributes_;
  Opens opens_;
  NewFiles new_files_;
  AllFiles all_;
  FileIo io_;
};

}  // namespace penstock::client
