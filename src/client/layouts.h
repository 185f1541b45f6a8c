// What directories say of the layouts of their new files.
#pragma once

#include "core.h"
#include "notifier.h"

namespace penstock::client {

// Thread safe; has no data and takes no lock of its own.
class Layouts {
 public:
  Layouts(Core& core, Notifier& notifier) : core_(core), notifier_(notifier) {}

  Outcome<Attributes> set(const Credentials&, InodeId directory, const LayoutChange& change,
                          Observer* self);
  std::vector<ChainTable> tables() const;

  // As extended attributes of these names, which are not listed. set_text() fails for a name that
  // is no layout's to set, get_text() has nothing of others.
  static bool is_one(std::string_view xattr);
  Status set_text(const Credentials&, InodeId directory, std::string_view xattr,
                  std::string_view value, Observer* self);
  Result<std::string> get_text(InodeId inode, std::string_view xattr);

 private:
  Failure none_like(const meta::Layout& wanted) const;
  Status apply(const LayoutChange& change, meta::Layout& layout) const;

  Core& core_;
  Notifier& notifier_;
};

}  // namespace penstock::client
