#include "inode_loader.h"

namespace penstock::client {

Status check_regular(meta::FileType type) {
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

void close_gate(Core& core, Inode& inode) {
  DASSERT(inode.control.is_held());
  WriteGate::Waiter drained;
  struct Waiting {
    engine::Loop* loop = nullptr;
    engine::Op* done = nullptr;
  } waiting;
  const Status status = core.targets.wait([&](engine::Loop& loop, engine::Op& done) {
    waiting = {&loop, &done};
    drained.loop = &loop;
    drained.owner = &waiting;
    drained.completion = [](engine::Op& op) {
      auto& self = op.owner_as<Waiting>();
      self.loop->complete(*self.done, Code::ok);
    };
    inode.gate.close(drained);
  });
  ASSERT(status.ok());
}

Status InodeLoader::load(Inode& inode, const Attributes& attributes, bool unnamed) {
  DASSERT(inode.control.is_held());
  ASSERT(!inode.loaded.load(std::memory_order_relaxed));
  ASSERT(inode.writers == 0 && !inode.session);
  TRY(check_regular(attributes.type));
  // An orphan without users may be in the collector's hands already.
  if (attributes.links == 0 && !unnamed) return Code::stale;
  if (!core_.is_good(attributes.layout)) {
    log::error(
        "inode {}: its layout (2^{} byte chunks on {} chains from {} on, {} listed) names chains "
        "that are not among the {} that this node knows",
        inode.id.value, attributes.layout.chunk_bytes_log2, attributes.layout.chain_count,
        attributes.layout.chain_first, attributes.layout.chains.size(),
        core_.config.chains->size());
    return Code::not_serving;
  }
  inode.placement = Placement(attributes.layout);
  take_over(inode, attributes);
  inode.loaded.store(true, std::memory_order_release);
  return Code::ok;
}

Status InodeLoader::reload(Inode& inode, const Attributes& attributes) {
  DASSERT(inode.control.is_held());
  ASSERT(inode.loaded.load(std::memory_order_relaxed));
  ASSERT(!inode.session && inode.fit.load(std::memory_order_relaxed) == holds::Hold::none);
  TRY(check_regular(attributes.type));
  take_over(inode, attributes);
  // What others have changed is not known to be durable, or to have nothing behind its end.
  inode.durable_length.store(0, std::memory_order_relaxed);
  inode.tail_known = inode.fresh = false;
  inode.stray.store(false, std::memory_order_relaxed);
  uint32_t given = 0;
  {
    const std::lock_guard taking(inode.behind.mutex);
    given = inode.privilege_changes.fetch_add(1, std::memory_order_release) + 1;
  }
  if ((attributes.mode & kSetIdBits) == 0) {
    inode.set_ids_dropped.store(given, std::memory_order_relaxed);
  }
  if (!attributes.has_xattrs) inode.capability_dropped.store(given, std::memory_order_relaxed);
  inode.cuts.fetch_add(1, std::memory_order_release);
  inode.settled = inode.changes.fetch_add(1, std::memory_order_seq_cst) + 1;
  return Code::ok;
}

// What meta has recorded.
void InodeLoader::take_over(Inode& inode, const Attributes& attributes) {
  inode.length.store(attributes.length, std::memory_order_release);
  inode.settled_length = attributes.length;
  inode.allowed.store(attributes.length, std::memory_order_relaxed);
  inode.reach.store(inode.placement.reach_of(attributes.length), std::memory_order_relaxed);
  inode.spread.store(attributes.length > inode.placement.chunk_bytes(), std::memory_order_relaxed);
  inode.modified.store(attributes.modified, std::memory_order_relaxed);
  Attributes merged = attributes;
  core_.accesses.merge(merged);
  load_accessed(inode, merged);
  inode.sparse.store(attributes.sparse, std::memory_order_relaxed);
  inode.settled_sparse = attributes.sparse;
}

void InodeLoader::load_accessed(Inode& inode, const Attributes& attributes) {
  const bool never = (attributes.flags & meta::kInodeNoAtime) != 0;
  inode.accessed.store(attributes.accessed, std::memory_order_relaxed);
  inode.no_access_times.store(never, std::memory_order_relaxed);
  inode.access_due.store(!never && client::access_is_due(attributes, core_.now()),
                         std::memory_order_relaxed);
}

Status InodeLoader::know_tail(Inode& inode) {
  ASSERT(inode.loaded.load(std::memory_order_relaxed));
  const bool stray = inode.stray.exchange(false, std::memory_order_relaxed);
  if (inode.tail_known && !stray) return Code::ok;
  const bool writers = inode.writers > 0;
  if (writers) close_gate(core_, inode);
  Status status;
  const Result<uint64_t> end = core_.targets.end_of(inode.id, inode.placement);
  const uint64_t length = inode.length.load(std::memory_order_relaxed);
  if (!end) {
    status = end.error();
  } else if (*end > length) {
    status = core_.targets.clear_beyond(inode.id, inode.placement, {length, *end}, true);
  }
  if (writers) inode.gate.open();
  inode.tail_known = status.ok();
  return status;
}

void InodeLoader::know_density(Inode& inode) {
  ASSERT(inode.writers == 0);
  if (!inode.sparse.load(std::memory_order_relaxed) || inode.settled_sparse) return;
  const uint64_t length = inode.length.load(std::memory_order_relaxed);
  const Result<uint64_t> allocated = core_.targets.allocated(inode.id, inode.placement);
  const bool dense = allocated && *allocated == align_up(length, limits::kBlockBytes);
  if (dense && inode.tail_known && !inode.stray.load(std::memory_order_relaxed)) {
    inode.sparse.store(false, std::memory_order_relaxed);
  }
}

}  // namespace penstock::client
