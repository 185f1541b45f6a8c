// Files whose content comes before their name.
#pragma once

#include "inode_loader.h"
#include "names.h"
#include "notifier.h"

namespace penstock::client {

// Until it is named only its maker knows a file, and when it is, everything about it is: one record
// in meta, without a write session and without a length to settle. A crash before that leaves
// chunks of a number that meta does not know, which WrittenIds finds (decision 0022).
//
// Thread safe; has no data of its own. make() holds the control locks of all its files at once:
// they are new, and only their maker could wait for one of them.
class NewFiles {
 public:
  NewFiles(Core& core, InodeLoader& loader, Closer& closer, Collector& collector, Names& names,
           Notifier& notifier)
      : core_(core),
        loader_(loader),
        closer_(closer),
        collector_(collector),
        names_(names),
        notifier_(notifier) {}

  // As FileSystem::place_files() and make_files().
  Status place(const Credentials&, std::span<NewFile> files);
  Status make(const Credentials&, std::span<NewFile> files, Observer* self);

 private:
  struct Naming;
  Status open(NewFile& file);
  Status name_some(const Credentials&, std::span<Naming* const> some);
  Status name_all(const Credentials&, std::span<Naming> all);
  void find_end(Naming& one);
  void tell(const Naming& one, Observer* self);

  Core& core_;
  InodeLoader& loader_;
  Closer& closer_;
  Collector& collector_;
  Names& names_;
  Notifier& notifier_;
};

}  // namespace penstock::client
