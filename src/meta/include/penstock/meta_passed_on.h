// A Meta that passes everything on to another one, for those that do more around some of it.
#pragma once

#include <utility>

#include "penstock/meta.h"

namespace penstock::meta {

// The other Meta outlives it.
class PassedOn : public Meta {
 public:
  explicit PassedOn(Meta& inner) : inner_(inner) {}

  Status close() override { return inner_.close(); }

  Result<Attributes> lookup(const Credentials& who, InodeId parent,
                            std::string_view name) override {
    return inner_.lookup(who, parent, name);
  }
  Result<Attributes> resolve(const Credentials& who, std::string_view path,
                             bool follow_last) override {
    return inner_.resolve(who, path, follow_last);
  }
  Result<std::vector<Result<Attributes>>> resolve_many(const Credentials& who,
                                                       const std::vector<std::string_view>& paths,
                                                       bool follow_last) override {
    return inner_.resolve_many(who, paths, follow_last);
  }
  Result<ResolvedParent> resolve_parent(const Credentials& who, std::string_view path) override {
    return inner_.resolve_parent(who, path);
  }
  Result<Attributes> attributes(InodeId inode) override { return inner_.attributes(inode); }
  Status look(std::span<Look> looks) override { return inner_.look(looks); }
  Result<std::string> read_symlink(InodeId inode) override { return inner_.read_symlink(inode); }

  Result<Attributes> set_attributes(const Credentials& who, InodeId inode,
                                    const SetAttributes& changes) override {
    return inner_.set_attributes(who, inode, changes);
  }
  Result<Attributes> set_layout(const Credentials& who, InodeId directory,
                                const LayoutEdit& change) override {
    return inner_.set_layout(who, directory, change);
  }
  Result<PrivilegesTaken> drop_privileges(const FileWriter& writer, InodeId inode) override {
    return inner_.drop_privileges(writer, inode);
  }
  Status record_accessed(const std::vector<Accessed>& accesses) override {
    return inner_.record_accessed(accesses);
  }

  Result<Attributes> create(const Credentials& who, InodeId parent, std::string_view name,
                            uint32_t mode, bool exclusive, std::optional<Layout> layout,
                            bool* created, Creation how) override {
    return inner_.create(who, parent, name, mode, exclusive, std::move(layout), created, how);
  }
  Result<Attributes> make_directory(const Credentials& who, InodeId parent, std::string_view name,
                                    uint32_t mode) override {
    return inner_.make_directory(who, parent, name, mode);
  }
  Result<InodeId> unused_id() override { return inner_.unused_id(); }
  Result<Attributes> create_unnamed(const Credentials& who, InodeId parent, uint32_t mode,
                                    InodeId id) override {
    return inner_.create_unnamed(who, parent, mode, id);
  }
  Result<Attributes> make_node(const Credentials& who, InodeId parent, std::string_view name,
                               FileType type, uint32_t mode, uint64_t device) override {
    return inner_.make_node(who, parent, name, type, mode, device);
  }
  Result<Attributes> make_symlink(const Credentials& who, InodeId parent, std::string_view name,
                                  std::string_view target) override {
    return inner_.make_symlink(who, parent, name, target);
  }
  Result<Attributes> link(const Credentials& who, InodeId inode, InodeId new_parent,
                          std::string_view new_name) override {
    return inner_.link(who, inode, new_parent, new_name);
  }
  Result<std::vector<Result<NewFile>>> place_files(
      const Credentials& who, const std::vector<WantedPlace>& wanted) override {
    return inner_.place_files(who, wanted);
  }
  Status create_files(const Credentials& who, const std::vector<CompleteFile>& files,
                      std::vector<Result<MadeFile>>* made) override {
    return inner_.create_files(who, files, made);
  }
  Status unlink(const Credentials& who, InodeId parent, std::string_view name,
                Removed* removed) override {
    return inner_.unlink(who, parent, name, removed);
  }
  Status remove_directory(const Credentials& who, InodeId parent, std::string_view name,
                          Removed* removed) override {
    return inner_.remove_directory(who, parent, name, removed);
  }
  Status rename(const Credentials& who, InodeId parent, std::string_view name, InodeId new_parent,
                std::string_view new_name, RenameFlags flags, Removed* removed) override {
    return inner_.rename(who, parent, name, new_parent, new_name, flags, removed);
  }

  Status read_directory(InodeId directory, uint64_t after_cookie, size_t max_entries,
                        bool with_attributes, const DirectoryVisitor& visit) override {
    return inner_.read_directory(directory, after_cookie, max_entries, with_attributes, visit);
  }
  uint64_t newest_cookie() const override { return inner_.newest_cookie(); }

  Result<std::string> get_xattr(const Credentials& who, InodeId inode,
                                std::string_view name) override {
    return inner_.get_xattr(who, inode, name);
  }
  Status set_xattr(const Credentials& who, InodeId inode, std::string_view name,
                   std::string_view value, XattrMode mode) override {
    return inner_.set_xattr(who, inode, name, value, mode);
  }
  Result<std::vector<std::string>> list_xattrs(const Credentials& who, InodeId inode) override {
    return inner_.list_xattrs(who, inode);
  }
  Status remove_xattr(const Credentials& who, InodeId inode, std::string_view name) override {
    return inner_.remove_xattr(who, inode, name);
  }

  Result<uint64_t> begin_write(InodeId inode) override { return inner_.begin_write(inode); }
  Status settle(InodeId inode, const Settled& settled, bool durable) override {
    return inner_.settle(inode, settled, durable);
  }
  Status end_write(InodeId inode) override { return inner_.end_write(inode); }
  Result<std::vector<InodeId>> unsettled() override { return inner_.unsettled(); }
  Result<bool> is_unsettled(InodeId inode) override { return inner_.is_unsettled(inode); }
  Status sync() override { return inner_.sync(); }

  Result<std::vector<InodeId>> orphans(size_t limit, InodeId after) override {
    return inner_.orphans(limit, after);
  }
  Status forget(InodeId inode) override { return inner_.forget(inode); }
  Status forget_many(std::span<const InodeId> inodes) override {
    return inner_.forget_many(inodes);
  }
  Result<FileSystemCounts> counts() override { return inner_.counts(); }
  Status set_quota(QuotaSubject subject, const QuotaLimits& limits,
                   std::string_view path) override {
    return inner_.set_quota(subject, limits, path);
  }
  Status delete_quota(QuotaSubject subject) override { return inner_.delete_quota(subject); }
  Result<std::vector<Quota>> quotas(std::optional<QuotaSubject> after, size_t limit) override {
    return inner_.quotas(after, limit);
  }
  Result<QuotaCheck> check_quota(QuotaSubject subject, bool repair) override {
    return inner_.check_quota(subject, repair);
  }
  Result<std::optional<Quota>> quota_of(InodeId inode) override { return inner_.quota_of(inode); }
  Status set_trash(InodeId directory, std::optional<uint32_t> days,
                   std::string_view path) override {
    return inner_.set_trash(directory, days, path);
  }
  bool has_trash() const override { return inner_.has_trash(); }
  Result<TrashDays> trash_of(InodeId inode) override { return inner_.trash_of(inode); }
  Result<std::vector<TrashSetting>> trash_settings(InodeId after, size_t limit) override {
    return inner_.trash_settings(after, limit);
  }
  Result<TrashEmptied> empty_trash(InodeId hour, uint64_t after, size_t limit) override {
    return inner_.empty_trash(hour, after, limit);
  }
  Result<uint64_t> reserve(InodeId inode, uint64_t length) override {
    return inner_.reserve(inode, length);
  }

 protected:
  Meta& inner_;
};

}  // namespace penstock::meta
