// Removes the chunks of removed files.
#include "file_system.h"

namespace penstock::client {

// Removed files that nobody uses, up to `limit`: nobody opens them from now on, as there is no
// name, and prepare() refuses by inode. Goes on where it ended the last time, since what the
// database has erased before is slow to be walked over, and begins again at the first while more
// are counted than were seen; now and then all the same, as no count stays right when transactions
// end unknown.
Result<std::vector<InodeId>> FileSystemImpl::find_removed(size_t limit) {
  if (++collections_ % limits::kCollectAllEvery == 0) collected_to_ = {};
  std::vector<InodeId> free;
  const InodeId start = collected_to_;
  InodeId stop{UINT64_MAX};
  int64_t seen = 0;
  while (free.size() < limit) {
    TRY_ASSIGN(const std::vector<InodeId> orphans,
               meta_.orphans(limits::kCollectBatch, collected_to_));
    const bool ends = orphans.empty() || orphans.back() > stop;
    for (const InodeId id : orphans) {
      if (id > stop || free.size() == limit) break;
      collected_to_ = id;
      ++seen;
      if (!table_.is_open(id)) free.push_back(id);
    }
    if (!ends) continue;
    const bool more = seen < drops_->removed.load(std::memory_order_relaxed);
    if (start == InodeId{} || stop == start || !more) break;
    collected_to_ = {};
    stop = start;
  }
  return free;
}

// The order matters at a power cut: meta has made the removal of the name durable before the
// chunks go (orphans() says so), and the targets have made the removal of the chunks durable
// before meta forgets the file. So no name ever leads to lost data, and no data to no name.
Result<uint64_t> FileSystemImpl::collect(size_t limit) {
  const std::lock_guard one_at_a_time(collect_mutex_);
  give_back_dropped();
  collect_wanted_.store(false, std::memory_order_relaxed);
  TRY_ASSIGN(std::vector<InodeId> free, find_removed(limit));
  // A file without a name may have got one, and been closed, since it was found. Now that nobody
  // uses it, it gets none any more.
  std::vector<InodeId> with_chunks;
  std::erase_if(free, [&](InodeId id) {
    const Result<Attributes> found = meta_.attributes(id);
    if (found && found->links != 0) {
      // There may be more to collect than this round of so many looked at.
      collect_wanted_.store(true, std::memory_order_relaxed);
      return true;
    }
    if (!found || found->type == meta::FileType::regular) with_chunks.push_back(id);
    return false;
  });
  for (size_t i = 0; i < with_chunks.size(); i += limits::kSweepBatch) {
    const size_t count = std::min(limits::kSweepBatch, with_chunks.size() - i);
    TRY(targets_.remove(std::span(with_chunks).subspan(i, count)));
  }
  if (!with_chunks.empty()) TRY(targets_.sync_all());
  for (size_t i = 0; i < free.size(); i += limits::kForgetBatch) {
    const size_t count = std::min(limits::kForgetBatch, free.size() - i);
    TRY(meta_.forget_many(std::span(free).subspan(i, count)));
    drops_->removed.fetch_sub(static_cast<int64_t>(count), std::memory_order_relaxed);
  }
  return uint64_t{free.size()};
}

// For who has met a full disk: true if it is worth another try. Some files at a time: there may be
// millions, and the first of them room enough.
bool FileSystemImpl::make_room() {
  if (drops_->removed.load(std::memory_order_relaxed) <= 0) return false;
  const Result<uint64_t> collected = collect(limits::kCollectBatch);
  return collected && *collected > 0;
}

void FileSystemImpl::housekeeping() {
  const engine::Clock& clock = config_.shards.front().loop->clock();
  Status last;
  while (drops_->wait(limits::kCollectRetry)) {
    give_back_dropped();
    Status status = accesses_.record();
    if (collect_wanted_.load(std::memory_order_relaxed)) drops_->wait_for_company();
    std::vector<RoomRequest*> asked = drops_->take_room_requests();
    while (collect_wanted_.load(std::memory_order_relaxed) && status.ok() &&
           !closed_.load(std::memory_order_relaxed)) {
      const Result<uint64_t> collected = collect(limits::kCollectBatch);
      if (!collected) {
        status = collected.error();
      } else if (*collected == limits::kCollectBatch) {
        collect_wanted_.store(true, std::memory_order_relaxed);
      }
      const bool any = collected && *collected > 0;
      drops_->answer(asked, any ? clock.now() : engine::Time{});
      asked = drops_->take_room_requests();
    }
    drops_->answer(asked, engine::Time{});
    // Once per kind of trouble: it is tried again at the next occasion.
    if (!status.ok() && status != last) {
      log::error("file system: removing files: {}; it is tried again later", status.name());
    }
    if (!status.ok()) collect_wanted_.store(true, std::memory_order_relaxed);
    last = status;
  }
}

}  // namespace penstock::client
