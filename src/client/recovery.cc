// What a dead process left: files whose length was not recorded, and removed files.
#include "file_system.h"

namespace penstock::client {

Outcome<void> FileSystemImpl::recover() {
  const Status swept = written_ids_.recover();
  if (!swept.ok()) {
    return Failure{swept, "file system: looking on the targets for files that a crash took back: " +
                              std::string(swept.name())};
  }
  const Result<std::vector<InodeId>> unsettled = meta_.unsettled();
  if (!unsettled) {
    return Failure{unsettled.error(), "file system: reading which files were being written: " +
                                          std::string(unsettled.error().name())};
  }
  for (const InodeId id : *unsettled) {
    const Status status = recover_file(id);
    if (!status.ok()) {
      return Failure{status, "file system: finding the length of inode " +
                                 std::to_string(id.value) +
                                 ", which was being written: " + std::string(status.name())};
    }
  }
  // For the count only; the collector finds them again by itself.
  InodeId after{};
  while (true) {
    const Result<std::vector<InodeId>> orphans = meta_.orphans(limits::kCollectBatch, after);
    if (!orphans) {
      return Failure{orphans.error(), "file system: reading which files were removed: " +
                                          std::string(orphans.error().name())};
    }
    if (orphans->empty()) break;
    drops_->removed.fetch_add(static_cast<int64_t>(orphans->size()), std::memory_order_relaxed);
    after = orphans->back();
  }
  collect_wanted_.store(true, std::memory_order_relaxed);
  return {};
}

// The file is as long as was recorded, or as its data reaches: a write session exists only while
// nothing behind the end could be anything but bytes written since (see cut.cc and know_tail()).
Status FileSystemImpl::recover_file(InodeId id) {
  const Result<Attributes> found = meta_.attributes(id);
  if (!found) {
    return found.error() == Code::not_found ? meta_.end_write(id) : found.error();
  }
  if (found->links == 0 || found->type != meta::FileType::regular) return meta_.end_write(id);
  if (!Placement::is_good(found->layout, config_.targets.size())) return Code::corrupt;
  TRY_ASSIGN(const uint64_t end, targets_.end_of(id, Placement(found->layout)));
  const bool grows = end > found->length;
  if (!grows && found->sparse) return meta_.end_write(id);
  const meta::Settled settled{.length = std::max(end, found->length),
                              .modified = grows ? now() : found->modified,
                              .only_grow = true,
                              .sparse = true,
                              .end_session = true};
  return meta_.settle(id, settled, false);
}

}  // namespace penstock::client
