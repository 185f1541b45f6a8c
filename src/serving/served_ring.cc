#include "served_ring.h"

#include <algorithm>
#include <bit>
#include <cerrno>

#include "penstock/wire.h"

namespace penstock::serving {
namespace {

uint32_t pool_size(const ring::Geometry& geometry) {
  const uint64_t in_flight_max = uint64_t{geometry.entries} * geometry.lanes;
  return static_cast<uint32_t>(std::min<uint64_t>(in_flight_max, limits::kRingOpsMax));
}

}  // namespace

ServedRing::ServedRing(ShardShare& share, uint32_t id, const ring::Memory& memory,
                       const resources::BusGuard* guard)
    : share_(share), id_(id), ring_(memory), guard_(guard), pool_(pool_size(memory.geometry())) {
  for (uint32_t lane = 0; lane < memory.geometry().lanes; ++lane) lanes_.emplace_back(memory, lane);
  flow_.join(&share.flow_, nullptr);
  (void)grow();
}

bool ServedRing::grow() {
  const std::span<RingOp> more = pool_.grow(share_.account_);
  for (RingOp& op : more) {
    op.ring = this;
    op.flow = &flow_;
    op.completion = [](engine::Op& done) {
      RingOp& ended = static_cast<RingOp&>(done);
      ended.ring->finish(ended);
    };
    free_.push_back(op);
  }
  return !more.empty();
}

bool ServedRing::poll() {
  bool worked = unpublished_lanes_ != 0;
  publish();
  if (!serving_) return worked;
  const uint32_t used = ring_.lanes_used();
  for (uint32_t lane = 0; lane < used && serving_; ++lane) worked |= take_from(lane);
  // What ended at once is seen by the application before the next turn.
  publish();
  if (guard_ != nullptr && guard_->broken()) fail("the ring's memory was truncated");
  return worked;
}

bool ServedRing::take_from(uint32_t lane) {
  ring::Submission batch[limits::kBatch];
  if (pool_.size() == in_flight_ && !(pool_.may_grow() && lanes_[lane].has_work() && grow())) {
    return false;
  }
  const size_t room = std::min<size_t>(limits::kBatch, pool_.size() - in_flight_);
  const Result<uint32_t> count = lanes_[lane].take(batch, static_cast<uint32_t>(room));
  if (!count) {
    fail("a submission tail is impossible");
    return true;
  }
  for (uint32_t i = 0; i < *count; ++i) start(lane, batch[i]);
  return *count > 0;
}

void ServedRing::start(uint32_t lane, const ring::Submission& entry) {
  ASSERT(!free_.empty() && in_flight_ < pool_.size());
  RingOp& op = *free_.pop_front();
  ASSERT(!op.in_use && op.ring == this && op.trace == nullptr);
  op.in_use = true;
  op.uses_region = op.uses_checksum_region = false;
  op.is_fill = false;
  op.figures_kind = telemetry::Kind::other;
  op.begun = share_.loop_.now();
  share_.routes_.figures().begun();
  op.lane = lane;
  op.slot = entry.slot;
  op.sequence = entry.sequence;
  op.user_data = entry.user_data;
  ++in_flight_;
  quiet_turns_ = 0;
  share_.operations_.store(share_.operations_.load(std::memory_order_relaxed) + 1,
                           std::memory_order_relaxed);
  const int error = check(op, entry);
  if (error != 0 || entry.operation == ring::kOperationNop) {
    return post(op, error, engine::Route::none);
  }
  ++share_.files_[op.file_id].in_flight;
  if (op.uses_region) ++share_.regions_[op.region_id].in_flight;
  if (op.uses_checksum_region) ++share_.regions_[op.checksum_region_id].in_flight;
  if (share_.routes_.tracer().is_on()) [[unlikely]]
    begin_trace(op);
  begin(op);
}

void ServedRing::begin_trace(RingOp& op) {
  op.trace = share_.routes_.tracer().begin();
  if (op.trace == nullptr) return;
  op.trace->kind = op.figures_kind;
  op.trace->uid = share_.uid();
  op.trace->inode = client::inode_of(*op.file).value;
  op.trace->offset = op.offset;
  op.trace->length = op.memory.length;
  op.trace->taken = share_.loop_.clock().now().time_since_epoch();
}

void ServedRing::end_trace(RingOp& op, int64_t result, engine::Route route) {
  op.trace->result = result;
  op.trace->route = static_cast<uint32_t>(route);
  op.trace->completed = share_.loop_.clock().now().time_since_epoch();
  share_.routes_.tracer().end(*op.trace);
  op.trace = nullptr;
}

void ServedRing::begin(RingOp& op) {
  if (op.is_fill) return share_.cache_.fills->submit(op, share_.cache_.segment);
  if (share_.cache_) share_.cache_.fills->other_begun();
  share_.client_.submit(op);
}

void ServedRing::cancel(RingOp& op) {
  if (op.is_fill) return share_.cache_.fills->cancel(op);
  share_.client_.cancel(op);
}

int ServedRing::check(RingOp& op, const ring::Submission& entry) {
  const bool has_checksum_place = entry.checksum_region != 0 || entry.checksum_page != 0;
  const bool may_have_one =
      entry.operation == ring::kOperationRead && (entry.flags & ring::kFlagChecksums) != 0;
  if (has_checksum_place && !may_have_one) return -EINVAL;
  const bool durable = (entry.flags & ring::kFlagDurable) != 0;
  const bool refuse_holes = (entry.flags & ring::kFlagRefuseHoles) != 0;
  switch (entry.operation) {
    case ring::kOperationNop:
      return entry.flags == 0 ? 0 : -EINVAL;
    case ring::kOperationRead:
      op.kind = client::IoKind::read;
      op.figures_kind = telemetry::Kind::read;
      if ((entry.flags & ~(ring::kFlagRefuseHoles | ring::kFlagChecksums)) != 0) return -EINVAL;
      break;
    case ring::kOperationWrite:
      op.kind = client::IoKind::write;
      op.figures_kind = telemetry::Kind::write;
      if ((entry.flags & ~ring::kFlagDurable) != 0) return -EINVAL;
      break;
    case ring::kOperationSync:
      op.kind = client::IoKind::sync;
      op.figures_kind = telemetry::Kind::sync;
      if (entry.flags != 0) return -EINVAL;
      break;
    case ring::kOperationFill:
      op.kind = client::IoKind::read;
      op.figures_kind = telemetry::Kind::fill;
      op.is_fill = true;
      if ((entry.flags & ~ring::kFlagLook) != 0) return -EINVAL;
      op.fill.only_look = entry.flags != 0;
      if (!share_.cache_) return -EOPNOTSUPP;
      break;
    default:
      return -EINVAL;
  }
  const ServedFile* const file = share_.file(entry.file);
  if (file == nullptr) return -EBADF;
  if (op.kind == client::IoKind::read && !may_read(*file->file)) return -EACCES;
  if (op.kind == client::IoKind::write && !may_write(*file->file)) return -EACCES;
  op.memory = {};
  op.checksums = {};
  op.offset = 0;
  if (op.kind != client::IoKind::sync) {
    const int error = op.is_fill ? check_range(op, entry) : check_region(op, entry);
    if (error != 0) return error;
  }
  op.file = file->file;
  op.file_id = entry.file;
  op.durable = durable;
  op.refuse_holes = refuse_holes;
  op.transferred = 0;
  op.route = engine::Route::none;
  op.deadline = engine::kNever;
  if (entry.deadline != 0 && entry.deadline <= static_cast<uint64_t>(INT64_MAX)) {
    op.deadline = engine::Time(engine::Duration(static_cast<int64_t>(entry.deadline)));
    if (op.deadline <= share_.loop_.now()) {
      op.file.reset();
      return -ETIMEDOUT;
    }
  }
  return 0;
}

int ServedRing::check_range(RingOp& op, const ring::Submission& entry) {
  if (entry.length == 0 || entry.length > limits::kIoBytesMax) return -EINVAL;
  if (!range_within(entry.offset, entry.length, limits::kFileBytesMax)) {
    return op.kind == client::IoKind::write ? -EFBIG : -EINVAL;
  }
  op.offset = entry.offset;
  op.memory.length = entry.length;
  return 0;
}

int ServedRing::check_region(RingOp& op, const ring::Submission& entry) {
  const int error = check_range(op, entry);
  if (error != 0) return error;
  const ServedRegion* const known = share_.region(entry.region);
  if (known == nullptr) return -EINVAL;
  const ServedRegion region = *known;
  if (!range_within(entry.region_offset, entry.length, region.bytes.size())) return -EINVAL;
  if (region.is_broken()) return -EFAULT;
  op.memory = region.part(entry.region_offset, entry.length);
  if (op.kind == client::IoKind::read && (entry.flags & ring::kFlagChecksums) != 0) {
    const bool is_host = region.kind == engine::MemoryKind::host;
    const int refused =
        is_host ? check_checksums_behind(op, entry, region) : check_checksums_elsewhere(op, entry);
    if (refused != 0) return refused;
  }
  op.region_id = entry.region;
  op.uses_region = true;
  return 0;
}

int ServedRing::check_checksums_behind(RingOp& op, const ring::Submission& entry,
                                       const ServedRegion& region) {
  const uint64_t bytes = wire::checksum_bytes(entry.length);
  const uint64_t at = entry.region_offset + entry.length;
  const bool aligned =
      (entry.offset | entry.length | entry.region_offset) % limits::kBlockBytes == 0;
  if (!aligned || !range_within(at, bytes, region.bytes.size())) return -EINVAL;
  if (entry.checksum_region != 0 || entry.checksum_page != 0) return -EINVAL;
  op.checksums = {region.bytes.data() + at, bytes};
  return 0;
}

// A GPU's memory has no room for them.
int ServedRing::check_checksums_elsewhere(RingOp& op, const ring::Submission& entry) {
  if ((entry.offset | entry.length) % limits::kBlockBytes != 0) return -EINVAL;
  const ServedRegion* const place = share_.region(entry.checksum_region);
  if (place == nullptr || place->kind != engine::MemoryKind::host) return -EINVAL;
  const uint64_t bytes = wire::checksum_bytes(entry.length);
  const uint64_t at = uint64_t{entry.checksum_page} * ring::kChecksumPageBytes;
  if (!range_within(at, bytes, place->bytes.size())) return -EINVAL;
  if (place->is_broken()) return -EFAULT;
  op.checksums = place->part(at, bytes);
  op.checksum_region_id = entry.checksum_region;
  op.uses_checksum_region = true;
  return 0;
}

void ServedRing::finish(RingOp& op) {
  int64_t result = op.status.ok() ? static_cast<int64_t>(op.transferred) : -op.status.to_errno();
  ASSERT(op.ring == this && op.file != nullptr);
  if (op.uses_region) {
    ASSERT(share_.regions_[op.region_id].in_flight > 0);
    // The bytes went to, or came from, memory that is no longer the application's; or the kernel
    // found no page there, which a disk reports like any failure.
    const bool is_host = op.memory.kind == engine::MemoryKind::host;
    const auto has_its_pages = [&] { return resources::has_its_pages(op.memory.bytes()); };
    const bool is_broken = share_.regions_[op.region_id].is_broken();
    if (is_broken || (is_host && result == -EIO && !has_its_pages())) result = -EFAULT;
    share_.release_region(op.region_id);
  }
  if (op.uses_checksum_region) {
    if (share_.regions_[op.checksum_region_id].is_broken()) result = -EFAULT;
    share_.release_region(op.checksum_region_id);
  }
  if (share_.cache_ && !op.is_fill) {
    share_.cache_.fills->other_ended();
    if (op.kind == client::IoKind::read && result > 0) {
      share_.cache_.fills->note_read(share_.cache_.segment, client::inode_of(*op.file), op.offset,
                                     op.transferred);
    }
  }
  op.file.reset();
  share_.release_file(op.file_id);
  const bool by_card = op.memory.kind == engine::MemoryKind::device && result > 0;
  post(op, result, by_card ? engine::Route::device_network : op.route);
}

void ServedRing::post(RingOp& op, int64_t result, engine::Route route) {
  share_.routes_.count(route);
  // By the clock of the loop's turns, which costs nothing more.
  share_.routes_.figures().ended(
      {.kind = op.figures_kind,
       .route = static_cast<uint32_t>(route),
       .result = result,
       .nanoseconds = static_cast<uint64_t>((share_.loop_.now() - op.begun).count())});
  if (op.trace != nullptr) [[unlikely]]
    end_trace(op, result, route);
  ring::Completion completion{};
  completion.user_data = op.user_data;
  completion.result = result;
  completion.slot = op.slot;
  completion.sequence = op.sequence;
  completion.route = static_cast<uint8_t>(route);
  ASSERT(op.in_use && op.lane < lanes_.size() && in_flight_ > 0);
  lanes_[op.lane].post(completion);
  unpublished_lanes_ |= uint64_t{1} << op.lane;
  op.in_use = false;
  // The operation used last is the one whose memory is in the processor's cache.
  free_.push_front(op);
  --in_flight_;
  pool_.retry();
  if (leaving_ != nullptr && in_flight_ == 0) share_.ring_left(*this);
}

void ServedRing::publish() {
  while (unpublished_lanes_ != 0) {
    const int lane = std::countr_zero(unpublished_lanes_);
    unpublished_lanes_ &= unpublished_lanes_ - 1;
    lanes_[static_cast<size_t>(lane)].publish();
  }
}

bool ServedRing::prepare_sleep() {
  if (unpublished_lanes_ != 0) return false;
  if (!serving_) return true;
  ring_.arm();
  // All operations in use: a completion comes first, and the loop is awake then.
  if (free_.empty() && !pool_.may_grow()) return true;
  const uint32_t used = ring_.lanes_used();
  for (uint32_t lane = 0; lane < used; ++lane) {
    if (lanes_[lane].has_work()) return false;
  }
  return true;
}

bool ServedRing::dozes() {
  if (in_flight_ > 0 || ++quiet_turns_ < limits::kTurnsBeforeDoze || !serving_) return false;
  if (prepare_sleep()) return true;
  woke();
  return false;
}

void ServedRing::cancel(uint32_t lane, uint32_t slot, uint32_t sequence) {
  RingOp* found = nullptr;
  pool_.for_each([&](RingOp& op) {
    if (op.in_use && op.lane == lane && op.slot == slot && op.sequence == sequence) found = &op;
  });
  if (found != nullptr) cancel(*found);
}

void ServedRing::leave(engine::Op& done) {
  ASSERT(leaving_ == nullptr);
  serving_ = false;
  leaving_ = &done;
  if (in_flight_ == 0) return share_.ring_left(*this);
  pool_.for_each([this](RingOp& op) {
    if (op.in_use) cancel(op);
  });
}

void ServedRing::fail(const char* why) {
  if (!serving_) return;
  serving_ = false;
  share_.broken(why);
}

}  // namespace penstock::serving
