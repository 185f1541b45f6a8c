#include "new_files.h"

namespace penstock::client {

namespace {

// The lowest number among them; 0 if none could be made.
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

Status NewFiles::open(NewFile& file) {
  TRY(core_.written_ids.admit(file.place.inode));
  const std::shared_ptr<Inode> inode = core_.table.acquire(file.place.inode);
  Attributes attributes;
  attributes.inode = file.place.inode;
  attributes.links = 1;
  attributes.layout = file.place.layout;
  Status loaded;
  {
    const std::lock_guard lock(inode->control);
    loaded = loader_.load(*inode, attributes, false);
    inode->tail_known = inode->fresh = inode->unnamed = true;
    // Quotas are asked when it gets its name.
    inode->allowed.store(UINT64_MAX, std::memory_order_relaxed);
    inode->is_private.store(true, std::memory_order_release);
    // If it never gets its name all chains are asked (WrittenIds::hold).
    inode->reach.store(UINT64_MAX, std::memory_order_relaxed);
    inode->writers = 1;
    // It has none, as long as only its maker knows it.
    const uint32_t given = inode->privilege_changes.load(std::memory_order_relaxed);
    inode->set_ids_dropped.store(given, std::memory_order_relaxed);
    inode->capability_dropped.store(given, std::memory_order_relaxed);
  }
  if (!loaded.ok()) {
    core_.table.release(inode);
    return loaded;
  }
  file.file = std::make_shared<OpenFile>(core_.drops, inode, false, true, AccessTimes::Mode::none,
                                         nullptr, nullptr);
  return Code::ok;
}

Status NewFiles::place(const Credentials& credentials, std::span<NewFile> files) {
  Status status = core_.check_open();
  if (status.ok()) {
    std::vector<meta::WantedPlace> wanted;
    wanted.reserve(files.size());
    for (const NewFile& file : files) wanted.push_back({file.path, file.replace});
    Result<std::vector<Result<meta::NewFile>>> places = core_.meta.place_files(credentials, wanted);
    for (size_t i = 0; places && i < files.size(); ++i) {
      Result<meta::NewFile>& place = (*places)[i];
      files[i].status = place ? Code::ok : place.error();
      if (place) files[i].place = std::move(*place);
    }
    const InodeId first = first_of(files);
    if (first.value != 0) status = core_.written_ids.hold(first);
    for (NewFile& file : files) {
      if (!status.ok()) file.place = {};
      if (file.place.inode.value != 0) file.status = open(file);
    }
    if (!places) status = places.error();
  }
  if (!status.ok()) {
    for (NewFile& file : files) file.status = status;
  }
  return status;
}

// A file that is to get its name, with its control lock held: an open that finds it as soon as it
// has the name waits until what is here is true.
struct NewFiles::Naming {
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
Status NewFiles::name_some(const Credentials& credentials, std::span<Naming* const> some) {
  std::vector<meta::CompleteFile> complete;
  complete.reserve(some.size());
  bool replaces = false;
  for (const Naming* one : some) {
    complete.push_back(one->complete);
    replaces |= one->complete.place.replace;
  }
  Status status = core_.check_open();
  // What a power cut may take must not take the place of something else.
  if (status.ok() && replaces) status = core_.targets.sync_all();
  std::vector<Result<meta::MadeFile>> made;
  if (status.ok()) status = core_.meta.create_files(credentials, complete, &made);
  for (size_t i = 0; i < some.size(); ++i) {
    Naming& one = *some[i];
    one.is_known = status.ok();
    one.made = i < made.size() ? std::move(made[i]) : Result<meta::MadeFile>(status);
    one.file->status = !status.ok() ? status : one.made ? Status() : one.made.error();
  }
  return status;
}

Status NewFiles::name_all(const Credentials& credentials, std::span<Naming> all) {
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
void NewFiles::find_end(Naming& one) {
  using End = Naming::End;
  if (one.is_known) {
    one.end = one.made ? End::named : End::refused;
    return;
  }
  Result<Attributes> found = core_.meta.attributes(one.inode->id);
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

// Tells observers of it: too much rather than too little.
void NewFiles::tell(const Naming& one, Observer* self) {
  if (one.end == Naming::End::refused || !one.made) return;
  const meta::NewFile& place = one.complete.place;
  notifier_.entry_changed(place.parent, place.name, self);
  const meta::Removed& replaced = one.made->replaced;
  if (one.end == Naming::End::named) {
    names_.lost_name(replaced, self);
  } else if (replaced.inode != InodeId{}) {
    notifier_.changed(replaced.inode, 0, 0, self);
  }
}

Status NewFiles::make(const Credentials& credentials, std::span<NewFile> files, Observer* self) {
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
    ASSERT(open.back()->unnamed && open.back()->writers == 1);
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
    // As soon as it has its name another agent may have it.
    inode.is_private.store(false, std::memory_order_release);
    one.complete = {std::move(one.file->place), one.file->mode,
                    inode.length.load(std::memory_order_relaxed), one.file->changes,
                    inode.sparse.load(std::memory_order_relaxed)};
  }
  const Status status = name_all(credentials, naming);
  bool all_known = true;
  for (Naming& one : naming) {
    Inode& inode = *one.inode;
    ASSERT(inode.unnamed && !inode.session);
    find_end(one);
    if (one.end == Naming::End::named) {
      inode.settled = one.changes;
      inode.settled_length = one.complete.length;
      inode.settled_sparse = one.complete.sparse;
      const uint64_t reach = inode.placement.reach_of(one.complete.length);
      inode.reach.store(reach, std::memory_order_relaxed);
      loader_.load_accessed(inode, one.made->attributes);
      note_named(inode, one.made->attributes);
    } else if (one.end == Naming::End::refused) {
      lost.push_back(inode.id);
    } else {
      all_known = false;
    }
    inode.unnamed = false;
    inode.allowed.store(inode.settled_length, std::memory_order_relaxed);
    inode.control.unlock();
  }
  for (const std::shared_ptr<Inode>& inode : open) closer_.give_back(inode);
  for (const Naming& one : naming) tell(one, self);
  if (first.value == 0) return status;
  if (!all_known) core_.written_ids.leave_to_next_life();
  collector_.discard({.held = all_known ? first : InodeId{}, .files = std::move(lost)});
  return status;
}

}  // namespace penstock::client
