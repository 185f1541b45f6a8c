// What all updates have in common: pending, passed on, committed.
#include "updates.h"

#include "repair.h"

namespace penstock::chain {

Updates::~Updates() {
  // Those who ask go on with another replica.
  for (const auto& [at, chunk] : chunks_) {
    for (const auto& request : chunk->waiting) request->call->reply(Code::peer_gone, {});
    if (chunk->pending == nullptr) continue;
    if (chunk->pending->from != nullptr) chunk->pending->from->reply(Code::peer_gone, {});
    for (engine::IncomingCall* call : chunk->pending->calls) {
      if (call != nullptr) call->reply(Code::peer_gone, {});
    }
  }
}

Chunk& Updates::chunk(const store::ChainChunk& at) {
  std::unique_ptr<Chunk>& found = chunks_[at];
  if (found == nullptr) {
    found = std::make_unique<Chunk>();
    found->at = at;
  }
  return *found;
}

// Runs `then` when the chunk's committed name is known, perhaps at once.
void Updates::with_committed(Chunk& chunk, std::function<void()> then) {
  if (chunk.committed.has_value()) return then();
  chunk.when_known.push_back(std::move(then));
  if (chunk.when_known.size() > 1) return;
  auto& look = core_.task<store::LookOp>([this, at = chunk.at](Task<store::LookOp>& done) {
    if (!done.status.ok()) return core_.fail();
    Chunk& known = this->chunk(at);
    known.committed = done.state.committed;
    // What comes first may make it unknown again for the next.
    known.held = true;
    for (auto& next : std::exchange(known.when_known, {})) with_committed(known, std::move(next));
    known.held = false;
    tidy(at);
  });
  look.at = chunk.at;
  core_.host.store().submit(look);
}

// What nothing goes on with is forgotten: it can be looked up again.
void Updates::tidy(const store::ChainChunk& at) {
  const auto found = chunks_.find(at);
  if (found == chunks_.end()) return;
  const Chunk& chunk = *found->second;
  const bool busy = chunk.pending != nullptr || chunk.arriving != UpdateName{} ||
                    !chunk.waiting.empty() || chunk.locked || chunk.held ||
                    !chunk.when_quiet.empty() || !chunk.when_unlocked.empty() ||
                    !chunk.when_known.empty();
  if (!busy) chunks_.erase(found);
}

const Pending* Updates::pending(const store::ChainChunk& at) const {
  const auto found = chunks_.find(at);
  return found == chunks_.end() ? nullptr : found->second->pending.get();
}

bool Updates::has_pending(InodeId inode) const {
  const store::ChainChunk first{core_.chain, {inode, 0}};
  for (auto at = chunks_.lower_bound(first); at != chunks_.end(); ++at) {
    if (at->first.chunk.inode != inode) return false;
    if (at->second->pending != nullptr || !at->second->waiting.empty()) return true;
  }
  return false;
}

// To whom an update of this chunk goes from here, if to anybody.
const Member* Updates::receiver(const Chunk& chunk) const {
  if (const Member* next = core_.part.next()) return next;
  return chunk.pending->following ? core_.part.follower() : nullptr;
}

void Updates::begin(Chunk& chunk, std::unique_ptr<Pending> pending) {
  ASSERT(chunk.pending == nullptr && chunk.committed.has_value());
  ASSERT(pending->name.counter == chunk.committed->counter + 1);
  ASSERT(store::update_bytes(pending->parts) == pending->bytes.size());
  ASSERT(pending->calls.size() == pending->parts.size());
  chunk.pending = std::move(pending);
  ++pending_count_;
  if (core_.part.follower() != nullptr) chunk.pending->following = core_.repair->begin(chunk.at);
  prepare(chunk);
  advance(chunk);
}

void Updates::prepare(Chunk& chunk) {
  Pending& pending = *chunk.pending;
  auto& op = core_.task<store::PrepareOp>(
      [this, at = chunk.at, name = pending.name](Task<store::PrepareOp>& done) {
        const auto found = chunks_.find(at);
        const bool is_wanted = found != chunks_.end() && found->second->pending != nullptr &&
                               found->second->pending->name == name;
        if (!done.status.ok()) return core_.fail();
        if (!is_wanted) return;
        found->second->pending->durable = true;
        advance(*found->second);
      });
  op.at = chunk.at;
  op.name = pending.name;
  op.parts = pending.parts;
  op.bytes = {pending.bytes.data(), pending.bytes.size()};
  core_.host.store().submit(op);
}

// An update of an earlier life: its bytes are wanted by the successor.
void Updates::read_bytes(Chunk& chunk) {
  Pending& pending = *chunk.pending;
  auto bytes = std::make_shared<std::vector<std::byte>>(store::update_bytes(pending.parts));
  auto& op = core_.task<store::PendingReadOp>(
      [this, at = chunk.at, name = pending.name, bytes](Task<store::PendingReadOp>& done) {
        const auto found = chunks_.find(at);
        if (found == chunks_.end() || found->second->pending == nullptr) return;
        Pending& wanted = *found->second->pending;
        if (wanted.name != name) return;
        if (!done.status.ok()) return core_.fail();
        wanted.bytes = std::move(*bytes);
        wanted.has_bytes = true;
        wanted.sending = false;
        advance(*found->second);
      });
  op.at = chunk.at;
  op.destination = {bytes->data(), bytes->size()};
  core_.host.store().submit(op);
}

// Does for a pending update whatever can be done now.
void Updates::advance(Chunk& chunk) {
  if (!core_.part.active || core_.failed || chunk.pending == nullptr) return;
  if (!chunk.committed.has_value()) return;  // it is being looked up, and comes again then
  Pending& pending = *chunk.pending;
  if (core_.part.syncs()) {
    if (pending.durable && pending.from != nullptr) {
      // From here on the commit point may commit it, and show it.
      pending.may_be_shown = true;
      std::exchange(pending.from, nullptr)->reply(Code::ok, {});
    }
    return;
  }
  const Member* const to = receiver(chunk);
  const bool durable_here = pending.durable && pending.durable_before;
  if (to != nullptr && !pending.answered && core_.successor_ready) {
    if (!pending.sending) {
      send(chunk, *to);
    } else if (durable_here && !pending.word_sent && core_.part.next() != nullptr) {
      send_word(chunk, *to);
    }
  }
  if (to != nullptr && !pending.answered) return;
  // It may have served until now, and must know first that it does not any more.
  if (core_.part.follower() != nullptr && !core_.successor_ready) return;
  // Also where the successor says that it has committed: it is a peer, and may be wrong.
  if (!durable_here) return;
  commit(chunk);
}

void Updates::send(Chunk& chunk, const Member& to) {
  Pending& pending = *chunk.pending;
  ASSERT(!pending.sending && chunk.committed.has_value());
  pending.sending = true;
  if (!pending.has_bytes) return read_bytes(chunk);
  auto& call = core_.peer_task(to, [this, at = chunk.at, name = pending.name](auto& done) {
    const auto found = chunks_.find(at);
    if (found == chunks_.end() || found->second->pending == nullptr) return;
    Pending& sent = *found->second->pending;
    if (sent.name != name || !sent.sending) return;
    if (done.status.ok()) {
      sent.answered = true;
      return advance(*found->second);
    }
    core_.retry([this, at, name] {
      const auto again = chunks_.find(at);
      if (again == chunks_.end() || again->second->pending == nullptr) return;
      if (again->second->pending->name != name) return;
      again->second->pending->sending = again->second->pending->word_sent = false;
      advance(*again->second);
    });
  });
  wire::ChainForwardRequest request{
      .header = core_.header(chunk.at.chunk), .name = pending.name, .base = *chunk.committed};
  request.parts = static_cast<uint32_t>(pending.parts.size());
  if (pending.durable && pending.durable_before) {
    request.flags = wire::kForwardDurable;
    pending.word_sent = true;
  }
  call.say(wire::ChainMethod::forward, request);
  call.expose(bytes_of(std::span<const store::UpdatePart>(pending.parts)), engine::Access::fetch);
  if (!pending.bytes.empty()) call.expose(pending.bytes, engine::Access::fetch);
  core_.call(to, call);
}

void Updates::send_word(Chunk& chunk, const Member& to) {
  Pending& pending = *chunk.pending;
  ASSERT(pending.durable && pending.durable_before && !pending.word_sent);
  pending.word_sent = true;
  auto& call = core_.peer_task(to, [this, at = chunk.at, name = pending.name](auto& done) {
    if (done.status.ok()) return;
    core_.retry([this, at, name] {
      const auto again = chunks_.find(at);
      if (again == chunks_.end() || again->second->pending == nullptr) return;
      if (again->second->pending->name != name || again->second->pending->answered) return;
      again->second->pending->word_sent = false;
      advance(*again->second);
    });
  });
  call.say(wire::ChainMethod::durable,
           wire::ChainNameRequest{core_.header(chunk.at.chunk), pending.name});
  core_.call(to, call);
}

// The syncing one may show what it has from the moment at which it serves.
void Updates::tell_committed(const store::ChainChunk& at, const UpdateName& name,
                             const Member& to) {
  auto& call = core_.peer_task(to, [](auto&) {});
  call.say(wire::ChainMethod::committed, wire::ChainNameRequest{core_.header(at.chunk), name});
  core_.call(to, call);
}

void Updates::commit(Chunk& chunk) {
  ASSERT(chunk.pending != nullptr && chunk.pending->durable);
  ASSERT(!chunk.committed.has_value() ||
         chunk.pending->name.counter == chunk.committed->counter + 1);
  core_.host.store().commit(chunk.at);
  chunk.committed = chunk.pending->name;
  if (const Member* follower = core_.part.follower(); follower != nullptr) {
    if (chunk.pending->following) tell_committed(chunk.at, chunk.pending->name, *follower);
  }
  end_pending(chunk);
}

// It is committed: all that wait for it hear so, and what waits behind it may begin.
void Updates::end_pending(Chunk& chunk) {
  const std::unique_ptr<Pending> done = std::move(chunk.pending);
  ASSERT(done != nullptr && pending_count_ > 0);
  --pending_count_;
  if (done->from != nullptr) done->from->reply(Code::ok, {});
  for (engine::IncomingCall* call : done->calls) {
    if (call != nullptr) call->reply(Code::ok, {});
  }
  const store::ChainChunk at = chunk.at;
  run_when_quiet(at);
  begin_next(at);
  tidy(at);
  begin_queued();
}

void Updates::run_when_quiet(const store::ChainChunk& at) {
  Chunk& known = chunk(at);
  if (known.pending != nullptr || known.arriving != UpdateName{}) return;
  for (const auto& next : std::exchange(known.when_quiet, {})) next();
}

void Updates::learn_commit(const store::ChainChunk& at, const UpdateName& name) {
  const auto found = chunks_.find(at);
  if (found == chunks_.end() || found->second->pending == nullptr) return;
  Chunk& chunk = *found->second;
  if (chunk.pending->name == name && chunk.pending->durable) commit(chunk);
}

void Updates::lock(const store::ChainChunk& at, std::function<void(const UpdateName&)> then) {
  Chunk& locked = chunk(at);
  ASSERT(!locked.locked);
  locked.locked = true;
  auto known = [this, at, then = std::move(then)] {
    with_committed(chunk(at), [this, at, then] {
      ASSERT(chunk(at).committed.has_value());
      then(*chunk(at).committed);
    });
  };
  locked.when_quiet.push_back(std::move(known));
  run_when_quiet(at);
}

void Updates::unlock(const store::ChainChunk& at) {
  Chunk& locked = chunk(at);
  ASSERT(locked.locked);
  locked.locked = false;
  for (const auto& next : std::exchange(locked.when_unlocked, {})) next();
  begin_next(at);
  tidy(at);
}

void Updates::unload() {
  std::vector<store::ChainChunk> all;
  for (const auto& [at, chunk] : chunks_) all.push_back(at);
  for (const store::ChainChunk& at : all) {
    Chunk& known = chunk(at);
    if (known.pending != nullptr) --pending_count_;
    known.pending = nullptr;
    known.committed.reset();
    tidy(at);
  }
  ASSERT(pending_count_ == 0);
}

}  // namespace penstock::chain
