#include "file_system.h"

namespace penstock::client {

void DropQueue::dropped(std::shared_ptr<Inode> inode, bool writer) {
  {
    const std::lock_guard lock(mutex_);
    dropped_.push_back({std::move(inode), writer});
    if (dropped_.size() > 1) return;
  }
  arrived_.notify_one();
}

std::vector<DropQueue::Dropped> DropQueue::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(dropped_, {});
}

bool DropQueue::wait(engine::Duration at_most) {
  std::unique_lock lock(mutex_);
  arrived_.wait_for(lock, at_most, [this] { return stopped_ || woken_ || !dropped_.empty(); });
  woken_ = false;
  return !stopped_;
}

void DropQueue::wake() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(woken_, true)) return;
  }
  arrived_.notify_one();
}

void DropQueue::wait_for_company() {
  std::unique_lock lock(mutex_);
  arrived_.wait_for(lock, limits::kCollectCompany, [this] { return stopped_ || hurried_; });
  hurried_ = false;
}

void DropQueue::hurry() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = hurried_ = true;
  }
  // Each time: it is rare, and which of the two waits is under way is not known.
  arrived_.notify_one();
}

void DropQueue::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  arrived_.notify_one();
  std::vector<RoomRequest*> asked = take_room_requests();
  answer(asked, engine::Time{});
}

bool DropQueue::ask_for_room(RoomRequest& request, engine::Time now) {
  if (!served_.load(std::memory_order_relaxed)) return false;
  if (removed.load(std::memory_order_relaxed) <= 0 &&
      now - collected_.load(std::memory_order_relaxed) > limits::kCollectedLately) {
    return false;
  }
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return false;
    asked_.push_back(&request);
  }
  hurry();
  return true;
}

std::vector<RoomRequest*> DropQueue::take_room_requests() {
  const std::lock_guard lock(mutex_);
  return std::exchange(asked_, {});
}

void DropQueue::answer(std::vector<RoomRequest*>& asked, engine::Time now) {
  if (now != engine::Time{}) collected_.store(now, std::memory_order_relaxed);
  for (RoomRequest* const request : asked) request->loop->complete_remote(*request, Code::ok);
  asked.clear();
}

Outcome<std::unique_ptr<FileSystem>> FileSystem::open(meta::Meta& meta, FileSystemConfig config) {
  if (config.shards.empty() || config.targets.empty() || config.caller == nullptr) {
    return Failure{Code::invalid_argument,
                   "file system: it needs a shard, a target and a way to call them"};
  }
  auto made = std::make_unique<FileSystemImpl>(meta, std::move(config));
  auto recovered = made->recover();
  if (!recovered) return recovered.error();
  made->start();
  return std::unique_ptr<FileSystem>(std::move(made));
}

FileSystemImpl::FileSystemImpl(meta::Meta& meta, FileSystemConfig config)
    : meta_(meta),
      config_(std::move(config)),
      lengths_(meta_, config_.threads),
      accesses_(meta_),
      targets_(config_),
      written_ids_(meta_, targets_, config_.written_ids_step),
      behind_(
          config_,
          [this](const Gathered& gathered, bool durable) {
            return put_gathered(gathered, durable);
          },
          [this](const Gathered& gathered) { tell_lost(gathered); }),
      plane_{config_.targets, &lengths_, &observers_, &accesses_,
             &behind_,        &company_, &table_,     drops_} {
  clients_.reserve(config_.shards.size());
  for (const Shard& shard : config_.shards) {
    clients_.push_back(std::make_unique<ShardClient>(*shard.loop, *shard.net, plane_));
  }
}

// Without close() before it this is as a crash: nothing more is settled.
FileSystemImpl::~FileSystemImpl() {
  closed_.store(true, std::memory_order_relaxed);
  drops_->stop();
  if (housekeeper_.joinable()) housekeeper_.join();
  lengths_.stop();
}

void FileSystemImpl::start() {
  if (!config_.threads) return;
  housekeeper_ = std::thread([this] { housekeeping(); });
  drops_->serve();
  behind_.start();
  drops_->wake();
}

void FileSystemImpl::close() {
  behind_.stop();
  if (closed_.exchange(true, std::memory_order_relaxed)) return;
  drops_->stop();
  if (housekeeper_.joinable()) housekeeper_.join();
  give_back_dropped();
  Status settled = settle_all_ended();
  if (settled.ok()) settled = accesses_.record();
  if (settled.ok()) settled = written_ids_.close();
  if (!settled.ok()) {
    log::error("file system: closing: lengths of open files could not be recorded: {}",
               settled.name());
  }
  lengths_.stop();
}

Status FileSystemImpl::settle_all_ended() {
  // The targets first: a length that is recorded as final must not be ahead of its data.
  TRY(targets_.sync_all());
  Status first;
  for (const std::shared_ptr<Inode>& inode : table_.acquire_all()) {
    {
      const std::lock_guard lock(inode->control);
      if (inode->loaded.load(std::memory_order_relaxed)) {
        const Status recorded = lengths_.record(*inode, false, true);
        if (first.ok()) first = recorded;
      }
    }
    table_.release(inode);
  }
  const Status synced = meta_.sync();
  return first.ok() ? synced : first;
}

FileSystemStatus FileSystemImpl::status() {
  FileSystemStatus status;
  if (config_.space) {
    const engine::DiskSpace space = config_.space();
    status.total_bytes = space.total_bytes;
    status.free_bytes = space.free_bytes;
  }
  if (const auto counts = meta_.counts()) status.inodes = counts->inodes;
  status.open_files = table_.open_count();
  const int64_t waiting = drops_->removed.load(std::memory_order_relaxed);
  status.removed_waiting = waiting > 0 ? static_cast<uint64_t>(waiting) : 0;
  return status;
}

void FileSystemImpl::add_observer(Observer& observer) {
  observers_.add(observer);
}

void FileSystemImpl::remove_observer(Observer& observer) {
  const uint32_t bit = observers_.remove(observer);
  if (bit != 0) table_.unwatch_all(bit);
}

void FileSystemImpl::watch(InodeId inode, Observer& observer) {
  const uint32_t bit = observers_.bit_of(observer);
  if (bit != 0) table_.watch(inode, bit);
}

void FileSystemImpl::unwatch(InodeId inode, Observer& observer) {
  const uint32_t bit = observers_.bit_of(observer);
  if (bit != 0) table_.unwatch(inode, bit);
}

void FileSystemImpl::tell_changed(InodeId inode, uint64_t offset, uint64_t length, Observer* self) {
  const uint32_t watchers = table_.watchers(inode);
  if (!observers_.concerns(watchers, self)) return;
  const Status told = targets_.wait([&](engine::Loop& loop, engine::Op& done) {
    observers_.data_changed(watchers, self, inode, offset, length,
                            [&loop, &done] { loop.complete_remote(done, Code::ok); });
  });
  static_cast<void>(told);  // It carries no news: the change has happened.
}

void FileSystemImpl::tell_entry(InodeId parent, std::string_view name, Observer* self) {
  const uint32_t watchers = table_.watchers(parent);
  if (watchers != 0) observers_.entry_changed(watchers, self, parent, name);
}

InodeId inode_of(const OpenFile& file) {
  return file.inode().id;
}
bool may_read(const OpenFile& file) {
  return file.may_read();
}
bool may_write(const OpenFile& file) {
  return file.may_write();
}
bool access_is_due(const OpenFile& file) {
  return file.access_is_due();
}
bool may_lose_privileges(const OpenFile& file, bool keeps_set_ids) {
  return file.inode().may_lose_privileges(keeps_set_ids);
}
uint32_t privileges_taken(const OpenFile& file) {
  return file.inode().privileges_taken.load(std::memory_order_relaxed);
}
uint64_t length_of(const OpenFile& file) {
  return file.inode().visible_length();
}

}  // namespace penstock::client
