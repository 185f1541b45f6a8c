// What all updates have in common: pending, passed on, committed.
#include "updates.h"

#include "healing.h"
#include "repair.h"
#include "tombstones.h"

#include <algorithm>

namespace penstock::chain {

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
                    !chunk.waiting.empty() || chunk.locked || chunk.held || !chunk.words.empty() ||
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

std::vector<InodeId> Updates::inodes(InodeId first) const {
  std::vector<InodeId> found;
  for (auto at = chunks_.lower_bound({core_.chain, {first, 0}}); at != chunks_.end(); ++at) {
    const bool is_pending = at->second->pending != nullptr || !at->second->waiting.empty();
    const InodeId inode = at->first.chunk.inode;
    if (is_pending && (found.empty() || found.back() != inode)) found.push_back(inode);
  }
  return found;
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

void Updates::prepare(Chunk& chunk, bool keep_damage) {
  Pending& pending = *chunk.pending;
  core_.host.updates.add();
  auto& op = core_.task<store::PrepareOp>([this, at = chunk.at, name = pending.name, keep_damage,
                                           bytes = pending.bytes](Task<store::PrepareOp>& done) {
    const auto found = chunks_.find(at);
    const bool is_wanted = found != chunks_.end() && found->second->pending != nullptr &&
                           found->second->pending->name == name;
    if (done.status == Code::corrupt && !done.keep_damage) {
      if (is_wanted) heal_and_prepare(*found->second);
      return;
    }
    if (done.status == Code::no_space) {
      if (is_wanted && !core_.failed) wait_and_prepare(at, name, keep_damage);
      return;
    }
    if (!done.status.ok()) return core_.fail();
    if (!is_wanted) return;
    core_.host.space.used(found->second->pending->space);
    found->second->pending->reserved = nullptr;
    found->second->pending->durable = true;
    if (core_.part.syncs()) let_go(*found->second->pending);
    advance(*found->second);
  });
  op.at = chunk.at;
  op.name = pending.name;
  op.parts = pending.parts;
  op.bytes = {pending.bytes.data(), pending.bytes.size()};
  op.keep_damage = keep_damage;
  core_.host.store().submit(op);
}

// The syncing one passes nothing on, and may hear late that it is committed: it keeps no memory
// until then.
void Updates::let_go(Pending& pending) {
  pending.has_bytes = pending.bytes.empty();
  pending.bytes = {};
  pending.held = nullptr;
}

// It has a number, so it may not be refused. Space that was promised may be late, as blocks become
// free with commits; a target that has none for long leaves.
void Updates::wait_and_prepare(const store::ChainChunk& at, const UpdateName& name,
                               bool keep_damage) {
  Pending& pending = *chunk(at).pending;
  if (++pending.space_tries > limits::kSpaceTries) return core_.fail();
  core_.after(limits::kPeerRetry, [this, at, name, keep_damage] {
    const auto found = chunks_.find(at);
    if (found == chunks_.end() || found->second->pending == nullptr || core_.failed) return;
    if (found->second->pending->name == name) prepare(*found->second, keep_damage);
  });
}

// A block of which the update changes a part is damaged. As long as the update is pending here no
// other replica is beyond what it follows, so that this can be healed; what cannot is kept as it
// is.
void Updates::heal_and_prepare(Chunk& chunk) {
  const Pending& pending = *chunk.pending;
  ASSERT(!pending.durable);
  BlockSpan blocks{UINT32_MAX, 0};
  for (const store::UpdatePart& part : pending.parts) {
    const bool to_end = part.kind != store::UpdateKind::write && part.end == store::kWholeChunk;
    const uint32_t end = to_end || part.end <= part.begin ? part.begin + 1 : part.end;
    if (end > limits::kChunkBytesMax) continue;  // nothing of it stays
    const BlockSpan its = blocks_of(part.begin, end - part.begin);
    blocks = {std::min(blocks.first, its.first), std::max(blocks.end, its.end)};
  }
  ASSERT(blocks.first < blocks.end);
  core_.healing->heal_now(chunk.at, blocks, [this, at = chunk.at, name = pending.name](bool) {
    const auto found = chunks_.find(at);
    if (found == chunks_.end() || found->second->pending == nullptr || core_.failed) return;
    if (found->second->pending->name == name) prepare(*found->second, true);
  });
}

// An update of an earlier life, or of a time as the syncing one: its bytes are wanted by the
// successor.
void Updates::read_bytes(Chunk& chunk) {
  const uint64_t bytes = limits::kPendingBytes + store::update_bytes(chunk.pending->parts);
  core_.hold(bytes, [this, at = chunk.at, name = chunk.pending->name](const Pools::Held& held) {
    const auto found = chunks_.find(at);
    if (found == chunks_.end() || found->second->pending == nullptr) return;
    if (found->second->pending->name == name) read_bytes(*found->second, held);
  });
}

void Updates::read_bytes(Chunk& chunk, const Pools::Held& held) {
  Pending& pending = *chunk.pending;
  pending.held = held;
  const Payload bytes(*core_.host.buffers, store::update_bytes(pending.parts), held);
  auto& op = core_.task<store::PendingReadOp>(
      [this, at = chunk.at, name = pending.name, bytes](Task<store::PendingReadOp>& done) {
        const auto found = chunks_.find(at);
        if (found == chunks_.end() || found->second->pending == nullptr) return;
        Pending& wanted = *found->second->pending;
        if (wanted.name != name) return;
        if (!done.status.ok()) return core_.fail();
        wanted.bytes = bytes;
        wanted.has_bytes = true;
        wanted.sending = false;
        advance(*found->second);
      });
  op.at = chunk.at;
  op.destination = {bytes.data(), bytes.size()};
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
  if (to != nullptr && !pending.answered && core_.successor_ready) {
    if (!pending.sending) send(chunk, *to);
    if (pending.durable && !pending.word_sent && core_.part.next() != nullptr) send_word(chunk);
  }
  if (to != nullptr && !pending.answered) return;
  // It may have served until now, and must know first that it does not any more.
  if (core_.part.follower() != nullptr && !core_.successor_ready) return;
  // Also where the successor says that it has committed: it is a peer, and may be wrong.
  if (!pending.durable) return;
  if (core_.part.is_commit_point() && !is_durable_before(chunk)) return;
  commit(chunk);
}

bool Updates::is_durable_before(const Chunk& chunk) const {
  const std::span<const Member> all = core_.part.all_before();
  return std::all_of(all.begin(), all.end(), [&chunk](const Member& member) {
    return chunk.words.has(chunk.pending->name, member);
  });
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
      again->second->pending->sending = false;
      advance(*again->second);
    });
  });
  // Nobody waits for what goes in the background.
  const auto traffic = store::drops(pending.parts) ? wire::Traffic::repair : wire::Traffic::latency;
  wire::ChainForwardRequest request{.header = core_.header(chunk.at.chunk, traffic),
                                    .name = pending.name,
                                    .base = *chunk.committed};
  request.parts = static_cast<uint32_t>(pending.parts.size());
  if (pending.durable && to.target == core_.part.commit_point().target) {
    request.flags = wire::kForwardDurable;
    pending.word_sent = true;
  }
  if (store::drops(pending.parts)) request.flags |= wire::kForwardDrop;
  call.say(wire::ChainMethod::forward, request);
  call.expose(bytes_of(std::span<const store::UpdatePart>(pending.parts)), engine::Access::fetch);
  if (!pending.bytes.empty()) call.expose(pending.bytes);
  core_.call(to, call);
}

// The commit point hears of it from here, and answers when it has committed: so a head need not
// wait until the answer has come back along the whole chain.
void Updates::send_word(Chunk& chunk) {
  Pending& pending = *chunk.pending;
  ASSERT(pending.durable && !pending.word_sent && !core_.part.is_commit_point());
  pending.word_sent = true;
  const Member& to = core_.part.commit_point();
  auto& call = core_.peer_task(to, [this, at = chunk.at, name = pending.name](auto& done) {
    if (done.status.ok()) return learn_commit(at, name);
    core_.retry([this, at, name] {
      const auto again = chunks_.find(at);
      if (again == chunks_.end() || again->second->pending == nullptr) return;
      if (again->second->pending->name != name || again->second->pending->answered) return;
      again->second->pending->word_sent = false;
      advance(*again->second);
    });
  });
  call.say(wire::ChainMethod::durable,
           wire::ChainWordRequest{.header = core_.header(chunk.at.chunk),
                                  .name = pending.name,
                                  .from = core_.part.target().value});
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
  if (store::drops(chunk.pending->parts)) core_.tombstones->note_dropped(chunk.at);
  chunk.committed = store::name_after(chunk.pending->name, chunk.pending->parts);
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
  if (chunk.words.name() == done->name) end_words(chunk, Code::ok);
  for (engine::IncomingCall* call : done->calls) {
    if (call != nullptr) reply_done(*call, done->name);
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
  if (locked.locked) {
    locked.when_unlocked.push_back(
        [this, at, version = core_.part.version(), then = std::move(then)] {
          if (version == core_.part.version()) lock(at, then);
        });
    return;
  }
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
    end_words(known, Code::moved);
    tidy(at);
  }
  ASSERT(pending_count_ == 0);
}

}  // namespace penstock::chain
