// Names: passed on to meta, with what only this process knows merged in.
#pragma once

#include "collector.h"
#include "held_inodes.h"
#include "listed.h"
#include "live_attributes.h"
#include "notifier.h"

namespace penstock::client {

// Thread safe; has no data and takes no lock of its own.
class Names {
 public:
  Names(Core& core, HeldInodes& held, LiveAttributes& live, Listed& listed, Collector& collector,
        Notifier& notifier)
      : core_(core),
        held_(held),
        live_(live),
        listed_(listed),
        collector_(collector),
        notifier_(notifier) {}

  Result<Attributes> lookup(const Credentials&, InodeId parent, std::string_view name);
  Result<Attributes> resolve(const Credentials&, std::string_view path, bool follow);
  Result<std::vector<Result<Attributes>>> resolve_many(const Credentials&,
                                                       const std::vector<std::string_view>& paths,
                                                       bool follow);
  Result<FileSystem::PathEnd> resolve_parent(const Credentials&, std::string_view path);

  Result<Attributes> make_directory(const Credentials&, InodeId parent, std::string_view name,
                                    uint32_t mode, Observer* self);
  Result<Attributes> make_node(const Credentials&, InodeId parent, std::string_view name,
                               meta::FileType type, uint32_t mode, uint64_t device, Observer* self);
  Result<Attributes> make_symlink(const Credentials&, InodeId parent, std::string_view name,
                                  std::string_view target, Observer* self);
  Result<Attributes> link(const Credentials&, InodeId inode, InodeId parent, std::string_view name,
                          Observer* self);
  Status unlink(const Credentials&, InodeId parent, std::string_view name, Observer* self);
  Status remove_directory(const Credentials&, InodeId parent, std::string_view name,
                          Observer* self);
  Status rename(const Credentials&, InodeId parent, std::string_view name, InodeId new_parent,
                std::string_view new_name, meta::RenameFlags flags, Observer* self);

  Status set_trash(InodeId directory, std::optional<uint32_t> days, std::string_view path);
  Result<meta::TrashEmptied> empty_trash(InodeId hour, uint64_t after, size_t limit);

  // Meta has taken a name of an inode, perhaps the last one.
  void lost_name(const meta::Removed& removed, Observer* self);

 private:
  Status bring_given(InodeId parent, std::string_view name, InodeId new_parent,
                     std::string_view new_name);

  Core& core_;
  HeldInodes& held_;
  LiveAttributes& live_;
  Listed& listed_;
  Collector& collector_;
  Notifier& notifier_;
};

}  // namespace penstock::client
