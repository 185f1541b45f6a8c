#include "opens.h"

#include "held_inodes.h"
#include "limits.h"

namespace penstock::client {
namespace {

uint32_t wanted_access(OpenFlags flags) {
  uint32_t wanted = 0;
  if (flags.read) wanted |= meta::kAccessRead;
  if (flags.write || flags.truncate) wanted |= meta::kAccessWrite;
  return wanted;
}

holds::Hold hold_for(OpenFlags flags) {
  return flags.write || flags.truncate ? holds::Hold::exclusive : holds::Hold::shared;
}

meta::OpenKind kind_of(OpenFlags flags) {
  return {
      .write = flags.write || flags.truncate, .append = flags.append, .truncate = flags.truncate};
}

// The program that pays with the file's privileges for a write; see OpenFile.
std::unique_ptr<const FileWriter> writer_of(const Credentials& credentials, OpenFlags flags) {
  if (!flags.write || !credentials.enforce) return nullptr;
  return std::make_unique<const FileWriter>(FileWriter{credentials, credentials.uid == 0});
}

// Again as long as the file was replaced between two steps of it.
template <class Open>
Result<FileRef> until_fresh(Open open) {
  Result<FileRef> opened = open();
  for (uint32_t tries = 1; tries < limits::kOpenTriesMax; ++tries) {
    if (opened || opened.error() != Code::stale) break;
    opened = open();
  }
  return opened;
}

}  // namespace

Status check_open_of(const Credentials& credentials, const Attributes& found, OpenFlags flags) {
  TRY(check_regular(found.type));
  return meta::check_access(credentials, found, wanted_access(flags));
}

Status Opens::load(Inode& inode, const Attributes& found, const Opening& opening,
                   uint32_t privilege_changes) {
  TRY(loader_.load(inode, found, opening.created != nullptr && found.links == 0));
  if (opening.created != nullptr) {
    inode.allowed.store(meta::kFreeGrowthBytes, std::memory_order_relaxed);
  }
  inode.tail_known = inode.fresh = opening.created != nullptr;
  if ((found.mode & kSetIdBits) == 0) {
    inode.set_ids_dropped.store(privilege_changes, std::memory_order_relaxed);
  }
  if (!found.has_xattrs) {
    inode.capability_dropped.store(privilege_changes, std::memory_order_relaxed);
  }
  return Code::ok;
}

Status Opens::add_writer(Inode& inode, const Opening& opening) {
  TRY(core_.written_ids.admit(inode.id));
  // What is going to be cut to nothing needs neither.
  const bool cut = opening.flags.truncate && inode.length.load(std::memory_order_relaxed) > 0;
  if (!cut) TRY(loader_.know_tail(inode));
  ++inode.writers;
  if (opening.has_session) Lengths::note_first_session(inode);
  const Status begun = cut ? Code::ok : core_.lengths.begin_session(inode);
  if (!begun.ok()) {
    --inode.writers;
    return begun;
  }
  // Bytes that appear behind the recorded length are found after a crash, and are the file's.
  ASSERT(cut || (inode.session && inode.tail_known));
  return Code::ok;
}

// Makes the inode ready for one more open; with the control lock held. Undone by Closer.
Status Opens::prepare(Inode& inode, const Opening& opening, Held& held, Attributes* attributes) {
  TRY(held.make_fit_locked(inode));
  const bool loaded = inode.loaded.load(std::memory_order_relaxed);
  const uint32_t privilege_changes = inode.privilege_changes.load(std::memory_order_relaxed);
  Attributes found;
  if (opening.created != nullptr) {
    ASSERT(!loaded && opening.created->inode == inode.id);
    found = *opening.created;
  } else if (!loaded || opening.check || attributes != nullptr || opening.flags.write) {
    TRY_ASSIGN(found, core_.meta.attributes(inode.id));
  }
  if (opening.check && opening.created == nullptr) {
    TRY(check_open_of(opening.credentials, found, opening.flags));
  }
  if (opening.created == nullptr) TRY(meta::check_open(found, kind_of(opening.flags)));
  if (!loaded) {
    TRY(load(inode, found, opening, privilege_changes));
    held.note_loaded(inode);
  }
  ASSERT(inode.loaded.load(std::memory_order_relaxed));
  if (opening.flags.write) TRY(add_writer(inode, opening));
  if (attributes != nullptr) {
    live_.merge(found, inode);
    live_.fill_allocated(found);
    *attributes = std::move(found);
  }
  return Code::ok;
}

// With the control lock held, after prepare(), which it undoes when it fails.
Status Opens::truncate(Inode& inode, const Opening& opening, Attributes* attributes) {
  Credentials trusted = opening.credentials;
  trusted.enforce = false;
  meta::SetAttributes empty;
  empty.length = 0;
  const Result<Attributes> cut = cuts_.set_length(inode, trusted, empty);
  if (cut) {
    if (attributes != nullptr) *attributes = *cut;
    return Code::ok;
  }
  if (opening.flags.write) {
    ASSERT(inode.writers > 0);
    --inode.writers;
  }
  return cut.error();
}

Result<FileRef> Opens::inode(InodeId id, const Opening& opening, Attributes* attributes) {
  TRY(core_.begin_use(opening.credentials, id, wanted_access(opening.flags)));
  const std::shared_ptr<Inode> inode = core_.table.acquire(id);
  if (opening.self != nullptr) notifier_.watch(id, *opening.self);
  if (opening.flags.truncate || attributes != nullptr) core_.behind.flush(*inode);
  bool was_cut = false;
  Held held(held_);
  Status status = held.begin(id, hold_for(opening.flags));
  if (status.ok()) {
    const std::lock_guard lock(inode->control);
    status = prepare(*inode, opening, held, attributes);
    if (status.ok() && opening.flags.truncate && opening.created == nullptr) {
      const uint64_t before = inode->length.load(std::memory_order_relaxed);
      status = truncate(*inode, opening, attributes);
      was_cut = status.ok() && before > 0;
    }
  }
  held.end();
  if (!status.ok()) {
    closer_.give_back(inode);
    return status;
  }
  if (was_cut) notifier_.changed(id, 0, INT64_MAX, opening.self);
  return make(inode, opening);
}

FileRef Opens::make(const std::shared_ptr<Inode>& inode, const Opening& opening) {
  return std::make_shared<OpenFile>(core_.drops, inode, opening.flags.read, opening.flags.write,
                                    opening.flags.accesses,
                                    writer_of(opening.credentials, opening.flags), opening.self);
}

// Sets `existing`, and returns null, if the name is there. A new file is in use before it exists:
// an open that finds it by its name waits until it is ready here, and changes nothing before.
Result<FileRef> Opens::create(const NewName& wanted, const Opening& opening, Attributes* attributes,
                              InodeId& existing) {
  TRY_ASSIGN(const InodeId id, core_.meta.unused_id());
  const std::shared_ptr<Inode> inode = core_.table.acquire(id);
  if (opening.self != nullptr) notifier_.watch(id, *opening.self);
  bool created = false;
  Held held(held_);
  const auto make_it = [&]() -> Status {
    TRY(held.begin(id, hold_for(opening.flags)));
    const std::lock_guard lock(inode->control);
    TRY_ASSIGN(const Attributes made,
               core_.meta.create(opening.credentials, wanted.parent, wanted.name, wanted.mode,
                                 opening.flags.exclusive, wanted.layout, &created,
                                 {.id = id, .begin_write = opening.flags.write}));
    ASSERT(!created || made.inode == id);
    if (!created) {
      existing = made.inode;
      return Code::ok;
    }
    Opening known = opening;
    known.created = &made;
    known.has_session = opening.flags.write;
    return prepare(*inode, known, held, attributes);
  };
  const Status status = make_it();
  held.end();
  if (created) notifier_.entry_changed(wanted.parent, wanted.name, opening.self);
  if (created && status.ok()) {
    keep_right(id, opening);
    return make(inode, opening);
  }
  if (created && opening.flags.write) {
    const Status ended = core_.meta.end_write(id);
    static_cast<void>(ended);  // The next life of the process ends it.
  }
  if (opening.self != nullptr) notifier_.unwatch(id, *opening.self);
  closer_.give_back(inode);
  if (!status.ok()) return status;
  return FileRef();
}

// Of a node that is restricted: whoever makes a file has the right to it, and is given what shows
// that, for another life of the process with the names. Without it the file is good until then.
void Opens::keep_right(InodeId id, const Opening& opening) const {
  const Status given = core_.begin_use(opening.credentials, id, wanted_access(opening.flags));
  static_cast<void>(given);
}

// What a name led to a moment ago. Stale, and worth another look at the name, if it has lost it.
Result<FileRef> Opens::found(InodeId id, const Opening& opening, Attributes* attributes) {
  Result<FileRef> opened = inode(id, opening, attributes);
  if (!opened && opened.error() == Code::not_found) return Code::stale;
  return opened;
}

Result<FileRef> Opens::name(const NewName& wanted, const Opening& opening, Attributes* attributes) {
  return until_fresh([&] { return name_once(wanted, opening, attributes); });
}

Result<FileRef> Opens::name_once(const NewName& wanted, const Opening& opening,
                                 Attributes* attributes) {
  if (!opening.flags.create) {
    TRY_ASSIGN(const Attributes looked_up,
               core_.meta.lookup(opening.credentials, wanted.parent, wanted.name));
    return found(looked_up.inode, opening, attributes);
  }
  if (wanted.layout && !core_.is_good(*wanted.layout)) {
    return Code::invalid_argument;
  }
  InodeId existing;
  TRY_ASSIGN(FileRef made, create(wanted, opening, attributes, existing));
  if (made != nullptr) return made;
  return found(existing, opening, attributes);
}

// In use before it exists, and removed from the start: the collector takes it once it has no user.
// Held before it exists, as the collector may be on another node, which asks for the hold whether
// somebody has it open.
Result<FileRef> Opens::unnamed(InodeId parent, uint32_t mode, const Opening& opening,
                               Attributes* attributes) {
  TRY_ASSIGN(const InodeId id, core_.meta.unused_id());
  const std::shared_ptr<Inode> inode = core_.table.acquire(id);
  inode->unlinked.store(true, std::memory_order_relaxed);
  if (opening.self != nullptr) notifier_.watch(id, *opening.self);
  Held held(held_);
  const auto make_it = [&]() -> Status {
    TRY(held.begin(id, hold_for(opening.flags)));
    TRY_ASSIGN(const Attributes made,
               core_.meta.create_unnamed(opening.credentials, parent, mode, id));
    core_.drops->removed.fetch_add(1, std::memory_order_relaxed);
    Opening known = opening;
    known.check = false;
    known.created = &made;
    const std::lock_guard lock(inode->control);
    return prepare(*inode, known, held, attributes);
  };
  const Status status = make_it();
  held.end();
  if (status.ok()) {
    keep_right(id, opening);
    return make(inode, opening);
  }
  if (opening.self != nullptr) notifier_.unwatch(id, *opening.self);
  closer_.give_back(inode);
  return status;
}

Result<FileRef> Opens::path(std::string_view path, const Opening& opening, uint32_t mode,
                            std::optional<meta::Layout> layout, Attributes* attributes) {
  return until_fresh([&] { return path_once(path, opening, mode, layout, attributes); });
}

Result<FileRef> Opens::path_once(std::string_view path, const Opening& opening, uint32_t mode,
                                 std::optional<meta::Layout> layout, Attributes* attributes) {
  if (!opening.flags.create || !opening.flags.exclusive) {
    const Result<Attributes> resolved = core_.meta.resolve(opening.credentials, path, true);
    if (resolved) return found(resolved->inode, opening, attributes);
    if (!opening.flags.create || resolved.error() != Code::not_found) return resolved.error();
  }
  return follow_and_create(path, opening, mode, layout, attributes);
}

// Creates the file that a path names, through symbolic links that lead nowhere yet.
Result<FileRef> Opens::follow_and_create(std::string_view path_of_file, const Opening& opening,
                                         uint32_t mode, std::optional<meta::Layout> layout,
                                         Attributes* attributes) {
  const Credentials& credentials = opening.credentials;
  TRY_ASSIGN(meta::ResolvedParent end, core_.meta.resolve_parent(credentials, path_of_file));
  for (uint32_t followed = 0; followed <= limits::kSymlinksFollowedMax; ++followed) {
    if (end.must_be_directory || end.name == ".") return Code::is_directory;
    Result<FileRef> opened = name({end.parent.inode, end.name, mode, layout}, opening, attributes);
    if (opened || opening.flags.exclusive || opened.error() != Code::too_many_symlinks) {
      return opened;
    }
    TRY_ASSIGN(const Attributes link, core_.meta.lookup(credentials, end.parent.inode, end.name));
    TRY_ASSIGN(const std::string target, core_.meta.read_symlink(link.inode));
    if (target.starts_with('/')) {
      TRY_ASSIGN(end, core_.meta.resolve_parent(credentials, target));
      continue;
    }
    // Relative to the directory that holds the link: all but its last component leads there.
    const size_t last = path_of_file.find_last_not_of('/');
    const size_t slash = path_of_file.substr(0, last + 1).rfind('/');
    const std::string directory(
        slash == std::string_view::npos ? "/" : path_of_file.substr(0, slash + 1));
    return path(directory + target, opening, mode, layout, attributes);
  }
  return Code::too_many_symlinks;
}

}  // namespace penstock::client
