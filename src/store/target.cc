#include "core.h"
#include "open.h"

#include <algorithm>

namespace penstock::store {
namespace {

using limits::kChunkBytesMax;

class TargetImpl final : public Target {
 public:
  TargetImpl(engine::Loop& loop, engine::Disk& disk, engine::Kv& kv, TargetConfig config)
      : core_(loop, disk, kv, std::move(config)) {
    core_.owner = this;
    core_.on_request_free = [](Core& core) {
      impl(core).admit();
      core.chains.admit();
    };
    core_.on_idle = [](Core& core) { impl(core).try_close(); };
    core_.submit_clear = [](Core& core, ClearOp& op) { impl(core).submit(op); };
  }
  ~TargetImpl() override {
    while (pending_.pop_front() != nullptr) continue;
  }

  Core& core() { return core_; }

  void submit(ReadOp& op) override {
    op.route = engine::Route::none;
    if (!range_ok(op.offset, op.destination.length) ||
        op.destination.kind != engine::MemoryKind::host) {
      core_.loop.complete(op, Code::invalid_argument);
      return;
    }
    if (Request* request = take(op, RequestKind::read)) begin(*request, op);
  }

  void submit(WriteOp& op) override {
    op.route = engine::Route::none;
    if (!range_ok(op.offset, op.source.length) || op.source.kind != engine::MemoryKind::host) {
      core_.loop.complete(op, Code::invalid_argument);
      return;
    }
    if (Request* request = take(op, RequestKind::write)) begin(*request, op);
  }

  void submit(ClearOp& op) override {
    op.freed_blocks = 0;
    const bool to_end = op.end == kWholeChunk;
    const uint64_t end = to_end ? kChunkBytesMax : op.end;
    if (end > kChunkBytesMax || (!to_end && op.begin > end)) {
      core_.loop.complete(op, Code::invalid_argument);
      return;
    }
    if (op.begin >= end) {
      if (op.durable) {
        core_.committer.wait(op);
      } else {
        core_.loop.complete(op, Code::ok);
      }
      return;
    }
    if (Request* request = take(op, RequestKind::clear)) begin(*request, op);
  }

  void submit(RemoveOp& op) override {
    op.removed_bytes = 0;
    if (op.inode == InodeId{}) {
      core_.loop.complete(op, Code::invalid_argument);
      return;
    }
    core_.sweeps.start(SweepKind::remove, op);
  }

  void submit(SyncOp& op) override {
    if (core_.failed.ok() && !core_.committer.holds(op.inode)) {
      core_.loop.complete(op, Code::ok);
    } else {
      core_.committer.wait(op);
    }
  }

  void submit(EndQueryOp& op) override {
    if (op.inode == InodeId{}) {
      core_.loop.complete(op, Code::invalid_argument);
      return;
    }
    core_.sweeps.start(SweepKind::end_query, op);
  }

  void submit(InodesOp& op) override {
    op.found.clear();
    op.next = {};
    if (op.first == InodeId{} || op.limit == 0) {
      core_.loop.complete(op, Code::invalid_argument);
      return;
    }
    core_.sweeps.start(SweepKind::inodes, op);
  }

  void submit(ScrubOp& op) override { core_.sweeps.start(SweepKind::scrub, op); }

  ChainStore& chains() override { return core_.chains; }

  TargetStatus status() const override {
    TargetStatus status;
    const uint64_t have = core_.allocator.total_blocks() * limits::kBlockBytes;
    status.capacity_bytes = have + core_.files.growth_left_bytes();
    status.used_bytes = core_.mapped_blocks * limits::kBlockBytes;
    status.chunks = core_.chunks;
    status.block_maps_cached = core_.index.size();
    status.corrupt_blocks_seen = core_.corrupt_blocks;
    status.scattered_bytes = core_.defragmenter.scattered() * limits::kBlockBytes;
    status.moved_bytes = core_.defragmenter.moved() * limits::kBlockBytes;
    status.full = core_.committer.full();
    status.failed = !core_.failed.ok();
    return status;
  }

  void set_defragment(bool enabled) override { core_.defragmenter.enable(enabled); }

  void close(engine::Op& done) override {
    ASSERT(closed_ == nullptr);
    closed_ = &done;
    core_.closing = true;
    core_.defragmenter.stop();
    final_.owner = this;
    final_.completion = [](engine::Op& op) {
      TargetImpl& self = op.owner_as<TargetImpl>();
      self.final_status_ = op.status;
      self.committed_ = true;
      self.try_close();
    };
    try_close();
  }

 private:
  static TargetImpl& impl(Core& core) { return *static_cast<TargetImpl*>(core.owner); }

  static bool range_ok(uint32_t offset, uint64_t length) {
    return length > 0 && range_within(offset, length, kChunkBytesMax);
  }

  // Null: the operation waits for a context. Its status, which is read after its completion only,
  // holds the kind meanwhile.
  Request* take(engine::Op& op, RequestKind kind) {
    if (pending_.empty()) [[likely]] {
      if (Request* request = core_.requests.take()) return request;
    }
    op.status = Status(Code::ok, static_cast<uint32_t>(kind));
    pending_.push_back(op);
    return nullptr;
  }

  void prepare(Request& request, RequestKind kind, engine::Op& op, ChainChunk at) {
    request.kind = kind;
    request.op = &op;
    request.chain = at.chain;
    request.chunk = at.chunk;
    request.refuse_holes = false;
    request.probe = false;
    request.to_end = false;
    request.durable = false;
    request.checksums = nullptr;
  }

  void begin(Request& request, ReadOp& op) {
    prepare(request, RequestKind::read, op, {op.chain, op.chunk});
    request.refuse_holes = op.refuse_holes;
    request.probe = op.probe;
    request.checksums = op.checksums;
    request.memory = op.destination;
    set_range(request, op.offset, op.offset + static_cast<uint32_t>(op.destination.length));
    core_.reader.start(request);
  }

  void begin(Request& request, WriteOp& op) {
    prepare(request, RequestKind::write, op, {op.chain, op.chunk});
    request.durable = op.durable;
    request.memory = op.source;
    set_range(request, op.offset, op.offset + static_cast<uint32_t>(op.source.length));
    core_.updater.start(request);
  }

  void begin(Request& request, ClearOp& op) {
    prepare(request, RequestKind::clear, op, {op.chain, op.chunk});
    request.durable = op.durable;
    request.to_end = op.end == kWholeChunk;
    request.memory = {};
    set_range(request, op.begin, request.to_end ? kChunkBytesMax : op.end);
    core_.updater.start(request);
  }

  // Lets waiting operations in, as many as there is room for.
  void admit() {
    // What ends at once calls this again; the loop below goes on.
    if (admitting_) return;
    admitting_ = true;
    while (!pending_.empty()) {
      Request* request = core_.requests.take();
      if (request == nullptr) break;
      engine::Op& op = *pending_.pop_front();
      switch (static_cast<RequestKind>(op.status.detail())) {
        case RequestKind::read:
          begin(*request, static_cast<ReadOp&>(op));
          break;
        case RequestKind::write:
          begin(*request, static_cast<WriteOp&>(op));
          break;
        case RequestKind::clear:
        case RequestKind::verify:
        case RequestKind::move:
        case RequestKind::chain:
          begin(*request, static_cast<ClearOp&>(op));
          break;
      }
    }
    admitting_ = false;
    core_.check_closed();
  }

  // Operations first, then one last durable commit, then nothing is in flight.
  void try_close() {
    if (closed_ == nullptr || core_.requests.taken() != 0 || !pending_.empty()) return;
    if (!core_.chains.idle() || !core_.sweeps.idle() || !core_.defragmenter.idle() ||
        core_.files.growing())
      return;
    if (!committing_last_) {
      committing_last_ = true;
      core_.committer.wait(final_);
      return;
    }
    if (!committed_ || !core_.committer.idle() || !core_.write_log.idle()) return;
    // Every read has left its epoch, else blocks would never become free.
    ASSERT(!core_.reclaim.in_use());
    core_.loop.complete(*std::exchange(closed_, nullptr), final_status_);
  }

  Core core_;
  IntrusiveList<engine::Op> pending_;
  bool admitting_ = false;
  engine::Op* closed_ = nullptr;
  engine::Op final_;
  bool committing_last_ = false;
  bool committed_ = false;
  Status final_status_;
};

}  // namespace

Core& core_of(Target& target) {
  return static_cast<TargetImpl&>(target).core();
}

Outcome<std::unique_ptr<Target>> Target::open(engine::Loop& loop, engine::Disk& disk,
                                              engine::Kv& kv, TargetConfig config) {
  auto target = std::make_unique<TargetImpl>(loop, disk, kv, std::move(config));
  Core& core = target->core();
  if (!core.index.valid() || !core.transfers.valid() || !core.requests.valid() ||
      !core.large.valid() || !core.sweeps.valid() || !core.defragmenter.valid()) {
    return Failure{Code::no_memory,
                   fmt::format("{}: not enough memory for its caches", core.config.directory)};
  }
  TRY(open_target(core));
  return std::unique_ptr<Target>(std::move(target));
}

}  // namespace penstock::store
