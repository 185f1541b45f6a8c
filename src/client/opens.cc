// Opening and closing files.
#include "file_system.h"

namespace penstock::client {
namespace {

// Only regular files are opened here; the kernel serves pipes and devices itself.
Status check_type(meta::FileType type) {
  switch (type) {
    case meta::FileType::regular:
      return Code::ok;
    case meta::FileType::directory:
      return Code::is_directory;
    case meta::FileType::symlink:
      return Code::too_many_symlinks;  // what O_NOFOLLOW says
    default:
      return Code::not_supported;
  }
}

uint32_t wanted_access(OpenFlags flags) {
  uint32_t wanted = 0;
  if (flags.read) wanted |= meta::kAccessRead;
  if (flags.write || flags.truncate) wanted |= meta::kAccessWrite;
  return wanted;
}

meta::OpenKind kind_of(OpenFlags flags) {
  return {
      .write = flags.write || flags.truncate, .append = flags.append, .truncate = flags.truncate};
}

// Who pays with the file's privileges for a write; see OpenFile.
std::unique_ptr<const FileWriter> writer_of(const Credentials& credentials, OpenFlags flags) {
  if (!flags.write || !credentials.enforce) return nullptr;
  return std::make_unique<const FileWriter>(FileWriter{credentials, credentials.uid == 0});
}

// Whether these may open a file with these attributes so.
Status check_open_of(const Credentials& credentials, const Attributes& found, OpenFlags flags) {
  TRY(check_type(found.type));
  return meta::check_access(credentials, found, wanted_access(flags));
}

}  // namespace

Status FileSystemImpl::load(Inode& inode, const Attributes& attributes, bool unnamed) {
  TRY(check_type(attributes.type));
  // An orphan that nobody uses may be in the collector's hands already.
  if (attributes.links == 0 && !unnamed) return Code::stale;
  if (!Placement::is_good(attributes.layout, config_.targets.size())) {
    log::error(
        "inode {}: its layout (2^{} byte chunks on targets {} to {}) does not fit the {} targets "
        "of this node",
        inode.id.value, attributes.layout.chunk_bytes_log2, attributes.layout.chain_first,
        uint64_t{attributes.layout.chain_first} + attributes.layout.chain_count,
        config_.targets.size());
    return Code::corrupt;
  }
  inode.placement = Placement(attributes.layout);
  inode.length.store(attributes.length, std::memory_order_relaxed);
  inode.settled_length = attributes.length;
  inode.spread.store(attributes.length > inode.placement.chunk_bytes(), std::memory_order_relaxed);
  inode.modified.store(attributes.modified, std::memory_order_relaxed);
  Attributes merged = attributes;
  accesses_.merge(merged);
  load_accessed(inode, merged);
  inode.sparse.store(attributes.sparse, std::memory_order_relaxed);
  inode.settled_sparse = attributes.sparse;
  inode.loaded.store(true, std::memory_order_release);
  return Code::ok;
}

void FileSystemImpl::load_accessed(Inode& inode, const Attributes& attributes) {
  const bool never = (attributes.flags & meta::kInodeNoAtime) != 0;
  inode.accessed.store(attributes.accessed, std::memory_order_relaxed);
  inode.no_access_times.store(never, std::memory_order_relaxed);
  inode.access_due.store(!never && client::access_is_due(attributes, now()),
                         std::memory_order_relaxed);
}

// Before a file grows: bytes that an earlier life of the process left behind the end would appear
// in it. They are gone for good before a write session may trust the targets for the length.
Status FileSystemImpl::know_tail(Inode& inode) {
  const bool stray = inode.stray.exchange(false, std::memory_order_relaxed);
  if (inode.tail_known && !stray) return Code::ok;
  const bool writers = inode.writers > 0;
  if (writers) close_gate(inode);
  Status status;
  const Result<uint64_t> end = targets_.end_of(inode.id, inode.placement);
  const uint64_t length = inode.length.load(std::memory_order_relaxed);
  if (!end) {
    status = end.error();
  } else if (*end > length) {
    status = targets_.clear_beyond(inode.id, inode.placement, length, true);
  }
  if (writers) inode.gate.open();
  inode.tail_known = status.ok();
  return status;
}

// Makes the inode ready for one more open; undone by give_back().
Status FileSystemImpl::prepare(Inode& inode, const Opening& opening, Attributes* attributes) {
  const bool loaded = inode.loaded.load(std::memory_order_relaxed);
  const uint32_t privilege_changes = inode.privilege_changes.load(std::memory_order_relaxed);
  Attributes found;
  if (opening.created != nullptr) {
    found = *opening.created;
  } else if (!loaded || opening.check || attributes != nullptr || opening.flags.write) {
    TRY_ASSIGN(found, meta_.attributes(inode.id));
  }
  if (opening.check && opening.created == nullptr) {
    TRY(check_open_of(opening.credentials, found, opening.flags));
  }
  if (opening.created == nullptr) TRY(meta::check_open(found, kind_of(opening.flags)));
  if (!loaded) {
    TRY(load(inode, found, opening.created != nullptr && found.links == 0));
    inode.tail_known = inode.fresh = opening.created != nullptr;
    if ((found.mode & kSetIdBits) == 0) {
      inode.set_ids_dropped.store(privilege_changes, std::memory_order_relaxed);
    }
    if (!found.has_xattrs) {
      inode.capability_dropped.store(privilege_changes, std::memory_order_relaxed);
    }
  }
  if (opening.flags.write) {
    TRY(written_ids_.admit(inode.id));
    // What is going to be cut to nothing needs neither.
    const bool cut = opening.flags.truncate && inode.length.load(std::memory_order_relaxed) > 0;
    if (!cut) TRY(know_tail(inode));
    ++inode.writers;
    if (opening.has_session) Lengths::note_session(inode);
    const Status begun = cut ? Code::ok : lengths_.begin_session(inode);
    if (!begun.ok()) {
      --inode.writers;
      return begun;
    }
  }
  if (attributes != nullptr) {
    merge(found, inode);
    fill_allocated(found);
    *attributes = std::move(found);
  }
  return Code::ok;
}

Result<FileRef> FileSystemImpl::open_known(InodeId id, const Opening& opening,
                                           Attributes* attributes) {
  const std::shared_ptr<Inode> inode = table_.acquire(id);
  if (opening.self != nullptr) watch(id, *opening.self);
  if (opening.flags.truncate || attributes != nullptr) behind_.flush(*inode);
  uint64_t cut_from = UINT64_MAX;
  Status status;
  {
    const std::lock_guard lock(inode->control);
    status = prepare(*inode, opening, attributes);
    if (status.ok() && opening.flags.truncate && opening.created == nullptr) {
      const uint64_t before = inode->length.load(std::memory_order_relaxed);
      Credentials trusted = opening.credentials;
      trusted.enforce = false;
      meta::SetAttributes empty;
      empty.length = 0;
      const Result<Attributes> cut = change_length(*inode, trusted, empty);
      if (!cut) {
        status = cut.error();
        if (opening.flags.write) --inode->writers;
      } else {
        if (attributes != nullptr) *attributes = *cut;
        if (before > 0) cut_from = 0;
      }
    }
  }
  if (!status.ok()) {
    const Status dropped = give_back(inode, false);
    static_cast<void>(dropped);  // The first failure is the one to tell.
    return status;
  }
  if (cut_from != UINT64_MAX) tell_changed(id, cut_from, INT64_MAX, opening.self);
  return make_open(inode, opening);
}

FileRef FileSystemImpl::make_open(const std::shared_ptr<Inode>& inode, const Opening& opening) {
  return std::make_shared<OpenFile>(drops_, inode, opening.flags.read, opening.flags.write,
                                    opening.flags.accesses,
                                    writer_of(opening.credentials, opening.flags), opening.self);
}

// Sets `existing`, and returns null, if the name is there. A new file is in use before it exists:
// whoever finds it by its name waits until it is ready here, and nobody changes it before.
Result<FileRef> FileSystemImpl::create_and_open(const NewName& wanted, const Opening& opening,
                                                Attributes* attributes, InodeId& existing) {
  TRY_ASSIGN(const InodeId id, meta_.unused_id());
  const std::shared_ptr<Inode> inode = table_.acquire(id);
  if (opening.self != nullptr) watch(id, *opening.self);
  bool created = false;
  const auto make = [&]() -> Status {
    const std::lock_guard lock(inode->control);
    TRY_ASSIGN(const Attributes made,
               meta_.create(opening.credentials, wanted.parent, wanted.name, wanted.mode,
                            opening.flags.exclusive, wanted.layout, &created,
                            {.id = id, .begin_write = opening.flags.write}));
    if (!created) {
      existing = made.inode;
      return Code::ok;
    }
    Opening known = opening;
    known.created = &made;
    known.has_session = opening.flags.write;
    return prepare(*inode, known, attributes);
  };
  const Status status = make();
  if (created) tell_entry(wanted.parent, wanted.name, opening.self);
  if (created && status.ok()) return make_open(inode, opening);
  if (created && opening.flags.write) {
    const Status ended = meta_.end_write(id);
    static_cast<void>(ended);  // The next life of the process ends it.
  }
  if (opening.self != nullptr) unwatch(id, *opening.self);
  const Status dropped = give_back(inode, false);
  static_cast<void>(dropped);  // Nothing was settled: this was no writer.
  if (!status.ok()) return status;
  return FileRef();
}

Result<FileRef> FileSystemImpl::open_inode(const Credentials& credentials, InodeId inode,
                                           OpenFlags flags, bool check, Observer* self) {
  TRY(check_open());
  if (flags.truncate && !flags.write) return Code::invalid_argument;
  return open_known(inode, {credentials, flags, check, nullptr, self}, nullptr);
}

Result<FileRef> FileSystemImpl::open_name(const Credentials& credentials, InodeId parent,
                                          std::string_view name, OpenFlags flags, uint32_t mode,
                                          std::optional<meta::Layout> layout, bool check,
                                          Attributes* attributes, Observer* self) {
  TRY(check_open());
  if (flags.truncate && !flags.write) return Code::invalid_argument;
  if (!flags.create) {
    TRY_ASSIGN(const Attributes found, meta_.lookup(credentials, parent, name));
    return open_known(found.inode, {credentials, flags, check, nullptr, self}, attributes);
  }
  if (layout && !Placement::is_good(*layout, config_.targets.size())) {
    return Code::invalid_argument;
  }
  const Opening opening{credentials, flags, check, nullptr, self};
  InodeId existing;
  TRY_ASSIGN(FileRef made,
             create_and_open({parent, name, mode, layout}, opening, attributes, existing));
  if (made != nullptr) return made;
  return open_known(existing, opening, attributes);
}

Result<FileRef> FileSystemImpl::open_unnamed(const Credentials& credentials, InodeId parent,
                                             OpenFlags flags, uint32_t mode, Attributes* attributes,
                                             Observer* self) {
  TRY(check_open());
  TRY_ASSIGN(const InodeId id, meta_.unused_id());
  // In use before it exists, and removed from the start: the collector takes it when nobody uses
  // it.
  const std::shared_ptr<Inode> inode = table_.acquire(id);
  inode->unlinked.store(true, std::memory_order_relaxed);
  const Result<Attributes> made = meta_.create_unnamed(credentials, parent, mode, id);
  if (made) drops_->removed.fetch_add(1, std::memory_order_relaxed);
  Result<FileRef> opened =
      made ? open_known(id, {credentials, flags, false, &*made, self}, attributes) : made.error();
  const Status dropped = give_back(inode, false);
  static_cast<void>(dropped);  // Nothing was settled: this was no writer.
  return opened;
}

Result<FileRef> FileSystemImpl::open_path(const Credentials& credentials, std::string_view path,
                                          OpenFlags flags, uint32_t mode,
                                          std::optional<meta::Layout> layout,
                                          Attributes* attributes) {
  TRY(check_open());
  if (flags.truncate && !flags.write) return Code::invalid_argument;
  if (!flags.create || !flags.exclusive) {
    const Result<Attributes> found = meta_.resolve(credentials, path, true);
    if (found) {
      return open_known(found->inode, {credentials, flags, true, nullptr, nullptr}, attributes);
    }
    if (!flags.create || found.error() != Code::not_found) return found.error();
  }
  return follow_and_create(credentials, path, flags, mode, layout, attributes);
}

Result<std::vector<Result<Attributes>>> FileSystemImpl::look_for_reading(
    const Credentials& credentials, const std::vector<std::string_view>& paths) {
  TRY_ASSIGN(std::vector<Result<Attributes>> all, resolve_many(credentials, paths, true));
  for (Result<Attributes>& found : all) {
    if (!found) continue;
    const Status may = check_open_of(credentials, *found, OpenFlags{});
    if (!may.ok()) found = may;
  }
  return all;
}

// Creates the file that a path names, through symbolic links that lead nowhere yet.
Result<FileRef> FileSystemImpl::follow_and_create(const Credentials& credentials,
                                                  std::string_view path, OpenFlags flags,
                                                  uint32_t mode, std::optional<meta::Layout> layout,
                                                  Attributes* attributes) {
  TRY_ASSIGN(meta::ResolvedParent place, meta_.resolve_parent(credentials, path));
  for (uint32_t followed = 0; followed <= limits::kSymlinksFollowedMax; ++followed) {
    if (place.must_be_directory || place.name == ".") return Code::is_directory;
    Result<FileRef> opened = open_name(credentials, place.parent.inode, place.name, flags, mode,
                                       layout, true, attributes, nullptr);
    if (opened || flags.exclusive || opened.error() != Code::too_many_symlinks) return opened;
    TRY_ASSIGN(const Attributes link, meta_.lookup(credentials, place.parent.inode, place.name));
    TRY_ASSIGN(const std::string target, meta_.read_symlink(link.inode));
    if (target.starts_with('/')) {
      TRY_ASSIGN(place, meta_.resolve_parent(credentials, target));
      continue;
    }
    // Relative to the directory that holds the link: all but its last component leads there.
    const size_t slash = path.find_last_not_of('/');
    const size_t end = path.substr(0, slash + 1).rfind('/');
    const std::string directory(end == std::string_view::npos ? "/" : path.substr(0, end + 1));
    return open_path(credentials, directory + target, flags, mode, layout, attributes);
  }
  return Code::too_many_symlinks;
}

// Writes that overtook each other left no hole, if the last writer finds none. What was sparse
// before is not looked at again.
void FileSystemImpl::know_density(Inode& inode) {
  if (!inode.sparse.load(std::memory_order_relaxed) || inode.settled_sparse) return;
  const uint64_t length = inode.length.load(std::memory_order_relaxed);
  const Result<uint64_t> allocated = targets_.allocated(inode.id, inode.placement);
  const bool dense = allocated && *allocated == align_up(length, limits::kBlockBytes);
  if (dense && !inode.stray.load(std::memory_order_relaxed)) {
    inode.sparse.store(false, std::memory_order_relaxed);
  }
}

Status FileSystemImpl::give_back(const std::shared_ptr<Inode>& inode, bool writer) {
  Status status;
  if (writer) {
    const std::lock_guard lock(inode->control);
    --inode->writers;
    if (inode->writers == 0) know_density(*inode);
    status = lengths_.record(*inode, false, inode->writers == 0);
    if (status.ok()) status = inode->first_error;
    if (inode->writers == 0) inode->first_error = Code::ok;
    if (!status.ok()) {
      log::error("inode {}: its length could not be recorded: {}", inode->id.value, status.name());
    }
  }
  table_.release(inode);
  // After the release: whoever removes the last name marks it while it is in use, or collects.
  if (inode->unlinked.load(std::memory_order_relaxed)) {
    collect_wanted_.store(true, std::memory_order_relaxed);
    drops_->wake();
  }
  return status;
}

void FileSystemImpl::give_back_dropped() {
  for (const DropQueue::Dropped& open : drops_->take()) {
    const Status status = give_back(open.inode, open.writer);
    static_cast<void>(status);  // Logged; nobody is left to be told.
  }
}

Status FileSystemImpl::close_file(FileRef file) {
  if (file == nullptr || file->closed()) return Code::bad_handle;
  const bool writer = file->may_write();
  if (writer) behind_.flush(file->inode());
  return give_back(file->take(), writer);
}

}  // namespace penstock::client
