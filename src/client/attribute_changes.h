// Attributes that are set.
#pragma once

#include "cuts.h"
#include "held.h"
#include "notifier.h"
#include "privileges.h"

namespace penstock::client {

// Thread safe; has no data of its own. Takes the inode's control lock, so that attributes that are
// set and lengths and times that are recorded do not overtake each other.
class AttributeChanges {
 public:
  AttributeChanges(Core& core, HeldInodes& held, InodeLoader& loader, LiveAttributes& live,
                   Cuts& cuts, Privileges& privileges, Closer& closer, Notifier& notifier)
      : core_(core),
        held_(held),
        loader_(loader),
        live_(live),
        cuts_(cuts),
        privileges_(privileges),
        closer_(closer),
        notifier_(notifier) {}

  Result<Attributes> set(const Credentials&, InodeId id, const meta::SetAttributes& changes,
                         Observer* self);
  Status set_xattr(const Credentials&, InodeId inode, std::string_view name, std::string_view value,
                   meta::XattrMode mode, Observer* self);
  Status remove_xattr(const Credentials&, InodeId inode, std::string_view name, Observer* self);

 private:
  // The bytes that a change of length concerns.
  struct Range {
    uint64_t first = 0;
    uint64_t length = 0;
  };
  Status under_hold(InodeId inode, const std::function<Status()>& apply);
  // With the control lock held.
  Result<Attributes> set_length(Inode& inode, const Credentials&,
                                const meta::SetAttributes& changes, Held& held, Range& range);
  Result<Attributes> set_others(Inode& inode, const Credentials&,
                                const meta::SetAttributes& changes);

  Core& core_;
  HeldInodes& held_;
  InodeLoader& loader_;
  LiveAttributes& live_;
  Cuts& cuts_;
  Privileges& privileges_;
  Closer& closer_;
  Notifier& notifier_;
};

}  // namespace penstock::client
