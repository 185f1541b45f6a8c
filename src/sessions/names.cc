#include "names.h"

namespace penstock::sessions {
namespace {

using PathEnd = client::FileSystem::PathEnd;

}  // namespace

Answer Names::attributes(const wire::PathAttributes& m) const {
  const auto attributes = context_.files().resolve(context_.credentials(), m.path, m.follow);
  if (!attributes) return failure_of("stat " + m.path, attributes.error());
  return wire::ReplyBody{to_wire(*attributes)};
}

Answer Names::change_attributes(const wire::ChangeAttributes& m) const {
  const std::string what = "change attributes of " + m.path;
  const auto attributes = context_.files().resolve(context_.credentials(), m.path, m.follow);
  if (!attributes) return failure_of(what, attributes.error());
  meta::SetAttributes changes;
  changes.mode = m.mode;
  changes.uid = m.uid;
  changes.gid = m.gid;
  if (m.accessed) changes.accessed = to_time(*m.accessed);
  if (m.modified) changes.modified = to_time(*m.modified);
  changes.accessed_now = m.accessed_now;
  changes.modified_now = m.modified_now;
  const auto changed =
      context_.files().set_attributes(context_.credentials(), attributes->inode, changes, nullptr);
  if (!changed) return failure_of(what, changed.error());
  return wire::ReplyBody{to_wire(*changed)};
}

Answer Names::make_directory(const wire::MakeDirectory& m) const {
  const std::string what = "make directory " + m.path;
  const Result<PathEnd> end = context_.files().resolve_parent(context_.credentials(), m.path);
  if (!end) return failure_of(what, end.error());
  const auto made = context_.files().make_directory(context_.credentials(), end->parent, end->name,
                                                    m.mode, nullptr);
  if (!made) return failure_of(what, made.error());
  return wire::ReplyBody{};
}

Answer Names::remove(const wire::Remove& m) const {
  const std::string what = "remove " + m.path;
  const Result<PathEnd> end = context_.files().resolve_parent(context_.credentials(), m.path);
  if (!end) return failure_of(what, end.error());
  const Status status = m.directory ? context_.files().remove_directory(
                                          context_.credentials(), end->parent, end->name, nullptr)
                                    : context_.files().unlink(context_.credentials(), end->parent,
                                                              end->name, nullptr);
  if (!status.ok()) return failure_of(what, status);
  return wire::ReplyBody{};
}

Answer Names::rename(const wire::Rename& m) const {
  const std::string what = "rename " + m.from + " to " + m.to;
  const Result<PathEnd> from = context_.files().resolve_parent(context_.credentials(), m.from);
  if (!from) return failure_of(what, from.error());
  const Result<PathEnd> to = context_.files().resolve_parent(context_.credentials(), m.to);
  if (!to) return failure_of(what, to.error());
  const Status status = context_.files().rename(context_.credentials(), from->parent, from->name,
                                                to->parent, to->name, {}, nullptr);
  if (!status.ok()) return failure_of(what, status);
  return wire::ReplyBody{};
}

Answer Names::make_link(const wire::MakeLink& m) const {
  const std::string what = "link " + m.from + " to " + m.to;
  const auto from = context_.files().resolve(context_.credentials(), m.from, false);
  if (!from) return failure_of(what, from.error());
  const Result<PathEnd> to = context_.files().resolve_parent(context_.credentials(), m.to);
  if (!to) return failure_of(what, to.error());
  const auto linked =
      context_.files().link(context_.credentials(), from->inode, to->parent, to->name, nullptr);
  if (!linked) return failure_of(what, linked.error());
  return wire::ReplyBody{};
}

Answer Names::make_symlink(const wire::MakeSymlink& m) const {
  const std::string what = "make symbolic link " + m.path;
  const Result<PathEnd> end = context_.files().resolve_parent(context_.credentials(), m.path);
  if (!end) return failure_of(what, end.error());
  const auto made = context_.files().make_symlink(context_.credentials(), end->parent, end->name,
                                                  m.target, nullptr);
  if (!made) return failure_of(what, made.error());
  return wire::ReplyBody{};
}

Answer Names::read_symlink(const wire::ReadSymlink& m) const {
  const std::string what = "read symbolic link " + m.path;
  const auto attributes = context_.files().resolve(context_.credentials(), m.path, false);
  if (!attributes) return failure_of(what, attributes.error());
  if (attributes->type != meta::FileType::symlink) {
    return Failure{Code::invalid_argument, what + ": not a symbolic link"};
  }
  Result<std::string> target = context_.files().meta().read_symlink(attributes->inode);
  if (!target) return failure_of(what, target.error());
  return wire::ReplyBody{wire::Target{std::move(*target)}};
}

Answer Names::list(const wire::ListDirectory& m) const {
  const std::string what = "list " + m.path;
  const auto directory = context_.files().resolve(context_.credentials(), m.path, true);
  if (!directory) return failure_of(what, directory.error());
  if (directory->type != meta::FileType::directory) {
    return failure_of(what, Code::not_directory);
  }
  const Status allowed = meta::check_access(context_.credentials(), *directory, meta::kAccessRead);
  if (!allowed.ok()) return failure_of(what, allowed);
  const Status begun = context_.files().begin_listing(context_.credentials(), directory->inode);
  if (!begun.ok()) return failure_of(what, begun);
  wire::Page page;
  page.end = true;
  size_t bytes = 0;
  const auto visit = [&](const meta::DirectoryEntry& entry, const client::Attributes*) {
    wire::Entry out{entry.name, entry.inode.value, meta::type_bits(entry.type) >> 12, entry.cookie};
    bytes += wire::page_bytes_of(out);
    if (bytes > wire::kPageBytesMax) {
      page.end = false;
      return false;
    }
    page.entries.push_back(std::move(out));
    return true;
  };
  // As many as the shortest names could fill a page with.
  const size_t entries_max = wire::kPageBytesMax / wire::page_bytes_of({});
  const Status status =
      context_.files().meta().read_directory(directory->inode, m.after, entries_max, false, visit);
  if (!status.ok()) return failure_of(what, status);
  ASSERT(page.entries.size() <= entries_max);
  if (page.entries.size() == entries_max) page.end = false;
  return wire::ReplyBody{std::move(page)};
}

Answer Names::sync_all() const {
  const Status status = context_.files().sync_all();
  if (!status.ok()) return failure_of("sync", status);
  return wire::ReplyBody{};
}

}  // namespace penstock::sessions
