// Files whose content comes before their name.
//
// Until it is named nobody but its maker knows a file, and when it is, everything about it is: one
// record in meta, without a write session and without a length to settle. A crash before that
// leaves chunks of a number that meta does not know, which WrittenIds finds (decision 0022).
#include "file_system.h"

namespace penstock::client {

namespace {

// The lowest number among them; 0 if none was placed.
InodeId first_of(std::span<const NewFile> files) {
  InodeId first;
  for (const NewFile& file : files) {
    const InodeId id = file.place.inode;
    if (id.value != 0 && (first.value == 0 || id < first)) first = id;
  }
  return first;
}

// Meta has it now. With the control lock held.
void note_named(Inode& inode, const Attributes& attributes) {
  inode.modified.store(attributes.modified, std::memory_order_relaxed);
  inode.privilege_changes.fetch_add(1, std::memory_order_release);
  // Its name is a change, too: what was durable before does not cover it.
  inode.named = inode.changes.fetch_add(1, std::memory_order_seq_cst) + 1;
}

}  // namespace

Status FileSystemImpl::open_unnamed(NewFile& file) {
  TRY(written_ids_.admit(file.place.inode));
  const std::shared_ptr<Inode> inode = table_.acquire(file.place.inode);
  Attributes attributes;
  attributes.inode = file.place.inode;
  attributes.links = 1;
  attributes.layout = file.place.layout;
  Status loaded;
  {
    const std::lock_guard lock(inode->control);
    loaded = load(*inode, attributes, false);
    inode->tail_known = inode->fresh = inode->unnamed = true;
    inode->writers = 1;
    // It has none, as long as nobody can give it any.
    const uint32_t given = inode->privilege_changes.load(std::memory_order_relaxed);
    inode->set_ids_dropped.store(given, std::memory_order_relaxed);
    inode->capability_dropped.store(given, std::memory_order_relaxed);
  }
  if (!loaded.ok()) {
    table_.release(inode);
    return loaded;
  }
  file.file = std::make_shared<OpenFile>(drops_, inode, false, true, AccessTimes::Mode::none,
                                         nullptr, nullptr);
  return Code::ok;
}

Status FileSystemImpl::place_files(const Credentials& credentials, std::span<NewFile> files) {
  Status status = check_open();
  if (status.ok()) {
    std::vector<meta::WantedPlace> wanted;
    wanted.reserve(files.size());
    for (const NewFile& file : files) wanted.push_back({file.path, file.replace});
    Result<std::vector<Result<meta::NewFile>>> places = meta_.place_files(credentials, wanted);
    for (size_t i = 0; places && i < files.size(); ++i) {
      Result<meta::NewFile>& place = (*places)[i];
      files[i].status = place ? Code::ok : place.error();
      if (place) files[i].place = std::move(*place);
    }
    const InodeId first = first_of(files);
    if (first.value != 0) status = written_ids_.hold(first);
    for (NewFile& file : files) {
      if (!status.ok()) file.place = {};
      if (file.place.inode.value != 0) file.status = open_unnamed(file);
    }
    if (!places) status = places.error();
  }
  if (!status.ok()) {
    for (NewFile& file : files) file.status = status;
  }
  return status;
}

// A file that is to get its name, with its control lock held: who opens it as soon as it has the
// name waits until what is here is true.
struct FileSystemImpl::Naming {
  enum class End { named, refused, unknown };
  NewFile* file = nullptr;
  std::shared_ptr<Inode> inode;
  uint64_t changes = 0;  // that meta is told of
  meta::CompleteFile complete;
  // Of the last transaction that it was in: whether that is known to have happened, and what it did
  // or would have done with this one.
  bool is_known = false;
  Result<meta::MadeFile> made = Status(Code::closed);
  End end = End::refused;
};

// In one transaction, whose error is that of each.
Status FileSystemImpl::name_some(const Credentials& credentials, std::span<Naming* const> some) {
  std::vector<meta::CompleteFile> complete;
  complete.reserve(some.size());
  bool replaces = false;
  for (const Naming* one : some) {
    complete.push_back(one->complete);
    replaces |= one->complete.place.replace;
  }
  Status status = check_open();
  // What a power cut may take must not take the place of something else.
  if (status.ok() && replaces) status = targets_.sync_all();
  std::vector<Result<meta::MadeFile>> made;
  if (status.ok()) status = meta_.create_files(credentials, complete, &made);
  for (size_t i = 0; i < some.size(); ++i) {
    Naming& one = *some[i];
    one.is_known = status.ok();
    one.made = i < made.size() ? std::move(made[i]) : Result<meta::MadeFile>(status);
    one.file->status = !status.ok() ? status : one.made ? Status() : one.made.error();
  }
  return status;
}

Status FileSystemImpl::name_all(const Credentials& credentials, std::span<Naming> all) {
  std::vector<Naming*> some;
  some.reserve(all.size());
  for (Naming& one : all) some.push_back(&one);
  TRY(name_some(credentials, some));
  // Where others have made something since it was looked for.
  std::erase_if(some, [](const Naming* one) {
    return !one->file->replace || one->file->status != Code::already_exists;
  });
  if (some.empty()) return Code::ok;
  for (Naming* one : some) one->complete.place.replace = true;
  return name_some(credentials, some);
}

// What became of it, also where the transaction did not tell.
void FileSystemImpl::find_end(Naming& one) {
  using End = Naming::End;
  if (one.is_known) {
    one.end = one.made ? End::named : End::refused;
    return;
  }
  Result<Attributes> found = meta_.attributes(one.inode->id);
  const Status failed = one.file->status;
  const bool may_happen = failed == Code::may_have_happened || failed == Code::io_error;
  if (found && one.made) {
    one.made->attributes = std::move(*found);
    one.file->status = Code::ok;
    one.end = End::named;
  } else if (!found && found.error() == Code::not_found && (!one.made || !may_happen)) {
    // Also where the transaction was not begun.
    one.end = End::refused;
  } else {
    one.end = End::unknown;
  }
}

// Tells others of it, who are told too much rather than too little.
void FileSystemImpl::tell_named(const Naming& one, Observer* self) {
  if (one.end == Naming::End::refused || !one.made) return;
  const meta::NewFile& place = one.complete.place;
  tell_entry(place.parent, place.name, self);
  const meta::Removed& replaced = one.made->replaced;
  if (one.end == Naming::End::named) {
    removed(replaced, self);
  } else if (replaced.inode != InodeId{}) {
    tell_changed(replaced.inode, 0, 0, self);
  }
}

Status FileSystemImpl::make_files(const Credentials& credentials, std::span<NewFile> files,
                                  Observer* self) {
  std::vector<Naming> naming;
  std::vector<InodeId> lost;
  std::vector<std::shared_ptr<Inode>> open;
  naming.reserve(files.size());
  open.reserve(files.size());
  const InodeId first = first_of(files);
  for (NewFile& file : files) {
    if (file.file == nullptr) continue;
    open.push_back(file.file->take());
    file.file.reset();
    const std::lock_guard lock(open.back()->control);
    open.back()->writers = 0;
    if (file.status.ok()) {
      Naming& one = naming.emplace_back();
      one.file = &file;
      one.inode = open.back();
    } else {
      lost.push_back(file.place.inode);
    }
  }
  for (Naming& one : naming) {
    Inode& inode = *one.inode;
    inode.control.lock();
    one.changes = inode.changes.load(std::memory_order_acquire);
    one.complete = {std::move(one.file->place), one.file->mode,
                    inode.length.load(std::memory_order_relaxed), one.file->changes};
  }
  const Status status = name_all(credentials, naming);
  bool all_known = true;
  for (Naming& one : naming) {
    Inode& inode = *one.inode;
    find_end(one);
    if (one.end == Naming::End::named) {
      inode.settled = one.changes;
      inode.settled_length = one.complete.length;
      load_accessed(inode, one.made->attributes);
      note_named(inode, one.made->attributes);
    } else if (one.end == Naming::End::refused) {
      lost.push_back(inode.id);
    } else {
      all_known = false;
    }
    inode.unnamed = false;
    inode.control.unlock();
  }
  for (const std::shared_ptr<Inode>& inode : open) {
    table_.release(inode);
    if (!inode->unlinked.load(std::memory_order_relaxed)) continue;
    collect_wanted_.store(true, std::memory_order_relaxed);
    drops_->wake();
  }
  for (const Naming& one : naming) tell_named(one, self);
  discard(lost);
  if (first.value != 0 && all_known) written_ids_.let_go(first);
  if (first.value != 0 && !all_known) written_ids_.leave_to_next_life();
  return status;
}

// What was written to files that got no name.
void FileSystemImpl::discard(std::span<const InodeId> lost) {
  for (size_t i = 0; i < lost.size(); i += limits::kSweepBatch) {
    const Status removed =
        targets_.remove(lost.subspan(i, std::min(limits::kSweepBatch, lost.size() - i)));
    if (removed.ok()) continue;
    log::warning("file system: space of files that could not be made may stay taken: {}",
                 removed.name());
  }
}

}  // namespace penstock::client
