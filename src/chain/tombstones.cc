#include "tombstones.h"

#include "updates.h"

namespace penstock::chain {

void Tombstones::part_changed() {
  inherited_.clear();
  due_.clear();
  under_way_ = 0;
  dropped_.clear();
}

void Tombstones::activated(const std::vector<wire::PendingEntry>& pending) {
  if (!core_.part.is_head() || core_.part.view().syncing() != nullptr) return;
  for (const wire::PendingEntry& entry : pending) {
    inherited_.insert({InodeId{entry.inode}, entry.chunk});
  }
  cursor_ = {core_.chain, {}};
  is_last_ = false;
  next_list();
}

void Tombstones::note_dropped(const store::ChainChunk& at) {
  core_.host.dropped.add();
  if (core_.part.syncs()) dropped_.insert(at);
}

void Tombstones::next_list() {
  ASSERT(due_.empty() && under_way_ == 0);
  if (is_last_) return;
  core_.after(core_.host.config.tombstone_pause, [this, version = core_.part.version()] {
    if (version != core_.part.version() || core_.failed) return;
    auto& list = core_.task<store::ListOp>([this, version](Task<store::ListOp>& done) {
      if (version != core_.part.version() || core_.failed) return;
      if (!done.status.ok()) return core_.fail();
      take_list(done.entries);
    });
    list.from = cursor_;
    list.limit = limits::kTombstoneList;
    core_.host.store().submit(list);
  });
}

void Tombstones::take_list(const std::vector<store::ListEntry>& entries) {
  is_last_ = entries.size() < limits::kTombstoneList;
  if (!entries.empty()) cursor_ = after(core_.at(entries.back().chunk));
  for (const store::ListEntry& entry : entries) {
    if (may_go(entry)) due_.push_back(entry);
  }
  drop_some();
}

// What was committed when the version began may be told of by no message of this version. What was
// pending then is sent again in it, under its old name.
bool Tombstones::may_go(const store::ListEntry& entry) const {
  return entry.state.removed && entry.state.committed.chain_version < core_.part.version() &&
         !inherited_.contains(entry.chunk) &&
         core_.host.store().slots_of(core_.at(entry.chunk)).empty();
}

void Tombstones::drop_some() {
  while (!due_.empty() && under_way_ < limits::kDropsAtOnce) {
    const store::ListEntry next = due_.front();
    due_.pop_front();
    // It was in order a moment ago.
    if (!may_go(next)) continue;
    auto ended = [this, version = core_.part.version()] {
      if (version != core_.part.version()) return;
      ASSERT(under_way_ > 0);
      --under_way_;
      drop_some();
    };
    const bool begun =
        core_.updates->drop(core_.at(next.chunk), next.state.committed, std::move(ended));
    under_way_ += begun ? 1 : 0;
  }
  if (due_.empty() && under_way_ == 0) next_list();
}

bool Updates::drop(const store::ChainChunk& at, const UpdateName& committed,
                   std::function<void()> ended) {
  if (chunks_.contains(at) || pending_count_ >= limits::kPendingMax) return false;
  with_committed(
      chunk(at), [this, at, committed, ended = std::move(ended), version = core_.part.version()] {
        if (version != core_.part.version() || core_.failed) return;
        Chunk& known = chunk(at);
        const bool is_idle = known.pending == nullptr && known.waiting.empty() && !known.locked;
        if (!is_idle || *known.committed != committed) return ended();
        // A request that is in no slot any more stands for it; slots go on as they are.
        auto pending = std::make_unique<Pending>();
        pending->name = {version, committed.counter + 1, committed.request};
        pending->parts = {{committed.request, 0, 0, store::UpdateKind::drop}};
        pending->calls.resize(1);
        pending->memory.resize(1);
        known.when_quiet.push_back(ended);
        begin(known, std::move(pending));
      });
  return true;
}

// A chunk's versions only grow; its counters begin anew once its name was dropped.
bool Updates::came_before(const UpdateName& name, const UpdateName& committed) {
  return name.counter < committed.counter && name.chain_version <= committed.chain_version;
}

// Whether what the predecessor says has been done here: it is committed, or came before what is.
bool Updates::is_done(const Chunk& chunk, const wire::ChainForwardRequest& request) {
  const UpdateName& committed = *chunk.committed;
  if (committed == request.name) return true;
  const Pending* const pending = chunk.pending.get();
  const bool is_next =
      pending != nullptr && (pending->name == request.name || pending->name == request.base ||
                             store::name_after(pending->name, pending->parts) == request.base);
  if (is_next) return false;
  // What it takes away is not there any more.
  if ((request.flags & wire::kForwardDrop) != 0) return committed != request.base;
  return came_before(request.name, committed);
}

}  // namespace penstock::chain
