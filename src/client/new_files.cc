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
  inode.changes.fetch_add(1, std::memory_order_seq_cst);
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
    inode->privileges_dropped.store(inode->privilege_changes.load(std::memory_order_relaxed),
                                    std::memory_order_relaxed);
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
    std::vector<std::string_view> paths;
    paths.reserve(files.size());
    for (const NewFile& file : files) paths.push_back(file.path);
    Result<std::vector<Result<meta::NewFile>>> places = meta_.place_files(credentials, paths);
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

Status FileSystemImpl::make_files(const Credentials& credentials, std::span<NewFile> files,
                                  Observer* self) {
  struct Made {
    NewFile* file = nullptr;
    std::shared_ptr<Inode> inode;
    uint64_t changes = 0;  // that meta is told of
  };
  std::vector<Made> making;
  std::vector<meta::CompleteFile> complete;
  std::vector<InodeId> lost;
  std::vector<std::shared_ptr<Inode>> open;
  const InodeId first = first_of(files);
  for (NewFile& file : files) {
    if (file.file == nullptr) continue;
    open.push_back(file.file->take());
    file.file.reset();
    const std::lock_guard lock(open.back()->control);
    open.back()->writers = 0;
    if (file.status.ok()) {
      making.push_back({&file, open.back(), 0});
    } else {
      lost.push_back(file.place.inode);
    }
  }
  // Who opens one of them as soon as it has its name waits until what is here is true.
  for (Made& one : making) {
    Inode& inode = *one.inode;
    inode.control.lock();
    one.changes = inode.changes.load(std::memory_order_acquire);
    complete.push_back({std::move(one.file->place), one.file->mode,
                        inode.length.load(std::memory_order_relaxed), one.file->changes});
  }
  Status status = check_open();
  Result<std::vector<Result<Attributes>>> made(status);
  if (status.ok()) made = meta_.create_files(credentials, complete);
  if (!made) status = made.error();
  for (size_t i = 0; i < making.size(); ++i) {
    Inode& inode = *making[i].inode;
    Status& one = making[i].file->status;
    Result<Attributes> known = made ? std::move((*made)[i]) : made.error();
    one = known ? Code::ok : known.error();
    // A transaction that failed may have happened.
    if (!made) known = meta_.attributes(inode.id);
    if (known) {
      inode.settled = making[i].changes;
      inode.settled_length = complete[i].length;
      load_accessed(inode, *known);
      note_named(inode, *known);
    } else if (made || known.error() == Code::not_found) {
      lost.push_back(inode.id);
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
  for (size_t i = 0; i < making.size(); ++i) {
    const meta::NewFile& place = complete[i].place;
    if (making[i].file->status.ok()) tell_entry(place.parent, place.name, self);
  }
  discard(lost);
  if (first.value != 0) written_ids_.let_go(first);
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
