#include "closer.h"

#include "held_inodes.h"

namespace penstock::client {

Status Closer::close(FileRef file) {
  if (file == nullptr || file->closed()) return Code::bad_handle;
  const bool writer = file->may_write();
  if (writer) core_.behind.flush(file->inode());
  const std::shared_ptr<Inode> inode = file->take();
  if (writer) return give_back_writer(inode);
  give_back(inode);
  return Code::ok;
}

Status Closer::give_back_writer(const std::shared_ptr<Inode>& inode) {
  Status status;
  bool is_recorded = false;
  {
    const std::lock_guard lock(inode->control);
    ASSERT(inode->writers > 0);
    --inode->writers;
    if (inode->writers == 0) loader_.know_density(*inode);
    status = core_.lengths.record(*inode, false, inode->writers == 0);
    is_recorded = status.ok();
    if (status.ok()) status = inode->first_error;
    if (inode->writers == 0) inode->first_error = Code::ok;
    if (!status.ok()) {
      log::error("inode {}: its length could not be recorded: {}", inode->id.value, status.name());
    }
  }
  // The hold stays, and whoever gets it next believes what is on record.
  if (!is_recorded) held_.record_later(inode);
  give_back(inode);
  return status;
}

// Others that were dropped, and removed files, do not wait for a meta that is away.
void Closer::give_back_later(const std::shared_ptr<Inode>& inode) {
  {
    const std::lock_guard lock(inode->control);
    ASSERT(inode->writers > 0);
    --inode->writers;
    if (inode->writers == 0) inode->first_error = Code::ok;
  }
  held_.record_later(inode);
  give_back(inode);
}

void Closer::give_back(const std::shared_ptr<Inode>& inode) {
  core_.table.release(inode);
  // After the release: a call that removes the last name marks it while it is in use, or collects.
  if (inode->unlinked.load(std::memory_order_relaxed)) core_.drops->want_collection();
}

void Closer::give_back_dropped() {
  for (const DropQueue::Dropped& open : core_.drops->take()) {
    if (!open.writer) {
      give_back(open.inode);
      continue;
    }
    if (core_.is_alone()) {
      give_back_later(open.inode);
      continue;
    }
    const Status status = give_back_writer(open.inode);
    static_cast<void>(status);  // Logged; the program that had it open is gone.
  }
}

}  // namespace penstock::client
