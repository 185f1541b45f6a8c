#include "live_attributes.h"

#include "held_inodes.h"

namespace penstock::client {

void LiveAttributes::merge(Attributes& attributes, const Inode& inode) const {
  if (!inode.is_known()) return;
  ASSERT(attributes.inode == inode.id);
  attributes.length = inode.visible_length();
  const meta::FileTime modified = inode.modified.load(std::memory_order_relaxed);
  // A write that is yet to be recorded changes both. A time that was set is recorded, and may lie
  // anywhere.
  if (modified != attributes.modified) {
    attributes.changed = std::max(attributes.changed, std::min(modified, core_.now()));
  }
  attributes.modified = modified;
  attributes.sparse = inode.sparse.load(std::memory_order_relaxed);
  attributes.accessed = inode.accessed.load(std::memory_order_relaxed);
}

void LiveAttributes::fill_allocated(Attributes& attributes) {
  const bool has_blocks =
      attributes.type == meta::FileType::regular || attributes.type == meta::FileType::directory;
  attributes.allocated = has_blocks ? align_up(attributes.length, limits::kBlockBytes) : 0;
  if (!attributes.sparse || !core_.is_good(attributes.layout)) return;
  const Result<uint64_t> bytes =
      core_.targets.allocated(attributes.inode, Placement(attributes.layout));
  // A target that does not answer is no reason to know nothing of the file.
  if (bytes) attributes.allocated = *bytes;
}

Result<Attributes> LiveAttributes::of(InodeId inode) {
  Held held(held_);
  const bool may_keep = held.begin_at_once(inode, holds::Hold::shared);
  const uint64_t drops = core_.table.drops();
  Result<Attributes> found = core_.meta.attributes(inode);
  if (may_keep) {
    found = merged_locally(std::move(found), drops);
    if (held.is_good()) return found;
    held.end();
  }
  return merged(std::move(found), drops);
}

// Only files have what another agent may know better than meta: their length and times, as long as
// it writes them. It says that to meta before anybody gets a hold.
Result<Attributes> LiveAttributes::merged(Result<Attributes> found, uint64_t drops_before) {
  const bool is_asked =
      held_.holding() != nullptr && found && found->type == meta::FileType::regular;
  if (!is_asked) return merged_locally(std::move(found), drops_before);
  if (is_true_of_all(*found, drops_before)) {
    core_.accesses.merge(*found);
    fill_allocated(*found);
    return found;
  }
  const InodeId id = found->inode;
  while (true) {
    Held held(held_);
    TRY(held.begin(id, holds::Hold::shared));
    const uint64_t drops = core_.table.drops();
    Result<Attributes> again = merged_locally(core_.meta.attributes(id), drops);
    if (held.is_good()) return again;
  }
}

// What is kept was true when it was looked at, as there was a hold and a lease; and no program here
// knows better, or did since. Where holes are to be counted, the file has to stay as it is
// meanwhile.
bool LiveAttributes::is_true_of_all(const Attributes& found, uint64_t drops_before) const {
  return found.kept && !found.sparse && core_.table.peek(found.inode) == nullptr &&
         core_.table.drops() == drops_before;
}

Result<Attributes> LiveAttributes::merged_locally(Result<Attributes> found, uint64_t drops_before) {
  if (!found) return found;
  core_.accesses.merge(*found);
  if (found->type != meta::FileType::regular) {
    fill_allocated(*found);
    return found;
  }
  while (true) {
    const std::shared_ptr<Inode> inode = core_.table.peek(found->inode);
    if (inode != nullptr && inode->is_known()) {
      // Only the targets know what a file with holes takes up.
      if (inode->sparse.load(std::memory_order_relaxed)) core_.behind.flush(*inode);
      merge(*found, *inode);
      fill_allocated(*found);
      return found;
    }
    const uint64_t drops = core_.table.drops();
    ASSERT(drops >= drops_before);
    if (drops == drops_before) {
      fill_allocated(*found);
      return found;
    }
    // Its last user may have settled and left between the two looks, also where there is another
    // one by now.
    drops_before = drops;
    Result<Attributes> again = core_.meta.attributes(found->inode);
    if (!again) return again;
    found = std::move(again);
    core_.accesses.merge(*found);
  }
}

}  // namespace penstock::client
