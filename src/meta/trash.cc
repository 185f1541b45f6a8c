// What is removed and kept for some days.
#include "counted_in.h"
#include "namespace.h"

#include "penstock/meta/records/limits.h"

namespace penstock::meta {
namespace {

constexpr uint32_t kTopMode = 0555;
// Not for others: what was shut in by its directory is not any more.
constexpr uint32_t kHourMode = 0700;

// Of the trash's own directories, whose links count no directories in them: whoever removes one
// writes nothing of the hour.
Inode trash_directory(InodeId id, InodeId parent, TrashPart part, const Layout& layout,
                      FileTime now) {
  Inode made;
  Attributes& attributes = made.attributes;
  attributes.inode = id;
  attributes.type = FileType::directory;
  attributes.mode = part == TrashPart::top ? kTopMode : kHourMode;
  attributes.links = 2;
  attributes.accessed = attributes.created = now;
  attributes.layout = layout;
  attributes.generation = 1;
  made.parent = parent;
  made.trash = part;
  return made;
}

}  // namespace

Status require_addable(const Inode& directory, std::string_view name) {
  switch (directory.trash) {
    case TrashPart::none:
      break;
    case TrashPart::entry:
      return Code::not_found;
    case TrashPart::top:
    case TrashPart::hour:
      return Code::not_permitted;
  }
  const bool is_reserved = directory.id() == kRootInode && name == kTrashName;
  return is_reserved ? Code::not_permitted : Code::ok;
}

Status require_own(const Inode& inode) {
  return is_trash(inode) ? Code::not_permitted : Code::ok;
}

Status Namespace::load_trash() {
  std::vector<InodeId> gone;
  const Status read = transact(engine::KvMode::read, [&](View& view) -> Status {
    gone.clear();
    TRY_ASSIGN(const std::optional<Dentry> dentry, view.find(kRootInode, kTrashName));
    if (!dentry) return {};
    TRY_ASSIGN(const Inode top, view.named_inode(dentry->inode));
    // One of an older release, which somebody made, is none.
    if (top.trash == TrashPart::top) trash_.set_top(top.id());
    std::vector<std::pair<InodeId, TrashRecord>> found;
    TRY(view.scan_trash(
        [&](InodeId directory, TrashRecord& record) { found.emplace_back(directory, record); }));
    for (const auto& [directory, record] : found) {
      const Result<Inode> inode = view.directory(directory);
      if (inode) {
        trash_.put(directory, record);
      } else if (inode.error() == Code::not_found) {
        gone.push_back(directory);
      } else {
        return inode.error();
      }
    }
    return {};
  });
  TRY(read);
  if (gone.empty()) return {};
  return transact(engine::KvMode::write, [&](View& view) -> Status {
    for (const InodeId directory : gone) view.erase_trash(directory);
    return {};
  });
}

Result<TrashIds> Namespace::trash_ids(size_t entries) {
  TrashIds none;
  if (!trash_.any() || entries == 0) return none;
  // An hour may end meanwhile.
  std::vector<uint64_t> ids(entries + 2);
  for (uint64_t& id : ids) {
    TRY_ASSIGN(id, counters_.new_id());
  }
  return TrashIds(std::move(ids));
}

// Nothing that reads it waits for this: the entry that names it is written once.
Result<InodeId> Namespace::trash_hour_of(View& view, const std::string& name, FileTime now,
                                         TrashIds& ids, KeptInTrash& kept) const {
  kept.top = trash_.top();
  kept.hour_name = name;
  TRY_ASSIGN(const std::optional<Dentry> known, view.find(kept.top, name));
  if (known) return known->inode;
  const uint64_t id = ids.take();
  const Inode hour =
      trash_directory(InodeId(id), kept.top, TrashPart::hour, options_.default_layout, now);
  view.put_new(hour);
  view.touch(hour.id(), now);
  view.put_new(kept.top, name, {hour.id(), FileType::directory, id});
  view.touch(kept.top, now);
  kept.is_new_hour = true;
  return hour.id();
}

// `inode` has one name, whose entry is gone; that it counts for there no more is the caller's.
Result<Removed> Namespace::move_to_trash(View& view, Inode& inode, const Leaving& from,
                                         uint32_t days) const {
  ASSERT(days > 0 && trash_.top() != InodeId() && inode.trash == TrashPart::none);
  KeptInTrash kept;
  const TrashHour hour = trash_hour(clock_.wall(), days);
  TRY_ASSIGN(kept.hour, trash_hour_of(view, name_of(hour), from.now, from.ids, kept));
  kept.name = name_of(TrashEntry{from.parent, inode.id(), std::string(from.name)});
  Attributes& attributes = inode.attributes;
  attributes.changed = from.now;
  if (inode.is_directory()) {
    inode.parent = kept.hour;
    inode.trash = TrashPart::entry;
    TRY_ASSIGN(const DirectoryTimes times, view.times(inode.id()));
    view.put_times(inode.id(), {times.modified, from.now});
    attributes.modified = times.modified;
  } else {
    TRY(note_name_moved(view, inode, from.parent, kept.hour));
  }
  TRY_ASSIGN(const std::optional<Dentry> taken, view.find(kept.hour, kept.name));
  if (taken) {
    log::error("metadata corrupt: inode {} is in the trash already", inode.id().value);
    return Code::corrupt;
  }
  view.put(inode);
  view.put_new(kept.hour, kept.name, {inode.id(), attributes.type, from.ids.take()});
  return Removed{inode.id(), false, attributes, std::move(kept)};
}

Status Namespace::set_trash(InodeId directory, std::optional<uint32_t> days,
                            std::string_view path) {
  if (days && *days > kTrashDaysMax) return Code::invalid_argument;
  if (path.size() > limits::kPathBytesMax) return Code::name_too_long;
  TRY_ASSIGN(const uint64_t id, counters_.new_id());
  const std::lock_guard alone(quotas_.gate);
  if (days && !trash_.has(directory) && trash_.size() >= kTrashSettingsMax) {
    return Code::not_supported;
  }
  const TrashRecord record{days.value_or(0), std::string(path)};
  bool is_new = false;
  InodeId top_id;
  const Status set = transact(engine::KvMode::write_durable, [&](View& view) -> Status {
    is_new = false;
    TRY_ASSIGN(const Inode found, view.directory(directory));
    if (found.trash != TrashPart::none) return Code::invalid_argument;
    if (!days) {
      view.erase_trash(directory);
      return {};
    }
    view.put_trash(directory, record);
    TRY_ASSIGN(const std::optional<Dentry> dentry, view.find(kRootInode, kTrashName));
    if (dentry) {
      top_id = dentry->inode;
      TRY_ASSIGN(const Inode there, view.named_inode(top_id));
      return there.trash == TrashPart::top ? Code::ok : Code::already_exists;
    }
    is_new = true;
    top_id = InodeId(id);
    return make_trash(view, top_id);
  });
  TRY(set);
  if (is_new) counters_.add_inodes(1);
  if (!days) {
    trash_.erase(directory);
    return {};
  }
  trash_.set_top(top_id);
  trash_.put(directory, record);
  return {};
}

Status Namespace::make_trash(View& view, InodeId id) const {
  const FileTime now = clock_.wall();
  TRY_ASSIGN(Inode root, view.directory(kRootInode));
  if (root.attributes.links >= kLinksMax) return Code::too_many_links;
  ++root.attributes.links;
  view.put(root);
  const Inode top = trash_directory(id, kRootInode, TrashPart::top, options_.default_layout, now);
  view.put_new(top);
  view.touch(id, now);
  view.put(kRootInode, kTrashName, {id, FileType::directory, id.value});
  view.touch(kRootInode, now);
  // Older releases would never remove what lies there.
  view.put_number(kVersionName, kFormatVersion);
  return {};
}

Result<TrashDays> Namespace::trash_of(InodeId inode) {
  const std::shared_lock shared(quotas_.gate);
  return transact(engine::KvMode::read, [&](View& view) -> Result<TrashDays> {
    TRY_ASSIGN(const Inode found, view.inode(inode));
    return trash_.days_of(view, found.is_directory() ? inode : found.parent);
  });
}

Result<std::vector<TrashSetting>> Namespace::trash_settings(InodeId after, size_t limit) {
  return trash_.all(after, limit);
}

Result<TrashEmptied> Namespace::empty_trash(InodeId hour, uint64_t after, size_t limit) {
  if (after > kIdMax) return Code::invalid_argument;
  limit = std::min(limit, kTrashStepMax);
  Result<TrashEmptied> done =
      charged(engine::KvMode::write, [&](View& view, Charges& charges) -> Result<TrashEmptied> {
        return empty_some(view, hour, after, limit, charges);
      });
  if (!done || !done->finished) return done;
  TRY_ASSIGN(const Removed gone, remove_empty_hour(hour, done->gone));
  if (gone.last_link) done->orphans.push_back(gone.inode);
  return done;
}

Result<TrashEmptied> Namespace::empty_some(View& view, InodeId hour, uint64_t after, size_t limit,
                                           Charges& charges) const {
  TrashEmptied emptied;
  emptied.last = after;
  const Result<Inode> found = view.inode(hour);
  if (!found && found.error() != Code::not_found) return found.error();
  if (!found || found->attributes.links == 0) {
    emptied.finished = true;
    return emptied;
  }
  if (found->trash != TrashPart::hour) return Code::invalid_argument;
  std::vector<std::pair<uint64_t, CookieEntry>> entries;
  if (limit > 0) {
    TRY(view.scan_entries(hour, after, [&](uint64_t cookie, CookieEntry& entry) {
      entries.emplace_back(cookie, std::move(entry));
      return entries.size() < limit;
    }));
  }
  const FileTime now = clock_.wall();
  TrashIds none;
  for (const auto& [cookie, entry] : entries) {
    // The one by its name says whether it is still there: it joins what this transaction has read.
    TRY_ASSIGN(const std::optional<Dentry> dentry, view.find(hour, entry.name));
    emptied.last = cookie;
    if (!dentry || dentry->cookie != cookie) continue;
    TRY_ASSIGN(Inode inode, view.named_inode(entry.inode));
    view.erase(hour, entry.name, *dentry);
    TRY_ASSIGN(const Removed removed,
               drop_link(view, inode, {hour, entry.name, now, none}, charges));
    ++emptied.removed;
    (removed.last_link ? emptied.orphans : emptied.linked).push_back(removed.inode);
  }
  emptied.finished = entries.size() < limit;
  return emptied;
}

// With the gate alone nothing goes there at the same time. What is not empty stays.
Result<Removed> Namespace::remove_empty_hour(InodeId hour, std::string& name) {
  const auto body = [&](View& view, Charges& charges) -> Result<Removed> {
    name.clear();
    const Result<Inode> found = view.inode(hour);
    if (!found && found.error() == Code::not_found) return Removed();
    if (!found) return found.error();
    if (found->attributes.links == 0) return Removed();
    TRY_ASSIGN(const bool is_empty, view.is_empty(hour));
    if (!is_empty) return Removed();
    const InodeId top = trash_.top();
    TRY(view.scan_entries(top, hour.value - 1, [&](uint64_t, CookieEntry& entry) {
      // Its cookie is its number.
      if (entry.inode == hour) name = std::move(entry.name);
      return false;
    }));
    if (name.empty()) return Code::corrupt;
    TRY_ASSIGN(const std::optional<Dentry> dentry, view.find(top, name));
    if (!dentry) return Code::corrupt;
    const FileTime now = clock_.wall();
    view.erase(top, name, *dentry);
    view.touch(top, now);
    Inode inode = *found;
    TrashIds none;
    return drop_link(view, inode, {top, name, now, none}, charges);
  };
  return charged(engine::KvMode::write, body, Charges::Gate::alone, true);
}

}  // namespace penstock::meta
