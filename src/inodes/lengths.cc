#include "penstock/inodes/lengths.h"

#include <algorithm>

namespace penstock::inodes {

namespace {

// Whether something is to be recorded and made durable.
bool records(const SettleRequest& request) {
  return request.drop_for == nullptr && request.grow_to == 0;
}

}  // namespace

Lengths::Lengths(meta::Meta& meta) : meta_(meta) {
  waiting_.reserve(limits::kSettleQueueMax);
  worker_ = engine::Thread("penstock-length", [this] { run(); });
}

Lengths::~Lengths() {
  stop();
}

void Lengths::settle_later(SettleRequest& request) {
  Status refused;
  {
    const std::lock_guard guard(mutex_);
    if (stop_) {
      refused = Code::closed;
    } else if (waiting_.size() >= limits::kSettleQueueMax) {
      refused = Code::busy;
    } else {
      waiting_.push_back(&request);
    }
  }
  if (!refused.ok()) return request.loop->complete_remote(request, refused);
  arrived_.notify_one();
}

void Lengths::stop() {
  {
    const std::lock_guard guard(mutex_);
    if (std::exchange(stop_, true)) return;
  }
  arrived_.notify_one();
  worker_.join();
  ASSERT(waiting_.empty());
}

void Lengths::run() {
  while (true) {
    {
      std::unique_lock guard(mutex_);
      arrived_.wait(guard, [this] { return stop_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
    }
    serve();
  }
}

// Records the lengths of the oldest requests, makes all durable with one sync, and completes them.
void Lengths::serve() {
  entries_.clear();
  {
    const std::lock_guard guard(mutex_);
    const size_t count = std::min(waiting_.size(), limits::kSettleBatch);
    for (size_t i = 0; i < count; ++i) entries_.push_back({waiting_[i], {}, Code::ok});
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<ptrdiff_t>(count));
  }
  bool any = false;
  for (Entry& entry : entries_) {
    Inode& inode = *entry.request->inode;
    const std::lock_guard guard(inode.control);
    const meta::FileWriter* const drop_for = entry.request->drop_for;
    if (drop_for != nullptr) {
      entry.status = drop_privileges(inode, *drop_for);
    } else if (entry.request->grow_to > 0) {
      entry.status = allow(inode, entry.request->grow_to);
    } else {
      entry.status = record(inode, false, false);
      if (entry.status.ok() && entry.request->widen) entry.status = prepare_to_widen(inode);
      entry.recorded = recorded(inode);
      // What this sync promises is recorded; one without a name is recorded when it gets one.
      ASSERT(!entry.status.ok() || inode.unnamed || entry.request->synced_changes <= inode.settled);
    }
    any |= entry.status.ok() && records(*entry.request);
  }
  const Status synced = any ? meta_.sync() : Code::ok;
  for (Entry& entry : entries_) {
    if (records(*entry.request)) {
      if (entry.status.ok()) entry.status = synced;
      if (entry.status.ok()) note_durable(entry);
    }
    entry.request->loop->complete_remote(*entry.request, entry.status);
  }
}

void Lengths::note_durable(const Entry& entry) {
  const SettleRequest& request = *entry.request;
  Inode& inode = *request.inode;
  const std::lock_guard guard(inode.control);
  note_synced(inode, entry.recorded, request.synced_changes);
  const bool as_recorded = recorded(inode).cuts == entry.recorded.cuts &&
                           recorded(inode).session == entry.recorded.session;
  if (request.widen && as_recorded) inode.reach.store(UINT64_MAX, std::memory_order_relaxed);
}

Status Lengths::record(Inode& inode, bool durable, bool end_session) {
  DASSERT(inode.control.is_held());
  if (inode.unnamed) return Code::ok;
  // Acquire pairs with the release of writers, which move the length first.
  const uint64_t changes = inode.changes.load(std::memory_order_acquire);
  ASSERT(inode.settled <= changes);
  if (inode.fit.load(std::memory_order_relaxed) != holds::Hold::exclusive) {
    // What was counted is in meta, as an attribute; length and times here may be those of before
    // another agent wrote.
    ASSERT(!inode.session);
    inode.settled = changes;
    return Code::ok;
  }
  end_session = end_session && inode.session;
  if (changes == inode.settled && !end_session && !durable) return Code::ok;
  return put(inode, changes, durable, end_session);
}

Status Lengths::put(Inode& inode, uint64_t changes, bool durable, bool end_session) {
  const meta::Settled settled{
      .length = inode.length.load(std::memory_order_relaxed),
      .modified = inode.modified.load(std::memory_order_relaxed),
      .only_grow = false,
      .sparse = inode.sparse.load(std::memory_order_relaxed),
      .end_session = end_session,
  };
  TRY(meta_.settle(inode.id, settled, durable));
  inode.settled = changes;
  inode.settled_length = settled.length;
  inode.settled_sparse = *settled.sparse;
  if (end_session) {
    inode.session = false;
    inode.session_durable.store(false, std::memory_order_relaxed);
    // With it ends what was promised.
    inode.allowed.store(settled.length, std::memory_order_relaxed);
    inode.reach.store(inode.placement.reach_of(settled.length), std::memory_order_relaxed);
  }
  return Code::ok;
}

// Without a session, as after a cut that targets did not make, the record itself has to say that
// blocks may lie beyond the end.
Status Lengths::prepare_to_widen(Inode& inode) {
  DASSERT(inode.control.is_held());
  if (inode.session || inode.unnamed) return Code::ok;
  inode.sparse.store(true, std::memory_order_relaxed);
  return put(inode, inode.changes.load(std::memory_order_acquire), false, false);
}

Status Lengths::allow(Inode& inode, uint64_t length) {
  DASSERT(inode.control.is_held());
  if (inode.unnamed || length <= inode.allowed.load(std::memory_order_relaxed)) return Code::ok;
  TRY_ASSIGN(const uint64_t promised, meta_.reserve(inode.id, length));
  ASSERT(promised >= length);
  inode.allowed.store(promised, std::memory_order_relaxed);
  return Code::ok;
}

Status Lengths::drop_privileges(Inode& inode, const meta::FileWriter& writer) {
  DASSERT(inode.control.is_held());
  // Under the lock: what is counted is what the transaction sees.
  const uint32_t changes = inode.privilege_changes.load(std::memory_order_relaxed);
  TRY_ASSIGN(const meta::PrivilegesTaken taken, meta_.drop_privileges(writer, inode.id));
  inode.capability_dropped.store(changes, std::memory_order_relaxed);
  if (!taken.set_ids_left) inode.set_ids_dropped.store(changes, std::memory_order_relaxed);
  if (!taken.any) return Code::ok;
  inode.privileges_taken.fetch_add(1, std::memory_order_relaxed);
  inode.changes.fetch_add(1, std::memory_order_seq_cst);
  return Code::ok;
}

Status Lengths::begin_session(Inode& inode) {
  DASSERT(inode.control.is_held());
  if (inode.session) return Code::ok;
  TRY_ASSIGN(const uint64_t token, meta_.begin_write(inode.id));
  static_cast<void>(token);
  note_session(inode);
  return Code::ok;
}

Lengths::Recorded Lengths::recorded(const Inode& inode) {
  return {.length = inode.settled_length,
          .cuts = inode.cuts.load(std::memory_order_relaxed),
          .session = inode.session ? inode.session_number : 0};
}

void Lengths::note_synced(Inode& inode, const Recorded& recorded, uint64_t changes) {
  if (inode.cuts.load(std::memory_order_relaxed) == recorded.cuts) {
    const uint64_t known = inode.durable_length.load(std::memory_order_relaxed);
    inode.durable_length.store(std::max(known, recorded.length), std::memory_order_relaxed);
  }
  if (inode.session && inode.session_number == recorded.session) {
    inode.session_durable.store(true, std::memory_order_relaxed);
    inode.reach.store(UINT64_MAX, std::memory_order_relaxed);
  }
  ASSERT(changes <= inode.changes.load(std::memory_order_relaxed));
  const uint64_t known = inode.synced.load(std::memory_order_relaxed);
  // Release pairs with the acquire of a sync that finds nothing left to do.
  inode.synced.store(std::max(known, changes), std::memory_order_release);
}

}  // namespace penstock::inodes
