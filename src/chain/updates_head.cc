// What clients ask a head for: once each, one update of a chunk at a time, what waits joined.
#include "credit.h"
#include "updates.h"

namespace penstock::chain {
namespace {

static_assert(static_cast<uint32_t>(store::UpdateKind::write) == 1 &&
                  static_cast<uint32_t>(store::UpdateKind::clear) == 2 &&
                  static_cast<uint32_t>(store::UpdateKind::remove) == 3 &&
                  static_cast<uint32_t>(store::UpdateKind::drop) == wire::kDropPart,
              "kinds are the same in messages");
static_assert(store::kWholeChunk == wire::kChunkEnd);

uint64_t bytes_of_part(const store::UpdatePart& part) {
  return part.kind == store::UpdateKind::write ? part.end - part.begin : 0;
}

// Whether `request` is the one that `other` is, or one that came before or after it in its slot.
bool same_slot(const RequestId& request, const RequestId& other) {
  return request.node == other.node && request.slot == other.slot;
}
bool is_newer(const RequestId& request, const RequestId& other) {
  return std::pair(request.incarnation, request.sequence) >
         std::pair(other.incarnation, other.sequence);
}

}  // namespace

void reply_done(engine::IncomingCall& call, const UpdateName& name) {
  const wire::ChainIoResponse response{
      .io = {.route = static_cast<uint8_t>(engine::Route::disk_staged)},
      .chunk_version = name.counter};
  call.reply(Code::ok, wire::as_wire(response));
}

void Updates::on_update(engine::IncomingCall& call, const wire::ChainUpdateRequest& request) {
  if (!core_.part.is_head()) return core_.reply_moved(call);
  // First: to a client a refusal says that it has not happened.
  const engine::Time latest = core_.latest(request.header);
  if (answer_repeated(call, request.request, latest)) return;
  if (!core_.may_serve()) return core_.refuse(call);
  if (waiting_count_ + pending_count_ >= limits::kWaitingMax) return call.reply(Code::busy, {});
  const auto session = wire::AgentSession::of_word(request.header.capability);
  if (refuse_if_fenced(call, session)) return;
  auto wanted = std::make_unique<Request>();
  wanted->session = session;
  wanted->part = {request.request, request.begin, request.end,
                  static_cast<store::UpdateKind>(request.kind)};
  const uint64_t length = bytes_of_part(wanted->part);
  const bool exposed = length == 0 ? call.exposure_count == 0
                                   : call.exposure_count == 1 && call.exposure_length(0) == length;
  if (!exposed) return call.reply(Code::bad_message, {});
  wanted->memory = core_.host.budget.take(length);
  if (wanted->memory == nullptr) return call.reply(Code::busy, {});
  wanted->bytes = Payload(*core_.host.buffers, length);
  const store::ChainChunk at = core_.at(request.header.chunk_id());
  wanted->call = &call;
  wanted->latest = latest;
  if (length == 0) return take_request(at, std::move(wanted));
  auto held = std::make_shared<std::unique_ptr<Request>>(std::move(wanted));
  auto& fetch = core_.task<engine::TransferOp>(
      [this, at, held, version = core_.part.version()](Task<engine::TransferOp>& done) {
        engine::IncomingCall& from = *(*held)->call;
        if (!done.status.ok()) return from.reply(done.status, {});
        if (version != core_.part.version()) return core_.reply_moved(from);
        // Another call for the same request may have been faster, and this head's lease be over.
        if (answer_repeated(from, (*held)->part.request, (*held)->latest)) return;
        if (!core_.may_serve()) return core_.refuse(from);
        if (refuse_if_fenced(from, (*held)->session)) return;
        take_request(at, std::move(*held));
      });
  fetch.call = &call;
  fetch.local = {(*held)->bytes.data(), length};
  call.fetch(fetch);
}

// True if the request was executed, is being executed, or must not be. Also without a lease: what
// is recorded was committed, and what has no number yet hears when its turn comes.
bool Updates::answer_repeated(engine::IncomingCall& call, const RequestId& request,
                              engine::Time latest) {
  for (const auto& [at, chunk] : chunks_) {
    if (answer_waiting(call, request, latest, *chunk)) return true;
  }
  const auto recorded = core_.host.store().slot(core_.chain, NodeId{request.node}, request.slot);
  if (!recorded.has_value() || is_newer(request, recorded->request)) return false;
  if (recorded->request != request) {
    call.reply(Code::stale, {});
  } else {
    reply_done(call, recorded->name);
  }
  return true;
}

// The same where it waits for its turn in this chunk, or is in what is pending; or a newer one
// does.
bool Updates::answer_waiting(engine::IncomingCall& call, const RequestId& request,
                             engine::Time latest, Chunk& chunk) {
  for (const auto& waiting : chunk.waiting) {
    const RequestId& other = waiting->part.request;
    if (!same_slot(request, other) || is_newer(request, other)) continue;
    if (request != other) {
      call.reply(Code::stale, {});
    } else {
      repeat(waiting->call, call);
      waiting->latest = latest;
    }
    return true;
  }
  if (chunk.pending == nullptr) return false;
  Pending& pending = *chunk.pending;
  ASSERT(pending.calls.size() == pending.parts.size());
  for (size_t i = 0; i < pending.parts.size(); ++i) {
    const RequestId& other = pending.parts[i].request;
    if (!same_slot(request, other) || is_newer(request, other)) continue;
    if (request != other) {
      call.reply(Code::stale, {});
    } else {
      repeat(pending.calls[i], call);
    }
    return true;
  }
  return false;
}

// The client that calls again has given up on the earlier call.
void Updates::repeat(engine::IncomingCall*& earlier, engine::IncomingCall& call) {
  if (earlier != nullptr) earlier->reply(Code::cancelled, {});
  earlier = &call;
}

void Updates::take_request(const store::ChainChunk& at, std::unique_ptr<Request> request) {
  chunk(at).waiting.push_back(std::move(request));
  ++waiting_count_;
  begin_next(at);
  tidy(at);
}

// What was executed, or has its number, was asked for before: so this one never will be.
bool Updates::refuse_if_fenced(engine::IncomingCall& call, const wire::AgentSession& session) {
  if (!core_.host.fence.has(session)) return false;
  call.reply(Code::stale, {});
  return true;
}

void Updates::end_waiting(Chunk& chunk, const std::function<bool(const Request&)>& ends,
                          Status status) {
  std::erase_if(chunk.waiting, [&](const std::unique_ptr<Request>& one) {
    if (!ends(*one)) return false;
    one->call->reply(status, {});
    ASSERT(waiting_count_ > 0);
    --waiting_count_;
    return true;
  });
}

// What a head gives no number now never happens by this call: what is too late, what is fenced, and
// all that waits while it has no lease. The lease comes last: as long as it runs, the fence that
// was looked at is the one that counts.
bool Updates::may_begin_waiting(Chunk& chunk) {
  end_waiting(
      chunk, [this](const Request& one) { return core_.is_late(one.latest); }, Code::timed_out);
  end_waiting(
      chunk, [this](const Request& one) { return core_.host.fence.has(one.session); }, Code::stale);
  if (!core_.host.has_lease()) {
    end_waiting(
        chunk, [](const Request&) { return true; }, Code::not_serving);
  }
  return !chunk.waiting.empty();
}

void Updates::refuse_fenced() {
  std::vector<store::ChainChunk> all;
  for (const auto& [at, chunk] : chunks_) all.push_back(at);
  for (const store::ChainChunk& at : all) {
    end_waiting(
        chunk(at), [this](const Request& one) { return core_.host.fence.has(one.session); },
        Code::stale);
    tidy(at);
  }
}

// Gives a number to what waits for this chunk, if nothing is pending there.
void Updates::begin_next(const store::ChainChunk& at) {
  Chunk& next = chunk(at);
  if (next.pending != nullptr || next.locked || next.waiting.empty() || !core_.part.active ||
      core_.failed || next.wants_space || next.arriving != UpdateName{}) {
    return;
  }
  if (pending_count_ >= limits::kPendingMax) {
    if (!std::exchange(next.queued, true)) full_.push_back(at);
    return;
  }
  if (!next.committed.has_value()) {
    return with_committed(next, [this, at] { begin_next(at); });
  }
  if (!may_begin_waiting(next)) return;
  const uint64_t least = space_for(next.waiting.front()->part);
  if (!core_.credit->take(least)) return wait_for_space(at);
  auto pending = std::make_unique<Pending>();
  pending->space = least;
  std::vector<Payload> bytes;
  size_t length = 0;
  while (!next.waiting.empty() && pending->parts.size() < wire::kUpdatePartsMax) {
    Request& one = *next.waiting.front();
    const bool fits = length + one.bytes.size() <= limits::kJoinedBytes;
    if (!pending->parts.empty()) {
      const uint64_t further = space_for(one.part);
      if (!fits || !core_.credit->take(further, pending->space)) break;
      pending->space += further;
    }
    pending->parts.push_back(one.part);
    length += one.bytes.size();
    bytes.push_back(std::move(one.bytes));
    pending->calls.push_back(one.call);
    pending->memory.push_back(std::move(one.memory));
    next.waiting.pop_front();
    ASSERT(waiting_count_ > 0);
    --waiting_count_;
  }
  ASSERT(!pending->parts.empty());
  pending->reserved = core_.host.space.take(pending->space);
  pending->bytes = Payload::joined(*core_.host.buffers, bytes);
  pending->name = {core_.part.version(), next.committed->counter + 1,
                   pending->parts.front().request};
  begin(next, std::move(pending));
}

// Only the head refuses an update for want of space, and only before it has a number.
void Updates::wait_for_space(const store::ChainChunk& at) {
  Chunk& next = chunk(at);
  next.wants_space = true;
  const uint64_t bytes = space_for(next.waiting.front()->part);
  core_.credit->ask(bytes, [this, at](bool worth) {
    Chunk& known = chunk(at);
    known.wants_space = false;
    if (!worth) {
      std::erase_if(known.waiting, [this](const std::unique_ptr<Request>& one) {
        if (space_for(one->part) == 0) return false;
        one->call->reply(Code::no_space, {});
        ASSERT(waiting_count_ > 0);
        --waiting_count_;
        return true;
      });
    }
    begin_next(at);
    tidy(at);
  });
}

// An update has ended: the next of those may begin that found too many pending.
void Updates::begin_queued() {
  if (full_.empty() || pending_count_ >= limits::kPendingMax) return;
  const store::ChainChunk at = full_.front();
  full_.pop_front();
  chunk(at).queued = false;
  begin_next(at);
  tidy(at);
}

}  // namespace penstock::chain
