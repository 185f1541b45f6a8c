#include "committer.h"

#include "core.h"

#include <algorithm>

namespace penstock::store {
Committer::Committer(Core& core) : core_(core) {
  for (Group& group : groups_) {
    group.core = &core;
    group.home = &core.loop;
    group.owner = &group;
    group.completion = [](engine::Op& op) {
      Group& done = op.owner_as<Group>();
      done.core->committer.on_committed(done);
    };
    for (size_t i = 0; i < group.sync_ops.size(); ++i) {
      Group::FileSync& op = group.sync_ops[i];
      op.kind = engine::DiskOpKind::sync;
      op.owner = &group;
      op.completion = [](engine::Op& done) {
        Group& its = done.owner_as<Group>();
        its.core->committer.on_synced(its, static_cast<Group::FileSync&>(done));
      };
      group.idle_syncs[i] = &op;
    }
  }
  queue_.reserve(limits::kGroups);
  gathering_ = &groups_[0];
  gathering_->stage = Group::Stage::gathering;
  timer_.owner = start_op_.owner = retry_timer_.owner = this;
  retry_timer_.completion = [](engine::Op& op) { op.owner_as<Committer>().retry(); };
  retrying_.reserve(limits::kCommitsAtOnce);
  timer_.completion = [](engine::Op& op) { op.owner_as<Committer>().kick(); };
  start_op_.completion = [](engine::Op& op) { op.owner_as<Committer>().start(); };
}

Committer::~Committer() {
  core_.loop.cancel(timer_);
  core_.loop.cancel(retry_timer_);
  if (start_op_.linked()) start_op_.unlink();
  while (room_waiters_.pop_front() != nullptr) continue;
  for (Group& group : groups_) {
    while (group.waiters.pop_front() != nullptr) continue;
    while (group.doomed.pop_front() != nullptr) continue;
  }
}

// Before the first change of the group that gathers.
void Committer::begin_group() {
  if (gathering_->has_changes()) return;
  core_.loop.cancel(timer_);
  core_.loop.start(timer_, core_.loop.now() + limits::kCommitDelay);
}

void Committer::add_chain_records(const ChainChunk& at, std::vector<ChainRecord> records) {
  Group& group = *gathering_;
  ASSERT(group.stage == Group::Stage::gathering && !records.empty());
  begin_group();
  for (ChainRecord& record : records) {
    group.chain_bytes += record.value.size();
    const auto [known, is_new] = group.chain_records.try_emplace(std::move(record.key));
    if (is_new) group.chain_bytes += known->first.size();
    group.chain_bytes -= known->second.size();
    known->second = std::move(record.value);
  }
  group.chain_chunks.push_back(at);
  group.chain_bytes += sizeof(at);
}

void Committer::add(CachedMap& map) {
  Group& group = *gathering_;
  ASSERT(group.stage == Group::Stage::gathering && map.pins > 0);
  if (!map.gathered) {
    ASSERT(map.pending < limits::kGroups);
    map.gathered = true;
    ++map.pending;
    begin_group();
    group.maps.push_back(&map);
  }
  if (group.maps.size() >= limits::kGroupMapsStart) kick();
}

void Committer::add_freed(BlockRun run) {
  auto& freed = gathering_->freed;
  if (!freed.empty() && freed.back().first + freed.back().count == run.first) {
    freed.back().count += run.count;
  } else {
    freed.push_back(run);
  }
}

void Committer::add_block(BlockNumber physical) {
  const uint32_t file = DataFiles::index_of(physical);
  auto& files = gathering_->files;
  ++gathering_->new_blocks;
  // A handful at most: a group writes to one or two data files.
  if (std::find(files.begin(), files.end(), file) == files.end()) files.push_back(file);
}

void Committer::wait_for_room(Request& request) {
  room_waiters_.push_back(request);
  kick();
}

void Committer::wait(engine::Op& op) {
  if (!core_.failed.ok()) {
    core_.loop.complete(op, core_.refusal());
  } else if (full_ && (gathering_->has_changes() || !queue_.empty())) {
    core_.loop.complete(op, Code::no_space);
  } else if (gathering_->has_changes()) {
    gathering_->waiters.push_back(op);
    kick();
  } else if (!queue_.empty()) {
    queue_.back()->waiters.push_back(op);
  } else {
    core_.loop.complete(op, Code::ok);
  }
}

bool Committer::holds(InodeId inode) const {
  for (const Group& group : groups_) {
    if (inode == InodeId{} && group.has_changes()) return true;
    for (const CachedMap* map : group.maps) {
      if (map->key.chunk.inode == inode) return true;
    }
  }
  return false;
}

bool Committer::holds(const ChainChunk& at) const {
  return std::any_of(groups_.begin(), groups_.end(), [&at](const Group& group) {
    return std::any_of(group.maps.begin(), group.maps.end(), [&at](const CachedMap* map) {
      return map->key.chain == at.chain && map->key.chunk == at.chunk;
    });
  });
}

bool Committer::holds_unlogged(InodeId inode) const {
  const size_t bit = bit_of(inode);
  return std::any_of(groups_.begin(), groups_.end(),
                     [bit](const Group& group) { return group.unlogged.test(bit); });
}

bool Committer::holds_unlogged(const ChainChunk& at) const {
  const size_t bit = bit_of(at);
  return std::any_of(groups_.begin(), groups_.end(),
                     [bit](const Group& group) { return group.unlogged_chunks.test(bit); });
}

void Committer::note_unlogged(const ChainChunk& at) {
  gathering_->unlogged.set(bit_of(at.chunk.inode));
  gathering_->unlogged_chunks.set(bit_of(at));
}

size_t Committer::bit_of(const ChainChunk& at) {
  const uint64_t place = uint64_t{at.chain.value} << 32 | at.chunk.index;
  return mix64(mix64(at.chunk.inode.value) ^ place) % limits::kGroupInodes;
}

void Committer::wait_for_mark(engine::Op& op, Status status) {
  op.status = status;
  gathering_->doomed.push_back(op);
  kick();
}

bool Committer::holds_freed() const {
  return std::any_of(groups_.begin(), groups_.end(),
                     [](const Group& group) { return !group.freed.empty(); });
}

void Committer::kick() {
  gathering_->wanted = true;
  schedule_start();
}

void Committer::schedule_start() {
  if (!start_op_.linked()) core_.loop.complete(start_op_, Code::ok);
}

bool Committer::idle() const {
  return queue_.empty() && !gathering_->has_changes() && gathering_->doomed.empty() &&
         std::all_of(groups_.begin(), groups_.end(),
                     [](const Group& group) { return group.syncs == 0; });
}

Group* Committer::idle_group() {
  for (Group& group : groups_) {
    if (group.stage == Group::Stage::idle) return &group;
  }
  return nullptr;
}

void Committer::start() {
  Group& group = *gathering_;
  if (nothing_to_commit()) group.wanted = false;
  Group* const next = idle_group();
  const bool large = group.new_blocks >= limits::kGroupBlocksLarge;
  if (!core_.failed.ok() || !group.wanted || next == nullptr ||
      syncing_ >= (large ? limits::kGroupsSyncing : 1)) {
    core_.write_log.resume();
    return;
  }
  if (core_.write_log.in_use() && !core_.write_log.quiesce()) return;
  core_.loop.cancel(timer_);
  ASSERT(group.stage == Group::Stage::gathering && group.syncs == 0);
  ASSERT(!next->has_changes() && next->freed.empty() && next->waiters.empty());
  encode(group);
  group.stage = Group::Stage::syncing;
  queue_.push_back(&group);
  ++syncing_;
  gathering_ = next;
  next->stage = Group::Stage::gathering;
  while (Request* request = room_waiters_.pop_front()) core_.resume_later(*request);
  core_.write_log.resume();
  next_syncs(group);
}

bool Committer::nothing_to_commit() const {
  return !gathering_->has_changes() && gathering_->doomed.empty() &&
         !core_.write_log.wants_commit();
}

void Committer::encode(Group& group) {
  if (core_.write_log.in_use()) group.mark = core_.write_log.close();
  group.records.clear();
  group.lengths.clear();
  for (CachedMap* map : group.maps) {
    ASSERT(map->gathered && map->pending > 0);
    map->gathered = false;
    group.encode(*map);
  }
}

void Committer::next_syncs(Group& group) {
  while (group.next_file < group.files.size() && group.syncs < limits::kGroupSyncs &&
         group.sync_status.ok() && !group.abandoned) {
    Group::FileSync& op = *group.idle_syncs[limits::kGroupSyncs - 1 - group.syncs];
    ++group.syncs;
    op.file = core_.files.file(group.files[group.next_file++]);
    core_.disk.submit(op);
  }
  if (group.syncs > 0) return;
  if (group.abandoned) {
    recycle(group);
    core_.check_closed();
    return;
  }
  ASSERT(group.stage == Group::Stage::syncing && syncing_ > 0);
  --syncing_;
  group.stage = Group::Stage::synced;
  commit_ready();
  start();
}

void Committer::on_synced(Group& group, Group::FileSync& op) {
  if (!op.status.ok() && group.sync_status.ok()) group.sync_status = op.status;
  ASSERT(group.syncs > 0);
  --group.syncs;
  group.idle_syncs[limits::kGroupSyncs - 1 - group.syncs] = &op;
  next_syncs(group);
}

// Whether no group that is being committed holds one of its maps, or records of chains as it does.
bool Committer::ready(const Group& group) const {
  if (committing_chains_ && !group.chain_records.empty()) return false;
  return std::none_of(group.maps.begin(), group.maps.end(),
                      [](const CachedMap* map) { return map->committing; });
}

// The groups that can be committed together now, as a list; null if the next one cannot.
Group* Committer::take_batch() {
  Group* first = nullptr;
  Group* last = nullptr;
  while (submitted_ < queue_.size()) {
    Group& group = *queue_[submitted_];
    if (group.stage != Group::Stage::synced) break;
    if (!group.sync_status.ok()) {
      // Those before it end as they would have without it.
      if (first == nullptr) {
        begin_failure(group, group.sync_status);
        if (committing_ == 0) finish_failure();
      }
      break;
    }
    if (!ready(group)) break;
    // Were this committed and what is under way not, its mark would leave out records whose maps
    // are missing.
    const bool due = group.mark && core_.write_log.is_due(*group.mark);
    if (due && committing_ > 0) break;
    if (!due) group.mark.reset();
    group.stage = Group::Stage::committing;
    group.batch_next = nullptr;
    (first == nullptr ? first : last->batch_next) = &group;
    last = &group;
    ++submitted_;
  }
  return first;
}

// Takes groups into the second stage, in order.
void Committer::commit_ready() {
  while (core_.failed.ok() && committing_ < limits::kCommitsAtOnce) {
    Group* const first = take_batch();
    if (first == nullptr) return;
    for (Group* group = first; group != nullptr; group = group->batch_next) {
      for (CachedMap* map : group->maps) map->committing = true;
      committing_chains_ |= !group->chain_records.empty();
      ASSERT(group->sync_status.ok() && group->next_file == group->files.size());
    }
    ++committing_;
    first->mode = engine::KvMode::write_durable;
    first->attempts = 0;
    core_.kv.submit(*first);
  }
}

// Whether a commit that had no effect is on its way once more.
bool Committer::try_again(Group& group) {
  if (!core_.failed.ok()) return false;
  const Code code = group.status.code();
  // Closing must come to an end. Nothing is lost that was acknowledged.
  if (code == Code::no_space && !core_.closing) {
    wait_for_space(group);
    return true;
  }
  ++group.attempts;
  if ((code != Code::busy && code != Code::conflict) ||
      group.attempts >= limits::kCommitAttemptsMax) {
    return false;
  }
  core_.kv.submit(group);
  return true;
}

void Committer::wait_for_space(Group& group) {
  if (no_space_since_ == engine::kNever) {
    no_space_since_ = core_.loop.now();
    log::warning(
        "store: {}: no space for a commit; updates wait (make room on the file system of the "
        "database)",
        core_.config.directory);
  }
  if (!full_ && core_.loop.now() - no_space_since_ >= limits::kCommitPatience) become_full();
  if (retrying_.empty()) {
    core_.loop.start(retry_timer_, core_.loop.now() + limits::kCommitRetryDelay);
  }
  retrying_.push_back(&group);
}

void Committer::retry() {
  // All batches are tried again, so that none waits for ever behind another.
  std::array<Group*, limits::kCommitsAtOnce> groups{};
  const size_t count = retrying_.size();
  ASSERT(count <= groups.size());
  std::copy(retrying_.begin(), retrying_.end(), groups.begin());
  retrying_.clear();
  for (size_t i = 0; i < count; ++i) core_.kv.submit(*groups[i]);
}

void Committer::become_full() {
  full_ = true;
  core_.counters.full.set(1);
  for (Group* group : queue_) complete_all(group->waiters, Code::no_space);
  complete_all(gathering_->waiters, Code::no_space);
  while (Request* request = room_waiters_.pop_front()) core_.resume_later(*request);
  core_.updater.space_changed();
}

void Committer::found_space() {
  no_space_since_ = engine::kNever;
  if (!std::exchange(full_, false)) return;
  core_.counters.full.set(0);
  log::warning("store: {}: there is space for commits again", core_.config.directory);
}

void Committer::on_committed(Group& first) {
  if (!first.status.ok() && try_again(first)) return;
  ASSERT(committing_ > 0);
  --committing_;
  for (Group* group = &first; group != nullptr;) {
    Group* const next = std::exchange(group->batch_next, nullptr);
    ASSERT(group->stage == Group::Stage::committing);
    for (CachedMap* map : group->maps) map->committing = false;
    if (!group->chain_records.empty()) committing_chains_ = false;
    if (first.status.ok()) {
      on_group_committed(*group);
    } else {
      group->stage = Group::Stage::failed;
    }
    group = next;
  }
  core_.counters.commits.add();
  if (first.status.ok()) {
    found_space();
    end_committed();
  } else {
    begin_failure(first, first.status);
  }
  if (core_.failed.ok()) {
    commit_ready();
    start();
  } else if (committing_ == 0) {
    finish_failure();
  }
  core_.updater.space_changed();
  core_.check_closed();
}

void Committer::on_group_committed(Group& group) {
  for (CachedMap* map : group.maps) {
    ASSERT(map->pending > 0 && map->in_table);
    if (--map->pending > 0) continue;
    map->logged = false;
    core_.index.release_if_unused(*map);
  }
  group.maps.clear();
  for (const ChainChunk& at : group.chain_chunks) core_.chains.on_saved(at);
  group.chain_records.clear();
  group.chain_chunks.clear();
  group.unlogged.reset();
  group.unlogged_chunks.reset();
  if (group.mark) core_.write_log.on_committed(*group.mark);
  group.stage = Group::Stage::committed;
  if (!group.freed.empty()) core_.reclaim.retire(group.freed);
}

// An operation that waits for a group waits for those before it, too.
void Committer::end_committed() {
  while (!queue_.empty() && queue_.front()->stage == Group::Stage::committed) {
    Group& group = *queue_.front();
    queue_.erase(queue_.begin());
    ASSERT(submitted_ > 0 && !group.has_changes() && group.freed.empty());
    --submitted_;
    complete_all(group.waiters, Code::ok);
    end_doomed(group);
    recycle(group);
  }
}

void Committer::end_doomed(Group& group) {
  while (engine::Op* op = group.doomed.pop_front()) core_.loop.complete(*op, op->status);
}

void Committer::complete_all(IntrusiveList<engine::Op>& list, Status status) {
  while (engine::Op* op = list.pop_front()) core_.loop.complete(*op, status);
}

void Committer::recycle(Group& group) {
  ASSERT(group.syncs == 0 && group.waiters.empty() && group.doomed.empty());
  group.stage = Group::Stage::idle;
  group.wanted = group.abandoned = false;
  group.sync_status = Code::ok;
  group.next_file = 0;
  group.new_blocks = 0;
  group.maps.clear();
  group.freed.clear();
  group.chain_records.clear();
  group.chain_chunks.clear();
  group.chain_bytes = 0;
  group.files.clear();
  group.lengths.clear();
  group.unlogged.reset();
  group.unlogged_chunks.reset();
  group.mark.reset();
}

}  // namespace penstock::store
