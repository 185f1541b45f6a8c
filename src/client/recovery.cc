#include "recovery.h"

#include "limits.h"

namespace penstock::client {

Outcome<void> Recovery::run() {
  if (!core_.config.owns_recovery) {
    core_.written_ids.leave_to_others();
    return {};
  }
  const Status swept = core_.written_ids.recover();
  if (!swept.ok()) {
    return Failure{swept, "file system: looking on the targets for files that a crash took back: " +
                              std::string(swept.name())};
  }
  TRY(settle_all());
  return count_orphans();
}

Outcome<void> Recovery::settle_all() {
  const Result<std::vector<InodeId>> unsettled = core_.meta.unsettled();
  if (!unsettled) {
    return Failure{unsettled.error(), "file system: reading which files were being written: " +
                                          std::string(unsettled.error().name())};
  }
  const auto& is_exclusive_elsewhere = core_.config.is_exclusive_elsewhere;
  for (const InodeId id : *unsettled) {
    if (is_exclusive_elsewhere && is_exclusive_elsewhere(id)) continue;
    const Status status = settle(id);
    if (!status.ok()) {
      return Failure{status, "file system: finding the length of inode " +
                                 std::to_string(id.value) +
                                 ", which was being written: " + std::string(status.name())};
    }
  }
  return {};
}

// For the count only; the collector finds them again by itself.
Outcome<void> Recovery::count_orphans() {
  InodeId after{};
  while (true) {
    const Result<std::vector<InodeId>> orphans = core_.meta.orphans(limits::kCollectBatch, after);
    if (!orphans) {
      return Failure{orphans.error(), "file system: reading which files were removed: " +
                                          std::string(orphans.error().name())};
    }
    if (orphans->empty()) break;
    core_.drops->removed.fetch_add(static_cast<int64_t>(orphans->size()),
                                   std::memory_order_relaxed);
    after = orphans->back();
  }
  core_.drops->want_more();
  return {};
}

// The file is as long as was recorded, or as its data reaches: a write session exists only while
// nothing behind the end could be anything but bytes written since (see Cuts and know_tail()).
Status Recovery::settle(InodeId id) {
  const Result<Attributes> found = core_.meta.attributes(id);
  if (!found) {
    return found.error() == Code::not_found ? core_.meta.end_write(id) : found.error();
  }
  if (found->type != meta::FileType::regular) return core_.meta.end_write(id);
  // What was removed is not looked at: its session tells the collector to ask all chains.
  if (found->links == 0) return Code::ok;
  // Its length is not known before its chains are.
  if (!core_.is_good(found->layout)) return Code::not_serving;
  TRY_ASSIGN(const uint64_t end, core_.targets.end_of(id, Placement(found->layout)));
  const bool grows = end > found->length;
  if (!grows && found->sparse) return core_.meta.end_write(id);
  const meta::Settled settled{.length = std::max(end, found->length),
                              .modified = grows ? core_.now() : found->modified,
                              .only_grow = true,
                              .sparse = true,
                              .end_session = true};
  ASSERT(settled.length >= found->length);
  return core_.meta.settle(id, settled, false);
}

}  // namespace penstock::client
