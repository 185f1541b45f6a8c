#include "penstock/node_cache/node_cache.h"

#include <algorithm>
#include <fmt/format.h>

namespace penstock::node_cache {

using arena::kExtentBytes;
using arena::Segment;

NodeCache::NodeCache(const NodeCacheConfig& config)
    : files_(*config.files),
      buffers_(*config.buffers),
      network_(config.network),
      loop_(*config.loop) {
  tidy_op_.owner = this;
  tidy_op_.completion = [](engine::Op& op) { op.owner_as<NodeCache>().tidy(); };
  renewal_.owner = renew_op_.owner = this;
  renewal_.completion = [](engine::Op& op) {
    auto& self = op.owner_as<NodeCache>();
    self.renewing_ = false;
    self.renew();
  };
  renew_op_.completion = [](engine::Op& op) {
    auto& self = op.owner_as<NodeCache>();
    self.renewal_asked_.store(false);
    self.renew();
  };
}

Outcome<std::unique_ptr<NodeCache>> NodeCache::start(const NodeCacheConfig& config) {
  ASSERT(config.files != nullptr && config.buffers != nullptr && !config.shards.empty());
  ASSERT(config.loop != nullptr);
  std::unique_ptr<NodeCache> cache(new NodeCache(config));
  arena::ArenaConfig arena;
  arena.bytes = config.bytes;
  arena.slab_bytes = limits::kSlabBytesDefault;
  while (arena.slab_bytes > limits::kSlabBytesMin &&
         arena.slab_bytes * limits::kCacheSlabs > config.bytes) {
    arena.slab_bytes /= 2;
  }
  arena.host = cache.get();
  auto made = arena::Arena::make(arena);
  if (!made) {
    return Failure{made.error(),
                   fmt::format("node cache: {} bytes are too few or too many (give 1 MiB to 1 TiB, "
                               "or 0 for none)",
                               config.bytes)};
  }
  cache->arena_ = std::move(*made);
  cache->thread_ = engine::Thread("penstock-cache", [raw = cache.get()] { raw->loop_.run(); });
  cache->files_.add_observer(*cache);
  for (const NodeCacheConfig::Shard& shard : config.shards) {
    cache->shard_fills_.push_back(std::make_unique<ShardFills>(*cache, *shard.loop, *shard.client));
  }
  return cache;
}

NodeCache::~NodeCache() {
  if (!thread_.joinable()) return;
  for (const auto& fills : shard_fills_) {
    (void)engine::thread_caller().call(fills->loop(),
                                       [&](engine::Op& done) { fills->drain(done); });
  }
  shard_fills_.clear();
  files_.remove_observer(*this);
  // No fill and no change asks for a tidying any more, but a tidying that left work asks for the
  // next one: this thread's call comes behind the one under way, and is repeated until none
  // follows.
  do {
    (void)engine::thread_caller().call(loop_, [this](engine::Op& done) {
      if (renewing_) loop_.cancel(renewal_);
      loop_.complete(done, Code::ok);
    });
  } while (tidying_.load());
  loop_.stop();
  thread_.join();
  // Every fill has let go of its file, see release(), and woken those that waited for it.
  ASSERT(held_.empty() && behind_others_.empty());
  for (const auto& segment : arena_->segments()) segment->set_valid_until(0);
  arena_.reset();
}

std::shared_ptr<Segment> NodeCache::enter(const client::Credentials& credentials) {
  arena::ReaderClass readers{credentials.uid, credentials.gid, credentials.groups};
  std::sort(readers.groups.begin(), readers.groups.end());
  readers.groups.erase(std::unique(readers.groups.begin(), readers.groups.end()),
                       readers.groups.end());
  auto segment = arena_->enter(readers);
  if (!segment) return nullptr;
  if (!renewal_asked_.exchange(true)) loop_.complete_remote(renew_op_, Code::ok);
  return std::move(*segment);
}

void NodeCache::leave(const std::shared_ptr<Segment>& segment) {
  arena_->leave(segment);
}

std::vector<CacheStatus> NodeCache::status() {
  std::vector<CacheStatus> all;
  CacheStatus sum;
  for (const arena::SegmentStatus& from : arena_->status()) {
    CacheStatus to;
    to.uid = from.readers.uid;
    to.gid = from.readers.gid;
    to.groups = static_cast<uint32_t>(from.readers.groups.size());
    to.sessions = from.sessions;
    to.bytes = from.slab_bytes;
    to.used_bytes = from.slots_used * kExtentBytes;
    to.hits = from.hits;
    to.fills = from.fills;
    to.evictions = from.evictions;
    to.dropped = from.dropped;
    sum.hits += to.hits;
    sum.evictions += to.evictions;
    sum.dropped += to.dropped;
    all.push_back(to);
  }
  // Of the classes that there are; what is counted here as it happens never goes back.
  hits_.set(std::max(hits_.value(), sum.hits));
  evictions_.set(std::max(evictions_.value(), sum.evictions));
  dropped_.set(std::max(dropped_.value(), sum.dropped));
  return all;
}

// ---- between the threads ----

void NodeCache::begin(FillOp& op) {
  op.completion = [](engine::Op& done) {
    auto& self = static_cast<FillOp&>(done);
    static_cast<NodeCache*>(self.owner)->take_slot(self);
  };
  op.owner = this;
  loop_.complete_remote(op, Code::ok);
}

void NodeCache::finish(FillOp& op) {
  ASSERT(op.owner == this && op.file != nullptr);
  op.outcome = op.status;
  op.completion = [](engine::Op& done) {
    auto& self = static_cast<FillOp&>(done);
    static_cast<NodeCache*>(self.owner)->publish(self);
  };
  loop_.complete_remote(op, Code::ok);
}

void NodeCache::count(FillRequest& request, engine::Loop& loop) {
  ASSERT(request.fill.segment != nullptr && request.fill.under_way == 0);
  // The request is an operation of its ring, with a completion of its own to come back to.
  struct Counting : engine::Op {
    FillRequest* request = nullptr;
    engine::Loop* loop = nullptr;
  };
  auto* counting = new Counting;
  counting->request = &request;
  counting->loop = &loop;
  counting->completion = [](engine::Op& op) {
    const std::unique_ptr<Counting> self(&static_cast<Counting&>(op));
    FillRequest& asked = *self->request;
    const uint64_t first = asked.offset;
    const uint64_t end = asked.offset + asked.memory.length;
    for (uint64_t number = first / kExtentBytes; number < asked.fill.end; ++number) {
      const arena::Extent extent{client::inode_of(*asked.file), static_cast<uint32_t>(number)};
      const uint64_t begins = number * kExtentBytes;
      const uint64_t stop = std::min(end, begins + asked.fill.segment->resident(extent));
      const uint64_t from = std::max(first, begins);
      if (stop > from) asked.transferred += stop - from;
    }
    asked.fill.segment.reset();
    self->loop->complete_remote(asked, Code::ok);
  };
  loop_.complete_remote(*counting, Code::ok);
}

void NodeCache::back_to_shard(FillOp& op, bool to_read) {
  op.completion = to_read ? +[](engine::Op& done) {
    auto& self = static_cast<FillOp&>(done);
    self.home->read(self);
  } : +[](engine::Op& done) {
    auto& self = static_cast<FillOp&>(done);
    self.home->ended(self);
  };
  op.home->loop().complete_remote(op, Code::ok);
}

// ---- the cache's thread ----

void NodeCache::take_slot(FillOp& op) {
  ASSERT(op.home != nullptr && op.segment != nullptr && op.file == nullptr);
  const Result<Segment::Start> start = start_fill(op);
  ASSERT((op.file != nullptr) == (start && *start == Segment::Start::begun));
  op.outcome = start ? Code::ok : start.error();
  forget_released(*op.segment);
  if (start && *start == Segment::Start::filling && op.request != nullptr) {
    // The request waits for the extent: its answer counts what is there at its end, so this
    // operation waits until the fill that is under way has ended, and then looks again.
    behind_others_.push_back(op);
    return;
  }
  back_to_shard(op, start && *start == Segment::Start::begun);
}

Result<Segment::Start> NodeCache::start_fill(FillOp& op) {
  Segment& segment = *op.segment;
  while (true) {
    TRY_ASSIGN(Held * held, hold(segment, op.extent.inode));
    const Segment::Start start = take_slot_for(op);
    if (start != Segment::Start::begun) {
      release(segment, op.extent.inode);
      return start;
    }
    op.file = held->file;
    const bool changing = is_changing(op);
    if (!changing && held->checked == attribute_changes_.load()) return start;
    // A change of rights since they were looked at may have come before the fill began, which it
    // then could not poison: look again.
    op.file.reset();
    segment.abandon(op.slot);
    release(segment, op.extent.inode);
    tidy_later();
    if (changing) return Segment::Start::crowded;
  }
}

// Whether the extent is being changed: a fill might read the old bytes now, while other readers
// find the new ones already. A change behind it may move the end of the file.
bool NodeCache::is_changing(const FillOp& op) const {
  const uint64_t begins = uint64_t{op.extent.number} * kExtentBytes;
  for (const client::ByteRange& range : files_.changes_under_way(*op.file)) {
    if (range.offset >= begins + kExtentBytes) {
      op.segment->invalidate(op.extent.inode, range.offset, range.length);
    } else if (range.offset >= begins || range.length > begins - range.offset) {
      return true;
    }
  }
  return false;
}

// Growing comes before evicting.
Segment::Start NodeCache::take_slot_for(FillOp& op) {
  const Segment::Start start = op.segment->begin_fill(op.extent, op.following, false, &op.slot);
  if (start != Segment::Start::crowded) return start;
  const bool grown = arena_->grow(op.segment).ok();
  // The arena may have taken the slabs from another class, and does not say what was in them: look
  // at every watched file, whether something of it is left.
  if (grown) {
    for (const InodeId inode : std::vector<InodeId>(watched_.begin(), watched_.end())) {
      forget(inode);
    }
  }
  return op.segment->begin_fill(op.extent, op.following, !grown, &op.slot);
}

void NodeCache::publish(FillOp& op) {
  ASSERT(op.file != nullptr && op.segment != nullptr);
  bool published = false;
  // Short only where the file ends.
  ASSERT(op.transferred <= op.slot.memory.size());
  const auto valid = static_cast<uint32_t>(op.transferred);
  if (op.outcome.ok() && valid > 0) {
    arena::Checksums checksums{};
    for (uint32_t block = 0; uint64_t{block} * arena::kBlockBytes < valid; ++block) {
      const uint32_t begins = block * arena::kBlockBytes;
      const Bytes bytes(op.slot.memory.data() + begins,
                        std::min(arena::kBlockBytes, valid - begins));
      checksums.block[block] = crc32c(bytes);
    }
    published = op.segment->publish(op.slot, valid, checksums);
  } else {
    op.segment->abandon(op.slot);
  }
  if (published) {
    fills_.add();
    fill_bytes_.add(valid);
  } else {
    tidy_later();
  }
  op.file.reset();
  release(*op.segment, op.extent.inode);
  forget_released(*op.segment);
  wake_those_behind(op);
  back_to_shard(op, false);
}

void NodeCache::wake_those_behind(const FillOp& ended) {
  for (FillOp* op = behind_others_.first(); op != nullptr;) {
    FillOp& here = *op;
    op = behind_others_.next(here);
    if (here.segment != ended.segment || here.extent != ended.extent) continue;
    ASSERT(here.request != nullptr && here.owner == this);
    here.unlink();
    // In a turn of its own: take_slot() may put it into this list again.
    loop_.complete(here, Code::ok);
  }
}

Result<NodeCache::Held*> NodeCache::hold(const Segment& segment, InodeId inode) {
  Held& held = held_[{&segment, inode}];
  const uint64_t changes = attribute_changes_.load();
  if (held.file == nullptr || held.checked != changes) {
    const arena::ReaderClass& readers = segment.readers();
    const client::Credentials credentials{readers.uid, readers.gid, readers.groups, true};
    // This watches the file first, and then looks at its mode.
    Result<client::FileRef> opened =
        files_.open_inode(credentials, inode, client::OpenFlags{}, true, this);
    watched_.insert(inode);
    if (!opened) {
      if (held.fills == 0) {
        held_.erase({&segment, inode});
        forget(inode);
      }
      return opened.error();
    }
    held.file = std::move(*opened);
    held.checked = changes;
  }
  ASSERT(held.file != nullptr && watched_.contains(inode));
  ++held.fills;
  return &held;
}

void NodeCache::release(const Segment& segment, InodeId inode) {
  const auto held = held_.find({&segment, inode});
  ASSERT(held != held_.end() && held->second.fills > 0);
  if (--held->second.fills > 0) return;
  const Status closed = files_.close_file(std::move(held->second.file));
  static_cast<void>(closed);  // It was open for reading only: there is nothing to settle.
  held_.erase(held);
  forget(inode);
}

// Ends the watch over a file of which nothing is here any more. Only this thread begins fills, so
// none begins meanwhile.
void NodeCache::forget(InodeId inode) {
  if (!watched_.contains(inode)) return;
  ASSERT(arena_ != nullptr);
  for (const auto& segment : arena_->segments()) {
    if (held_.contains({segment.get(), inode}) || segment->holds(inode)) return;
  }
  files_.unwatch(inode, *this);
  watched_.erase(inode);
}

void NodeCache::forget_released(Segment& segment) {
  for (const InodeId inode : segment.take_released()) forget(inode);
}

// A little in each turn, since fills and the renewal of the lease wait for this thread, too.
void NodeCache::tidy() {
  ASSERT(tidying_.load());
  tidying_.store(false);
  bool more = false;
  for (const auto& segment : arena_->segments()) {
    more |= segment->clean();
    forget_released(*segment);
  }
  if (more) tidy_later();
}

void NodeCache::renew() {
  const engine::Time now = loop_.clock().now();
  // Readers do not ask whether this node may still give out what it has.
  const engine::Duration valid = std::clamp<engine::Duration>(
      files_.lease_left(), engine::Duration::zero(), limits::kCacheLease);
  const auto until = (now + valid).time_since_epoch();
  const bool needed = arena_->set_valid_until(static_cast<uint64_t>(until.count()));
  if (!needed || renewing_) return;
  renewing_ = true;
  loop_.start(renewal_, now + limits::kCacheLeaseRenewal);
}

void NodeCache::tidy_later() {
  if (!tidying_.exchange(true)) loop_.complete_remote(tidy_op_, Code::ok);
}

// ---- changes and slabs: any thread ----

void NodeCache::data_changing(InodeId inode, client::ByteRange range) {
  for (const auto& segment : arena_->segments()) {
    segment->invalidate(inode, range.offset, range.length);
  }
  tidy_later();
}

void NodeCache::data_changed(InodeId inode, uint64_t offset, uint64_t length,
                             std::function<void()> done) {
  const bool attributes = length == 0;
  if (attributes) attribute_changes_.fetch_add(1);
  for (const auto& segment : arena_->segments()) {
    if (!attributes) {
      segment->invalidate(inode, offset, length);
      continue;
    }
    segment->remove_inode(inode);
    // A class that may not read the file any more must not find its bytes in memory.
    while (segment->clean()) {
    }
  }
  tidy_later();
  done();
}

uint32_t NodeCache::slab_made(MutableBytes memory) {
  if (network_ != nullptr) network_->announce({memory});
  if (slab_buffers_.load(std::memory_order_relaxed) == limits::kSlabBuffersMax)
    return engine::kNoBuffer.value;
  const engine::BufferId id = buffers_.add(memory);
  if (id != engine::kNoBuffer) slab_buffers_.fetch_add(1, std::memory_order_relaxed);
  return id.value;
}

void NodeCache::slab_gone(uint32_t number, MutableBytes memory) {
  if (network_ != nullptr) network_->take_back(memory);
  const engine::BufferId id(number);
  if (id != engine::kNoBuffer) {
    const uint32_t before = slab_buffers_.fetch_sub(1, std::memory_order_relaxed);
    ASSERT(before > 0);
  }
  buffers_.remove(id);
}

}  // namespace penstock::node_cache
