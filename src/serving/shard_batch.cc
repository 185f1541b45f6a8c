#include "penstock/serving/shard_batch.h"

#include <cerrno>

namespace penstock::serving {

void ShardBatch::start(engine::Op& done) {
  ASSERT(done_ == nullptr && next_ == 0);
  done_ = &done;
  pump();
}

void ShardBatch::pump() {
  while (next_ < ops_.size() && in_flight_ < limits::kFileOpsMax) {
    if (begin(ops_[next_++])) ++in_flight_;
  }
  if (in_flight_ == 0 && done_ != nullptr)
    share_.loop_.complete(*std::exchange(done_, nullptr), Code::ok);
}

// False when it has ended at once.
bool ShardBatch::begin(FileOp& op) {
  if (op.fills) return begin_fill(op);
  ServedRegion* const known = share_.region(op.region);
  if (known == nullptr) {
    op.status = Code::invalid_argument;
    return false;
  }
  ServedRegion& region = *known;
  if (!range_within(op.region_offset, op.memory.length, region.bytes.size())) {
    op.status = Code::invalid_argument;
    return false;
  }
  if (region.is_broken()) {
    op.status = Status(Code::io_error, EFAULT);
    return false;
  }
  ++region.in_flight;
  op.memory = region.part(op.region_offset, op.memory.length);
  op.batch = this;
  op.flow = &share_.batches_;
  op.completion = [](engine::Op& done) {
    auto& self = static_cast<FileOp&>(done);
    self.batch->finish(self);
  };
  if (share_.cache_) share_.cache_.fills->other_begun();
  share_.client_.submit(op);
  return true;
}

bool ShardBatch::begin_fill(FileOp& op) {
  if (!share_.cache_) {
    op.status = Code::not_supported;
    return false;
  }
  op.batch = this;
  op.completion = [](engine::Op& done) {
    ShardBatch& batch = *static_cast<FileOp&>(done).batch;
    ASSERT(batch.in_flight_ > 0);
    --batch.in_flight_;
    batch.pump();
  };
  share_.cache_.fills->submit(op, share_.cache_.segment);
  return true;
}

void ShardBatch::finish(FileOp& op) {
  share_.routes_.count(op.route);
  // The bytes went to, or came from, memory that is no longer the application's.
  if (share_.regions_[op.region].is_broken()) op.status = Status(Code::io_error, EFAULT);
  share_.release_region(op.region);
  if (share_.cache_) {
    share_.cache_.fills->other_ended();
    const bool is_news = op.kind == client::IoKind::read && !op.noted;
    if (is_news && op.status.ok() && op.transferred > 0) {
      share_.cache_.fills->note_read(share_.cache_.segment, client::inode_of(*op.file), op.offset,
                                     op.transferred);
    }
  }
  ASSERT(op.batch == this && in_flight_ > 0);
  --in_flight_;
  pump();
}

}  // namespace penstock::serving
