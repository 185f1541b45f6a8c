#include "penstock/node_cache/shard_fills.h"

#include <algorithm>

#include "penstock/node_cache/node_cache.h"

namespace penstock::node_cache {

using arena::kExtentBytes;

ShardFills::ShardFills(NodeCache& cache, engine::Loop& loop, client::Client& client)
    : cache_(cache), loop_(loop), client_(client) {
  for (FillOp& op : pool_) {
    op.home = this;
    free_.push_back(op);
  }
}

ShardFills::~ShardFills() {
  ASSERT(under_way_ == 0 && waiting_.empty());
  // What rings had under way has ended: fills stand back for it.
  ASSERT(others_ == 0);
  size_t idle = 0;
  while (free_.pop_front() != nullptr) ++idle;
  ASSERT(idle == pool_.size());
}

void ShardFills::submit(FillRequest& request, const std::shared_ptr<arena::Segment>& segment) {
  ASSERT(segment != nullptr && drained_ == nullptr && request.file != nullptr);
  const uint64_t length = client::length_of(*request.file);
  const uint64_t wanted = request.offset + request.memory.length;
  const uint64_t end = std::max(request.offset, std::min(wanted, length));
  request.fill.segment = segment;
  request.fill.next = static_cast<uint32_t>(request.offset / kExtentBytes);
  request.fill.end = static_cast<uint32_t>((end + kExtentBytes - 1) / kExtentBytes);
  request.fill.end = std::max(request.fill.end, request.fill.next);
  request.fill.under_way = 0;
  request.fill.waiting = true;
  request.fill.ending = Code::ok;
  waiting_.push_back(request);
  pump();
}

void ShardFills::pump() {
  while (!waiting_.empty()) {
    auto& request = static_cast<FillRequest&>(waiting_.front());
    auto& fill = request.fill;
    if (request.deadline <= loop_.now() && fill.ending.ok()) fill.ending = Code::timed_out;
    if (fill.next < fill.end && fill.ending.ok() && !fill.only_look) {
      if (under_way_ >= most()) return;
      const arena::Extent extent{client::inode_of(*request.file), fill.next++};
      ++fill.under_way;
      begin(fill.segment, extent, &request, fill.end - fill.next);
      continue;
    }
    leave_queue(request);
    if (fill.under_way == 0) finish(request);
  }
}

void ShardFills::leave_queue(FillRequest& request) {
  if (!request.fill.waiting) return;
  request.unlink();
  request.fill.waiting = false;
}

void ShardFills::begin(const std::shared_ptr<arena::Segment>& segment, arena::Extent extent,
                       FillRequest* request, uint32_t following) {
  ASSERT(!free_.empty() && under_way_ < limits::kFillsMax && segment != nullptr);
  auto& op = static_cast<FillOp&>(*free_.pop_front());
  ASSERT(op.request == nullptr && op.segment == nullptr);
  ++under_way_;
  op.request = request;
  op.segment = segment;
  op.extent = extent;
  op.following = following;
  cache_.begin(op);
}

void ShardFills::note_read(const std::shared_ptr<arena::Segment>& segment, InodeId inode,
                           uint64_t offset, uint64_t length) {
  const uint64_t end = offset + length;
  for (uint64_t at = offset; at < end;) {
    const auto number = static_cast<uint32_t>(at / kExtentBytes);
    const uint64_t begins = uint64_t{number} * kExtentBytes;
    const uint64_t stop = std::min(end, begins + kExtentBytes);
    const auto first = static_cast<uint32_t>((at - begins) / arena::kBlockBytes);
    const auto last = static_cast<uint32_t>((stop - 1 - begins) / arena::kBlockBytes);
    const arena::Extent extent{inode, number};
    if (segment->touch(extent, first, last + 1) && under_way_ < most() && drained_ == nullptr) {
      begin(segment, extent, nullptr, static_cast<uint32_t>((end - stop) / kExtentBytes));
    }
    at = stop;
  }
}

void ShardFills::read(FillOp& op) {
  ASSERT(op.home == this && op.file != nullptr && op.slot.memory.size() == kExtentBytes);
  op.kind = client::IoKind::read;
  op.traffic = client::Traffic::throughput;
  op.offset = uint64_t{op.extent.number} * kExtentBytes;
  op.memory = {op.slot.memory.data(), op.slot.memory.size(), engine::BufferId(op.slot.slab_number),
               engine::MemoryKind::host};
  op.completion = [](engine::Op& done) {
    auto& self = static_cast<FillOp&>(done);
    self.home->cache_.finish(self);
  };
  client_.submit(op);
}

void ShardFills::ended(FillOp& op) {
  ASSERT(op.home == this && under_way_ > 0);
  FillRequest* request = std::exchange(op.request, nullptr);
  op.segment.reset();
  free_.push_front(op);
  --under_way_;
  if (request != nullptr) {
    auto& fill = request->fill;
    ASSERT(fill.under_way > 0);
    --fill.under_way;
    if (fill.ending.ok()) fill.ending = op.outcome;
    // With one that failed, those that are yet to be asked for are given up.
    if (fill.under_way == 0 && (!fill.waiting || !fill.ending.ok())) finish(*request);
  }
  pump();
  if (drained_ != nullptr && under_way_ == 0) {
    loop_.complete(*std::exchange(drained_, nullptr), Code::ok);
  }
}

// It ends once what is under way for it has ended; one that does not wait either has its end ahead
// of it already.
void ShardFills::cancel(FillRequest& request) {
  if (request.fill.ending.ok()) request.fill.ending = Code::cancelled;
  if (request.fill.waiting && request.fill.under_way == 0) finish(request);
}

void ShardFills::finish(FillRequest& request) {
  ASSERT(request.fill.under_way == 0);
  leave_queue(request);
  request.transferred = 0;
  request.route = engine::Route::none;
  if (request.fill.ending.ok()) return cache_.count(request, loop_);
  request.fill.segment.reset();
  loop_.complete(request, request.fill.ending);
}

void ShardFills::drain(engine::Op& done) {
  ASSERT(waiting_.empty() && drained_ == nullptr);
  if (under_way_ == 0) return loop_.complete(done, Code::ok);
  drained_ = &done;
}

}  // namespace penstock::node_cache
