// What a session asks of names: everything that goes by path. Each call has the rights of the
// application.
#pragma once

#include "context.h"

namespace penstock::sessions {

// Without state; thread safe.
class Names {
 public:
  explicit Names(const Context& context) : context_(context) {}

  Answer attributes(const wire::PathAttributes& m) const;
  Answer change_attributes(const wire::ChangeAttributes& m) const;
  Answer make_directory(const wire::MakeDirectory& m) const;
  Answer remove(const wire::Remove& m) const;
  Answer rename(const wire::Rename& m) const;
  Answer make_link(const wire::MakeLink& m) const;
  Answer make_symlink(const wire::MakeSymlink& m) const;
  Answer read_symlink(const wire::ReadSymlink& m) const;
  Answer list(const wire::ListDirectory& m) const;
  Answer sync_all() const;

 private:
  const Context& context_;
};

}  // namespace penstock::sessions
