#include "counted_in.h"

namespace penstock::meta {
namespace {

Status change_names(View& view, InodeId inode, InodeId directory, int by) {
  TRY_ASSIGN(const uint64_t names, view.names_in(inode, directory));
  // Of files that had names before they were counted some are missing.
  if (by < 0 && names == 0) return {};
  view.put_names(inode, directory, by < 0 ? names - 1 : names + 1);
  return {};
}

// The directory that it is counted in may have none of its names any more.
Status choose_again(View& view, Inode& inode) {
  TRY_ASSIGN(const uint64_t names, view.names_in(inode.id(), inode.parent));
  if (names > 0) return {};
  TRY_ASSIGN(const std::vector<InodeId> others, view.directories_of(inode.id()));
  inode.parent = others.empty() ? InodeId() : others.front();
  return {};
}

}  // namespace

Status note_name_added(View& view, Inode& inode, InodeId directory) {
  ASSERT(!inode.is_directory() && inode.attributes.links > 0);
  if (inode.attributes.links == 1 && inode.parent != InodeId()) {
    view.put_names(inode.id(), inode.parent, 1);
  }
  if (inode.parent == InodeId()) inode.parent = directory;
  return change_names(view, inode.id(), directory, 1);
}

Status note_name_removed(View& view, Inode& inode, InodeId directory) {
  ASSERT(!inode.is_directory());
  if (inode.attributes.links == 0) return {};
  TRY(change_names(view, inode.id(), directory, -1));
  if (inode.parent == directory) TRY(choose_again(view, inode));
  if (inode.attributes.links > 1) return {};
  // One name is where the file is counted.
  TRY_ASSIGN(const std::vector<InodeId> left, view.directories_of(inode.id()));
  for (const InodeId one : left) view.put_names(inode.id(), one, 0);
  return {};
}

Status note_name_moved(View& view, Inode& inode, InodeId from, InodeId to) {
  ASSERT(!inode.is_directory() && inode.attributes.links > 0);
  if (from == to) return {};
  if (inode.attributes.links == 1) {
    inode.parent = to;
    return {};
  }
  TRY(change_names(view, inode.id(), from, -1));
  TRY(change_names(view, inode.id(), to, 1));
  if (inode.parent == InodeId()) inode.parent = to;
  if (inode.parent != from) return {};
  TRY_ASSIGN(const uint64_t names, view.names_in(inode.id(), from));
  if (names == 0) inode.parent = to;
  return {};
}

}  // namespace penstock::meta
