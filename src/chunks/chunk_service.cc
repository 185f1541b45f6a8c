// Serves a store::Target over engine::Net.
#include "limits.h"

#include <cstdlib>
#include <deque>
#include <variant>

#include "penstock/chunks.h"
#include "penstock/wire.h"

namespace penstock::chunks {
namespace {

using engine::Access;
using engine::IncomingCall;
using engine::MemoryRef;
using engine::Op;
using wire::ChunkMethod;

static_assert(store::kWholeChunk == wire::kChunkEnd);

class ChunkService;

struct StageBuffer {
  std::byte* data = nullptr;
  // Behind the bytes.
  std::byte* checksums() const { return data + limits::kStageBytes; }
  StageBuffer* next_free = nullptr;
};

// One call in progress.
struct Context : ListNode {
  ChunkService* service = nullptr;
  IncomingCall* call = nullptr;
  Context* next_free = nullptr;
  wire::ChunkRequest request;
  std::variant<std::monostate, store::ReadOp, store::WriteOp, store::ClearOp, store::RemoveOp,
               store::SyncOp, store::EndQueryOp, store::InodesOp>
      op;

  // For callers whose memory the target cannot reach.
  engine::TransferOp transfer;
  StageBuffer* stage = nullptr;
  uint32_t staged = 0;  // bytes of the range that are done
  engine::Route route = engine::Route::none;
};

class ChunkService final : public engine::Service {
 public:
  ChunkService(store::Target& target, ChainId chain, uint32_t calls_max, Durable durable);
  ~ChunkService() override;

  void on_call(IncomingCall& call) override;

 private:
  void begin(Context& context);
  void run_read(Context& context, MemoryRef memory, uint32_t at);
  void run_write(Context& context, MemoryRef memory, uint32_t at);
  void run_control(Context& context, ChunkMethod method);
  void run_inodes(Context& context);
  void finish_inodes(Context& context);
  void begin_staged(Context& context);
  void stage_next(Context& context);
  void on_staged_io(Context& context, Status status);
  void place_checksums(Context& context);
  void piece_placed(Context& context);
  void finish(Context& context, Status status, Bytes response = {});
  void finish_io(Context& context, Status status, engine::Route route, uint32_t bad_block);
  void serve_waiting();
  StageBuffer* take_stage();

  template <class StoreOp>
  StoreOp& prepare(Context& context, Op::Completion completion) {
    StoreOp& op = context.op.emplace<StoreOp>();
    op.owner = &context;
    op.completion = completion;
    return op;
  }

  static Status check_exposure(IncomingCall& call, ChunkMethod method,
                               const wire::ChunkRequest& request);
  uint32_t stage_length(const Context& context) const {
    return static_cast<uint32_t>(
        std::min<uint64_t>(context.request.length - context.staged, limits::kStageBytes));
  }

  store::Target& target_;
  const ChainId chain_;
  const Durable durable_;
  std::unique_ptr<Context[]> contexts_;
  Context* free_ = nullptr;
  // Calls without a context yet, in order. A deque keeps its blocks while it is in use, and is
  // only touched when all contexts are taken.
  std::deque<IncomingCall*> waiting_;
  bool serving_waiting_ = false;

  StageBuffer stages_[limits::kStageBuffersMax];
  StageBuffer* free_stages_ = nullptr;
  uint32_t stages_made_ = 0;
  uint32_t stages_used_ = 0;
  IntrusiveList<Context> waiting_for_stage_;
};

ChunkService::ChunkService(store::Target& target, ChainId chain, uint32_t calls_max,
                           Durable durable)
    : target_(target), chain_(chain), durable_(durable), contexts_(new Context[calls_max]) {
  for (uint32_t i = calls_max; i-- > 0;) {
    contexts_[i].service = this;
    contexts_[i].next_free = free_;
    free_ = &contexts_[i];
  }
}

ChunkService::~ChunkService() {
  ASSERT(stages_made_ <= limits::kStageBuffersMax && !serving_waiting_);
  for (StageBuffer& stage : stages_) std::free(stage.data);
}

Status ChunkService::check_exposure(IncomingCall& call, ChunkMethod method,
                                    const wire::ChunkRequest& request) {
  if (method == ChunkMethod::inodes) {
    const bool fits = call.exposure_count == 1 &&
                      call.exposure_length(0) == request.length * sizeof(InodeId) &&
                      call.exposure_access(0) == Access::place;
    return fits ? Code::ok : Code::bad_message;
  }
  const bool read = method == ChunkMethod::read;
  if (!read && method != ChunkMethod::write) {
    return call.exposure_count == 0 ? Code::ok : Code::bad_message;
  }
  const bool checksums = (request.flags & wire::kChunkChecksums) != 0 && read;
  if (call.exposure_count != (checksums ? 2 : 1)) return Code::bad_message;
  if (call.exposure_length(0) != request.length) return Code::bad_message;
  if (call.exposure_access(0) != (read ? Access::place : Access::fetch)) return Code::bad_message;
  if (!checksums) return Code::ok;
  const bool fits = call.exposure_length(1) == wire::checksum_bytes(request.length) &&
                    call.exposure_access(1) == Access::place;
  return fits ? Code::ok : Code::bad_message;
}

void ChunkService::on_call(IncomingCall& call) {
  Context* context = free_;
  if (context == nullptr) [[unlikely]] {
    if (waiting_.size() >= limits::kQueueMax) return call.reply(Code::busy, {});
    waiting_.push_back(&call);
    return;
  }
  free_ = context->next_free;
  ASSERT(context->call == nullptr && context->stage == nullptr && !context->linked());
  context->call = &call;
  begin(*context);
}

void ChunkService::begin(Context& context) {
  IncomingCall& call = *context.call;
  const Result<wire::ChunkRequest> request = wire::decode_chunk_request(call.method, call.request);
  if (!request) return finish(context, request.error());
  context.request = *request;
  const auto method = static_cast<ChunkMethod>(call.method);
  const bool is_update =
      method == ChunkMethod::write || method == ChunkMethod::clear || method == ChunkMethod::remove;
  if (is_update && durable_ == Durable::all) context.request.flags |= wire::kChunkDurable;
  const Status exposed = check_exposure(call, method, *request);
  if (!exposed.ok()) return finish(context, exposed);
  if (method != ChunkMethod::read && method != ChunkMethod::write) {
    return run_control(context, method);
  }
  const std::optional<MemoryRef> memory = call.direct(0);
  const bool reaches_checksums = call.exposure_count < 2 || call.direct(1).has_value();
  if (!memory || !reaches_checksums) return begin_staged(context);
  if (method == ChunkMethod::read) {
    run_read(context, *memory, 0);
  } else {
    run_write(context, *memory, 0);
  }
}

void ChunkService::run_read(Context& context, MemoryRef memory, uint32_t at) {
  auto& op = prepare<store::ReadOp>(context, [](Op& done) {
    auto& self = done.owner_as<Context>();
    auto& read = static_cast<store::ReadOp&>(done);
    if (self.stage != nullptr) {
      self.route = worse(self.route, read.route);
      return self.service->on_staged_io(self, read.status);
    }
    self.service->finish_io(self, read.status, read.route, read.bad_block);
  });
  op.chain = chain_;
  op.chunk = {InodeId{context.request.inode}, context.request.chunk};
  op.offset = context.request.begin + at;
  ASSERT(memory.length > 0 && at + memory.length <= context.request.length);
  op.destination = memory;
  op.refuse_holes = (context.request.flags & wire::kChunkRefuseHoles) != 0;
  if (context.call->exposure_count == 2) {
    std::byte* const checksums =
        context.stage != nullptr ? context.stage->checksums() : context.call->direct(1)->data;
    op.checksums = reinterpret_cast<uint32_t*>(checksums);
  }
  target_.submit(op);
}

void ChunkService::run_write(Context& context, MemoryRef memory, uint32_t at) {
  auto& op = prepare<store::WriteOp>(context, [](Op& done) {
    auto& self = done.owner_as<Context>();
    auto& write = static_cast<store::WriteOp&>(done);
    if (self.stage != nullptr) {
      self.route = worse(self.route, write.route);
      return self.service->on_staged_io(self, write.status);
    }
    self.service->finish_io(self, write.status, write.route, 0);
  });
  op.chain = chain_;
  op.chunk = {InodeId{context.request.inode}, context.request.chunk};
  op.offset = context.request.begin + at;
  ASSERT(memory.length > 0 && at + memory.length <= context.request.length);
  op.source = memory;
  op.durable = (context.request.flags & wire::kChunkDurable) != 0;
  target_.submit(op);
}

void ChunkService::run_control(Context& context, ChunkMethod method) {
  const wire::ChunkRequest& request = context.request;
  const bool durable = (request.flags & wire::kChunkDurable) != 0;
  const Op::Completion plain = [](Op& done) {
    auto& self = done.owner_as<Context>();
    self.service->finish(self, done.status);
  };
  if (method == ChunkMethod::probe) {
    auto& op = prepare<store::ReadOp>(context, [](Op& done) {
      auto& self = done.owner_as<Context>();
      auto& probe = static_cast<store::ReadOp&>(done);
      self.service->finish_io(self, probe.status, probe.route, probe.alike_blocks);
    });
    op.chain = chain_;
    op.chunk = {InodeId{request.inode}, request.chunk};
    op.offset = request.begin;
    op.destination = {nullptr, request.length};
    op.probe = true;
    target_.submit(op);
  } else if (method == ChunkMethod::clear) {
    auto& op = prepare<store::ClearOp>(context, plain);
    op.chain = chain_;
    op.chunk = {InodeId{request.inode}, request.chunk};
    op.begin = request.begin;
    op.end = request.length;
    op.durable = durable;
    target_.submit(op);
  } else if (method == ChunkMethod::remove) {
    auto& op = prepare<store::RemoveOp>(context, [](Op& done) {
      auto& self = done.owner_as<Context>();
      const wire::ChunkRemoveResponse response{static_cast<store::RemoveOp&>(done).removed_bytes};
      self.service->finish(self, done.status, wire::as_wire(response));
    });
    op.chain = chain_;
    op.inode = InodeId{request.inode};
    op.first_chunk = request.chunk;
    op.durable = durable;
    target_.submit(op);
  } else if (method == ChunkMethod::sync) {
    auto& op = prepare<store::SyncOp>(context, plain);
    op.inode = InodeId{request.inode};
    target_.submit(op);
  } else if (method == ChunkMethod::inodes) {
    run_inodes(context);
  } else {
    auto& op = prepare<store::EndQueryOp>(context, [](Op& done) {
      auto& self = done.owner_as<Context>();
      auto& query = static_cast<store::EndQueryOp&>(done);
      const wire::ChunkEndResponse response{.allocated_bytes = query.allocated_bytes,
                                            .last_chunk = query.last_chunk,
                                            .end_in_chunk = query.end_in_chunk,
                                            .any = query.any ? 1u : 0u};
      self.service->finish(self, done.status, wire::as_wire(response));
    });
    op.chain = chain_;
    op.inode = InodeId{request.inode};
    target_.submit(op);
  }
}

void ChunkService::run_inodes(Context& context) {
  auto& op = prepare<store::InodesOp>(context, [](Op& done) {
    auto& self = done.owner_as<Context>();
    auto& inodes = static_cast<store::InodesOp&>(done);
    if (!inodes.status.ok() || inodes.found.empty()) return self.service->finish_inodes(self);
    self.transfer.call = self.call;
    self.transfer.exposure = 0;
    self.transfer.exposure_offset = 0;
    self.transfer.local = {reinterpret_cast<std::byte*>(inodes.found.data()),
                           inodes.found.size() * sizeof(InodeId)};
    self.transfer.owner = &self;
    self.transfer.completion = [](Op& placed) {
      auto& its = placed.owner_as<Context>();
      std::get<store::InodesOp>(its.op).status = placed.status;
      its.service->finish_inodes(its);
    };
    self.call->place(self.transfer);
  });
  op.chain = chain_;
  op.first = InodeId{context.request.inode};
  op.limit = context.request.length;
  target_.submit(op);
}

void ChunkService::finish_inodes(Context& context) {
  const auto& inodes = std::get<store::InodesOp>(context.op);
  const wire::ChunkInodesResponse response{.next = inodes.next.value,
                                           .count = static_cast<uint32_t>(inodes.found.size())};
  finish(context, inodes.status, wire::as_wire(response));
}

StageBuffer* ChunkService::take_stage() {
  if (free_stages_ == nullptr && stages_made_ < limits::kStageBuffersMax) {
    StageBuffer& made = stages_[stages_made_];
    made.data = static_cast<std::byte*>(
        std::aligned_alloc(limits::kBlockBytes, limits::kStageBytes + limits::kBlockBytes));
    if (made.data == nullptr) return nullptr;
    ++stages_made_;
    return &made;
  }
  StageBuffer* stage = free_stages_;
  if (stage != nullptr) free_stages_ = stage->next_free;
  return stage;
}

void ChunkService::begin_staged(Context& context) {
  ASSERT(context.stage == nullptr && context.call != nullptr);
  context.stage = take_stage();
  if (context.stage == nullptr) {
    if (stages_made_ == 0) return finish(context, Code::no_memory);
    // A call that has one wakes it, see finish(): all are with calls.
    ASSERT(stages_used_ == stages_made_);
    waiting_for_stage_.push_back(context);
    return;
  }
  ++stages_used_;
  context.staged = 0;
  context.route = engine::Route::none;
  stage_next(context);
}

// Moves the next piece: a read goes disk -> stage -> caller, a write the other way.
void ChunkService::stage_next(Context& context) {
  ASSERT(context.stage != nullptr && context.staged < context.request.length);
  const MemoryRef piece{context.stage->data, stage_length(context)};
  if (context.call->method == static_cast<uint16_t>(ChunkMethod::read)) {
    return run_read(context, piece, context.staged);
  }
  context.transfer.call = context.call;
  context.transfer.exposure = 0;
  context.transfer.exposure_offset = context.staged;
  context.transfer.local = piece;
  context.transfer.owner = &context;
  context.transfer.completion = [](Op& done) {
    auto& self = done.owner_as<Context>();
    if (!done.status.ok()) return self.service->finish_io(self, done.status, self.route, 0);
    self.service->run_write(self, static_cast<engine::TransferOp&>(done).local, self.staged);
  };
  context.call->fetch(context.transfer);
}

void ChunkService::on_staged_io(Context& context, Status status) {
  const bool read = context.call->method == static_cast<uint16_t>(ChunkMethod::read);
  if (!status.ok()) {
    const uint32_t bad = read ? std::get<store::ReadOp>(context.op).bad_block : 0;
    return finish_io(context, status, context.route, bad);
  }
  if (!read) {
    context.staged += stage_length(context);
    if (context.staged < context.request.length) return stage_next(context);
    return finish_io(context, Code::ok, context.route, 0);
  }
  context.transfer.call = context.call;
  context.transfer.exposure = 0;
  context.transfer.exposure_offset = context.staged;
  context.transfer.local = {context.stage->data, stage_length(context)};
  context.transfer.owner = &context;
  context.transfer.completion = [](Op& done) {
    auto& self = done.owner_as<Context>();
    if (!done.status.ok()) return self.service->finish_io(self, done.status, self.route, 0);
    if (self.call->exposure_count == 2) return self.service->place_checksums(self);
    self.service->piece_placed(self);
  };
  context.call->place(context.transfer);
}

void ChunkService::place_checksums(Context& context) {
  const uint64_t bytes = wire::checksum_bytes(stage_length(context));
  context.transfer.exposure = 1;
  context.transfer.exposure_offset = wire::checksum_bytes(context.staged);
  context.transfer.local = {context.stage->checksums(), bytes};
  context.transfer.completion = [](Op& done) {
    auto& self = done.owner_as<Context>();
    if (!done.status.ok()) return self.service->finish_io(self, done.status, self.route, 0);
    self.service->piece_placed(self);
  };
  context.call->place(context.transfer);
}

void ChunkService::piece_placed(Context& context) {
  context.staged += stage_length(context);
  ASSERT(context.staged <= context.request.length);
  if (context.staged < context.request.length) return stage_next(context);
  finish_io(context, Code::ok, context.route, 0);
}

void ChunkService::finish_io(Context& context, Status status, engine::Route route,
                             uint32_t bad_block) {
  const wire::ChunkIoResponse response{.route = static_cast<uint8_t>(route),
                                       .bad_block = bad_block};
  finish(context, status, wire::as_wire(response));
}

void ChunkService::finish(Context& context, Status status, Bytes response) {
  // Once for each call, and never while its memory is still written to.
  ASSERT(context.call != nullptr && !context.linked());
  IncomingCall& call = *context.call;
  call.reply(status, response);
  if (context.stage != nullptr) [[unlikely]] {
    StageBuffer* stage = std::exchange(context.stage, nullptr);
    stage->next_free = free_stages_;
    free_stages_ = stage;
    ASSERT(stages_used_ > 0);
    --stages_used_;
    if (Context* next = waiting_for_stage_.pop_front()) begin_staged(*next);
  }
  context.call = nullptr;
  context.next_free = free_;
  free_ = &context;
  if (!waiting_.empty()) [[unlikely]]
    serve_waiting();
}

void ChunkService::serve_waiting() {
  // A call that is refused at once finishes inside begin(): the outer turn goes on then, so that a
  // queue of bad requests does not nest.
  if (serving_waiting_) return;
  serving_waiting_ = true;
  while (!waiting_.empty() && free_ != nullptr) {
    Context& context = *free_;
    free_ = context.next_free;
    ASSERT(context.call == nullptr && context.stage == nullptr);
    context.call = waiting_.front();
    waiting_.pop_front();
    begin(context);
  }
  serving_waiting_ = false;
}

}  // namespace

std::unique_ptr<engine::Service> make_service(store::Target& target, ChainId chain,
                                              uint32_t calls_max, Durable durable) {
  ASSERT(calls_max > 0);
  return std::make_unique<ChunkService>(target, chain, calls_max, durable);
}

}  // namespace penstock::chunks
