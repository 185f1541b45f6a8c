// Opening files: by inode, by name, by path, and as they are created.
#pragma once

#include "closer.h"
#include "cuts.h"
#include "held.h"
#include "live_attributes.h"
#include "notifier.h"

namespace penstock::client {

// Thread safe; has no data of its own. Takes the inode's control lock while it makes the inode
// ready, so that an open that comes by another way waits until it is. An inode is in use
// (InodeTable) before anything about it is looked up, and stays so until Closer gives it back.
class Opens {
 public:
  Opens(Core& core, HeldInodes& held, InodeLoader& loader, LiveAttributes& live, Cuts& cuts,
        Closer& closer, Notifier& notifier)
      : core_(core),
        held_(held),
        loader_(loader),
        live_(live),
        cuts_(cuts),
        closer_(closer),
        notifier_(notifier) {}

  // How an inode is to be opened.
  struct Opening {
    const Credentials& credentials;
    OpenFlags flags;
    bool check = true;
    Observer* self = nullptr;
    const Attributes* created = nullptr;  // by this very call: there is nothing to find out
    bool has_session = false;             // begun with the creation
  };
  // Where a file is created.
  struct NewName {
    InodeId parent;
    std::string_view name;
    uint32_t mode = 0;
    std::optional<meta::Layout> layout;
  };

  Result<FileRef> inode(InodeId id, const Opening& opening, Attributes* attributes);
  Result<FileRef> name(const NewName& wanted, const Opening& opening, Attributes* attributes);
  Result<FileRef> unnamed(InodeId parent, uint32_t mode, const Opening& opening,
                          Attributes* attributes);
  Result<FileRef> path(std::string_view path, const Opening& opening, uint32_t mode,
                       std::optional<meta::Layout> layout, Attributes* attributes);

 private:
  void keep_right(InodeId id, const Opening& opening) const;
  Result<FileRef> found(InodeId id, const Opening& opening, Attributes* attributes);
  Result<FileRef> name_once(const NewName& wanted, const Opening& opening, Attributes* attributes);
  Result<FileRef> path_once(std::string_view path, const Opening& opening, uint32_t mode,
                            std::optional<meta::Layout> layout, Attributes* attributes);
  Result<FileRef> create(const NewName& wanted, const Opening& opening, Attributes* attributes,
                         InodeId& existing);
  Result<FileRef> follow_and_create(std::string_view path, const Opening& opening, uint32_t mode,
                                    std::optional<meta::Layout> layout, Attributes* attributes);
  Status prepare(Inode& inode, const Opening& opening, Held& held, Attributes* attributes);
  Status load(Inode& inode, const Attributes& found, const Opening& opening,
              uint32_t privilege_changes);
  Status add_writer(Inode& inode, const Opening& opening);
  Status truncate(Inode& inode, const Opening& opening, Attributes* attributes);
  FileRef make(const std::shared_ptr<Inode>& inode, const Opening& opening);

  Core& core_;
  HeldInodes& held_;
  InodeLoader& loader_;
  LiveAttributes& live_;
  Cuts& cuts_;
  Closer& closer_;
  Notifier& notifier_;
};

// Whether these may open a file with these attributes so.
Status check_open_of(const Credentials& credentials, const Attributes& found, OpenFlags flags);

}  // namespace penstock::client
