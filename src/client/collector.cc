#include "collector.h"

#include "held_inodes.h"
#include "limits.h"

namespace penstock::client {

void Collector::start() {
  ASSERT(!thread_.joinable());
  thread_ = engine::Thread("penstock-remove", [this] { run(); });
  core_.drops->serve();
}

void Collector::stop() {
  core_.drops->stop();
  if (thread_.joinable()) thread_.join();
}

void Collector::add(InodeId orphan) {
  if (core_.config.owns_recovery) core_.drops->removed.fetch_add(1, std::memory_order_relaxed);
  // While it has users, the last of them asks for the collector when it lets go.
  if (!core_.table.mark_unlinked(orphan)) core_.drops->want_collection();
}

void Collector::take_out(InodeId named) {
  if (const std::shared_ptr<Inode> inode = core_.table.peek(named)) {
    inode->unlinked.store(false, std::memory_order_relaxed);
    inode->named = inode->changes.load(std::memory_order_relaxed);
  }
  if (core_.config.owns_recovery) core_.drops->removed.fetch_sub(1, std::memory_order_relaxed);
}

// As in remove(): the targets have made it durable before the numbers are forgotten.
Status Collector::try_discard(const Discarded& discarded) {
  std::vector<TargetCalls::Removed> files;
  files.reserve(discarded.files.size());
  for (const InodeId id : discarded.files) files.push_back(core_.targets.on_every_chain(id));
  TRY(core_.targets.remove(files));
  if (discarded.held != InodeId{}) core_.written_ids.let_go(discarded.held);
  return Code::ok;
}

void Collector::discard(Discarded discarded) {
  const Status status = try_discard(discarded);
  if (status.ok()) return;
  log::warning("file system: removing files that could not be made: {}; it is tried again later",
               status.name());
  keep(std::move(discarded));
}

void Collector::keep(Discarded discarded) {
  bool is_kept = false;
  {
    const std::lock_guard lock(discarded_mutex_);
    is_kept = discarded_.size() < limits::kDiscardedMax;
    if (is_kept) discarded_.push_back(std::move(discarded));
  }
  if (is_kept) return core_.drops->want_more();
  // The numbers stay held, and the next life of the process looks for their chunks.
  core_.written_ids.leave_to_next_life();
}

Status Collector::discard_kept() {
  std::vector<Discarded> all;
  {
    const std::lock_guard lock(discarded_mutex_);
    all.swap(discarded_);
  }
  Status status;
  for (Discarded& discarded : all) {
    if (status.ok()) status = try_discard(discarded);
    if (!status.ok()) keep(std::move(discarded));
  }
  return status;
}

// Up to `limit` removed files without users. They get none from now on, as there is no name, and
// opening by inode refuses them. Goes on where it ended the last time, since what the database has
// erased before is slow to be walked over, and begins again at the first while more are counted
// than were seen; now and then all the same, as no count stays right when transactions end unknown.
Result<std::vector<InodeId>> Collector::find(size_t limit) {
  if (!core_.config.owns_recovery) return std::vector<InodeId>();
  if (++collections_ % limits::kCollectAllEvery == 0) collected_to_ = {};
  std::vector<InodeId> free;
  const InodeId start = collected_to_;
  InodeId stop{UINT64_MAX};
  int64_t seen = 0;
  while (free.size() < limit) {
    TRY_ASSIGN(const std::vector<InodeId> orphans,
               core_.meta.orphans(limits::kCollectBatch, collected_to_));
    const bool ends = orphans.empty() || orphans.back() > stop;
    for (const InodeId id : orphans) {
      if (id > stop || free.size() == limit) break;
      collected_to_ = id;
      ++seen;
      if (core_.table.is_open(id)) continue;
      const bool is_free = is_ours(id);
      if (!is_free) some_held_elsewhere_.store(true, std::memory_order_relaxed);
      if (is_free) free.push_back(id);
    }
    if (!ends) continue;
    const bool more = seen < core_.drops->removed.load(std::memory_order_relaxed);
    if (start == InodeId{} || stop == start || !more) break;
    collected_to_ = {};
    stop = start;
  }
  ASSERT(free.size() <= limit);
  return free;
}

// Of a removed file that nobody uses. One whose record says that it is all there is, with nothing
// beyond its end, has no chunks but those of its length; see decision 0047 for why that is so.
std::vector<ChainId> Collector::chains_of(InodeId id, const Attributes& found) const {
  const Placement placement(found.layout);
  const Result<bool> unsettled = core_.meta.is_unsettled(id);
  const bool tells_all = !found.sparse && unsettled && !*unsettled;
  return placement.chains_within(tells_all ? found.length : placement.file_bytes_max());
}

Result<uint64_t> Collector::collect(size_t limit) {
  const std::lock_guard one_at_a_time(mutex_);
  closer_.give_back_dropped();
  core_.drops->begin_collection();
  TRY(discard_kept());
  TRY_ASSIGN(std::vector<InodeId> free, find(limit));
  const bool may_be_more = free.size() == limit;
  // A file without a name may have got one, and been closed, since it was found. Now that it has no
  // user, it gets none any more, and nobody writes to it.
  std::vector<TargetCalls::Removed> with_chunks;
  std::erase_if(free, [&](InodeId id) {
    const Result<Attributes> found = core_.meta.attributes(id);
    if (found && found->links != 0) {
      // There may be more to collect than this round of so many looked at.
      core_.drops->want_more();
      return true;
    }
    const bool has_chunks = !found || found->type == meta::FileType::regular;
    // Where they are is not known at this moment: it stays, for a later round.
    if (found && has_chunks && !core_.is_good(found->layout)) return true;
    if (!found) with_chunks.push_back(core_.targets.on_every_chain(id));
    if (found && has_chunks) with_chunks.push_back({id, chains_of(id, *found)});
    return false;
  });
  TRY(remove(free, with_chunks));
  // For another round of the collector's thread.
  if (may_be_more) core_.drops->want_collection();
  return uint64_t{free.size()};
}

// Whether no other agent has it open. Who has is asked by the recall of its hold; and as no name
// leads to it, nobody opens it afterwards.
bool Collector::is_ours(InodeId orphan) {
  Held held(held_);
  if (!held.begin(orphan, holds::Hold::exclusive).ok()) return false;
  const auto& is_in_use_elsewhere = core_.config.is_in_use_elsewhere;
  return !is_in_use_elsewhere || !is_in_use_elsewhere(orphan);
}

// The order matters at a power cut: meta has made the removal of the name durable before the
// chunks go (orphans() says so), and the targets have made the removal of the chunks durable
// before meta forgets the file. So no name ever leads to lost data, and no data to no name.
Status Collector::remove(std::span<const InodeId> free,
                         std::span<const TargetCalls::Removed> with_chunks) {
  ASSERT(with_chunks.size() <= free.size());
  TRY(core_.targets.remove(with_chunks));
  for (size_t i = 0; i < free.size(); i += limits::kForgetBatch) {
    const size_t count = std::min(limits::kForgetBatch, free.size() - i);
    for ([[maybe_unused]] const InodeId id : free.subspan(i, count)) {
      // A recall makes use of it for a moment.
      DASSERT(held_.holding() != nullptr || !core_.table.is_open(id));
    }
    TRY(core_.meta.forget_many(free.subspan(i, count)));
    core_.drops->removed.fetch_sub(static_cast<int64_t>(count), std::memory_order_relaxed);
  }
  return Code::ok;
}

bool Collector::has_something() const {
  if (core_.drops->removed.load(std::memory_order_relaxed) > 0) return true;
  return core_.drops->may_give_way.load(std::memory_order_relaxed) && trash_.give_way &&
         trash_.give_way();
}

bool Collector::make_room() {
  if (!has_something()) return false;
  const Result<uint64_t> collected = collect(limits::kCollectBatch);
  return collected && *collected > 0;
}

// Rounds until nothing is wanted any more; writes that asked for room are answered after each.
Status Collector::collect_all(std::vector<RoomRequest*>& asked) {
  Status status;
  while (core_.drops->collection_wanted() && status.ok() && core_.check_open().ok()) {
    const Result<uint64_t> collected = collect(limits::kCollectBatch);
    if (!collected) status = collected.error();
    const bool any = collected && *collected > 0;
    core_.drops->answer(asked, any ? core_.clock().now() : engine::Time{});
    asked = core_.drops->take_room_requests();
  }
  return status;
}

void Collector::run() {
  Status last;
  while (core_.drops->wait(limits::kCollectRetry)) {
    if (trash_.round) trash_.round();
    closer_.give_back_dropped();
    Status status = core_.accesses.record();
    if (core_.drops->collection_wanted()) core_.drops->wait_for_company();
    std::vector<RoomRequest*> asked = core_.drops->take_room_requests();
    if (!asked.empty() && has_something()) core_.drops->want_more();
    if (status.ok()) status = collect_all(asked);
    core_.drops->answer(asked, engine::Time{});
    // Once per kind of trouble: it is tried again at the next occasion.
    if (!status.ok() && status != last) {
      log::error("file system: removing files: {}; it is tried again later", status.name());
    }
    // Whoever lets go may do so by the end of its lease.
    const bool is_held = some_held_elsewhere_.exchange(false, std::memory_order_relaxed);
    if (!status.ok() || is_held) core_.drops->want_more();
    last = status;
  }
}

}  // namespace penstock::client
