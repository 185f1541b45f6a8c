// What comes from the predecessor, and how a replica takes part in a new version.
#include "credit.h"
#include "repair.h"
#include "tombstones.h"
#include "updates.h"

#include <algorithm>

namespace penstock::chain {
namespace {

// Parts come from a neighbour as they are: they must be possible, and have these bytes.
bool are_good(const std::vector<store::UpdatePart>& parts, size_t bytes) {
  const auto is_good = [](const store::UpdatePart& part) {
    return wire::is_good(part.request) &&
           wire::is_good_part(static_cast<uint32_t>(part.kind), part.begin, part.end);
  };
  return std::all_of(parts.begin(), parts.end(), is_good) && store::update_bytes(parts) == bytes;
}
// The message has said whether it is one that drops the chunk's name.
bool are_as_said(const std::vector<store::UpdatePart>& parts, bool drops) {
  const auto is_drop = [](const store::UpdatePart& part) {
    return part.kind == store::UpdateKind::drop;
  };
  return drops ? store::drops(parts) : std::none_of(parts.begin(), parts.end(), is_drop);
}

// What is brought with the call takes so much.
uint64_t memory_for(const engine::IncomingCall& call) {
  uint64_t bytes = limits::kPendingBytes;
  for (uint32_t i = 0; i < call.exposure_count; ++i) bytes += call.exposure_length(i);
  return bytes;
}

}  // namespace

void Updates::on_forward(engine::IncomingCall& call, const wire::ChainForwardRequest& request) {
  const bool has_place = core_.part.predecessor() != nullptr && core_.part.active && !core_.failed;
  if (!has_place) return core_.refuse(call);
  const uint64_t parts = uint64_t{request.parts} * sizeof(store::UpdatePart);
  const bool exposed =
      call.exposure_count >= 1 && call.exposure_count <= 2 && call.exposure_length(0) == parts &&
      (call.exposure_count == 1 || call.exposure_length(1) <= limits::kChunkBytesMax);
  if (!exposed) return call.reply(Code::bad_message, {});
  Chunk& known = chunk(core_.at(request.header.chunk_id()));
  with_committed(known, [this, &call, request, version = core_.part.version()] {
    if (version != core_.part.version()) return core_.reply_moved(call);
    take_forward(call, request);
  });
}

void Updates::take_forward(engine::IncomingCall& call, const wire::ChainForwardRequest& request) {
  const store::ChainChunk at = core_.at(request.header.chunk_id());
  Chunk& known = chunk(at);
  ASSERT(known.committed.has_value());
  // Also one that came before what is committed here: a repetition that nobody waits for.
  if (is_done(known, request)) return call.reply(Code::ok, {});
  if (known.pending != nullptr && known.pending->name == request.name) {
    Pending& pending = *known.pending;
    // Its caller has given up on the earlier one.
    if (pending.from != nullptr) pending.from->reply(Code::cancelled, {});
    pending.from = &call;
    hear_in_forward(known, request);
    return advance(known);
  }
  // The predecessor would not have begun this one before that one was committed.
  if (known.pending != nullptr &&
      store::name_after(known.pending->name, known.pending->parts) == request.base) {
    if (!known.pending->durable) return call.reply(Code::busy, {});
    commit(known);
    return on_forward(call, request);
  }
  if (known.pending != nullptr || *known.committed != request.base) {
    log::error("chain {}: chunk {} of inode {}: update {} does not follow what is here ({})",
               core_.chain.value, at.chunk.index, at.chunk.inode.value, request.name.counter,
               known.committed->counter);
    call.reply(Code::not_serving, {});
    return core_.fail();
  }
  if (known.arrives != nullptr && known.arriving == request.name) {
    hear_in_forward(known, request);
    return repeat_arrival(known, call);
  }
  const bool full = pending_count_ + arriving_count_ >= limits::kPendingMax;
  if (known.arriving != UpdateName{} || full) return call.reply(Code::busy, {});
  if (known.locked) {
    known.when_unlocked.push_back([this, &call, request, version = core_.part.version()] {
      if (version != core_.part.version()) return core_.reply_moved(call);
      on_forward(call, request);
    });
    return;
  }
  begin_arrival(known, call, request.name);
  hear_in_forward(known, request);
  core_.hold(memory_for(call), [this, at, request](const Pools::Held& held) {
    engine::IncomingCall& from = *std::exchange(chunk(at).arrives, nullptr);
    fetch_forward(from, request, held);
  });
}

// Its caller has given up on the earlier call, which waits for memory. Its turn is kept.
void Updates::repeat_arrival(Chunk& known, engine::IncomingCall& call) {
  const bool is_same = call.exposure_count == known.arrives->exposure_count &&
                       memory_for(call) == memory_for(*known.arrives);
  if (!is_same) return call.reply(Code::bad_message, {});
  repeat(known.arrives, call);
}

void Updates::begin_arrival(Chunk& known, engine::IncomingCall& call, const UpdateName& name) {
  ASSERT(known.arriving == UpdateName{} && known.arrives == nullptr);
  known.arriving = name;
  known.arrives = &call;
  ++arriving_count_;
}

void Updates::end_arrival(Chunk& known) {
  ASSERT(known.arriving != UpdateName{} && arriving_count_ > 0);
  known.arriving = {};
  --arriving_count_;
}

// Brings parts and bytes of an update that is new here.
void Updates::fetch_forward(engine::IncomingCall& call, const wire::ChainForwardRequest& request,
                            const Pools::Held& held) {
  const store::ChainChunk at = core_.at(request.header.chunk_id());
  auto pending = std::make_shared<std::unique_ptr<Pending>>(std::make_unique<Pending>());
  (*pending)->name = request.name;
  (*pending)->parts.resize(request.parts);
  (*pending)->held = held;
  const uint64_t version = core_.part.version();
  const bool drops = (request.flags & wire::kForwardDrop) != 0;
  auto end = [this, at, version, &call, pending, drops](Status status) {
    Chunk& arrived = chunk(at);
    end_arrival(arrived);
    if (status.ok() && version != core_.part.version()) status = Code::moved;
    if (status.ok() && !are_good((*pending)->parts, (*pending)->bytes.size())) {
      status = Code::bad_message;
    }
    if (status.ok() && !are_as_said((*pending)->parts, drops)) status = Code::bad_message;
    if (!status.ok()) {
      call.reply(status, {});
      run_when_quiet(at);
      // A replica that has become head meanwhile has let clients wait for this.
      begin_next(at);
      return tidy(at);
    }
    (*pending)->from = &call;
    (*pending)->calls.resize((*pending)->parts.size());
    for (const auto& part : (*pending)->parts) (*pending)->space += space_for(part);
    core_.credit->arrived((*pending)->space);
    (*pending)->reserved = core_.host.space.take((*pending)->space);
    begin(arrived, std::move(*pending));
  };
  auto fetch_bytes = [this, &call, pending, end](Task<engine::TransferOp>& done) {
    if (!done.status.ok() || call.exposure_count == 1) return end(done.status);
    (*pending)->bytes = Payload(*core_.host.buffers, call.exposure_length(1), (*pending)->held);
    auto& fetch = core_.task<engine::TransferOp>([end](auto& last) { end(last.status); });
    fetch.call = &call;
    fetch.exposure = 1;
    fetch.local = {(*pending)->bytes.data(), (*pending)->bytes.size()};
    call.fetch(fetch);
  };
  auto& fetch = core_.task<engine::TransferOp>(fetch_bytes);
  fetch.call = &call;
  fetch.local = {reinterpret_cast<std::byte*>((*pending)->parts.data()), call.exposure_length(0)};
  call.fetch(fetch);
}

// A whole chunk, from repair. A late one, after which updates came, finds another name than it
// expects.
void Updates::on_replace(engine::IncomingCall& call, const wire::ChainReplaceRequest& request) {
  if (!core_.part.syncs() || !core_.part.active || core_.failed) return core_.refuse(call);
  const uint64_t slots = uint64_t{request.slots} * sizeof(wire::CopiedSlot);
  const uint64_t damaged = uint64_t{request.damaged} * sizeof(uint32_t);
  const uint32_t exposures = 1 + (request.length > 0 ? 1 : 0) + (request.damaged > 0 ? 1 : 0);
  const bool exposed = call.exposure_count == exposures && call.exposure_length(0) == slots &&
                       (request.length == 0 || call.exposure_length(1) == request.length) &&
                       (request.damaged == 0 || call.exposure_length(2) == damaged);
  if (!exposed) return call.reply(Code::bad_message, {});
  const store::ChainChunk at = core_.at(request.header.chunk_id());
  with_committed(chunk(at), [this, at, &call, request, version = core_.part.version()] {
    Chunk& known = chunk(at);
    if (version != core_.part.version()) return core_.reply_moved(call);
    const bool is_none = request.committed == UpdateName{};
    const UpdateName& name = is_none ? request.expected : request.committed;
    if (known.arrives != nullptr && known.arriving == name) return repeat_arrival(known, call);
    if (known.arriving != UpdateName{}) return call.reply(Code::busy, {});
    if (*known.committed == request.committed) return call.reply(Code::ok, {});
    // The name that it has is none again, as perhaps before the first delivery of this copy.
    if (core_.tombstones->were_dropped(at)) return call.reply(Code::ok, {});
    if (known.pending != nullptr || *known.committed != request.expected) {
      return call.reply(Code::stale, {});
    }
    begin_arrival(known, call, name);
    core_.hold(memory_for(call), [this, at, request](const Pools::Held& held) {
      engine::IncomingCall& from = *std::exchange(chunk(at).arrives, nullptr);
      fetch_replacement(from, request, held);
    });
  });
}

void Updates::fetch_replacement(engine::IncomingCall& call,
                                const wire::ChainReplaceRequest& request, const Pools::Held& held) {
  auto memory = std::make_shared<Replacement>();
  memory->held = held;
  memory->parts[0] = std::make_shared<std::vector<std::byte>>(call.exposure_length(0));
  memory->parts[1] = std::make_shared<std::vector<std::byte>>(request.length);
  memory->parts[2] = std::make_shared<std::vector<std::byte>>(request.damaged * sizeof(uint32_t));
  fetch_part(call, request, memory, 0);
}

// One exposure after the other.
void Updates::fetch_part(engine::IncomingCall& call, const wire::ChainReplaceRequest& request,
                         const std::shared_ptr<Replacement>& memory, uint32_t index) {
  const auto& parts = memory->parts;
  if (index == call.exposure_count) return replace(call, request, memory);
  auto& fetch = core_.task<engine::TransferOp>(
      [this, &call, request, memory, index](Task<engine::TransferOp>& done) {
        if (!done.status.ok()) return end_replacement(call, request, done.status);
        fetch_part(call, request, memory, index + 1);
      });
  fetch.call = &call;
  fetch.exposure = index;
  fetch.local = {parts[index]->data(), parts[index]->size()};
  call.fetch(fetch);
}

void Updates::replace(engine::IncomingCall& call, const wire::ChainReplaceRequest& request,
                      const std::shared_ptr<Replacement>& memory) {
  const store::ChainChunk at = core_.at(request.header.chunk_id());
  if (request.header.chain_version != core_.part.version()) {
    return end_replacement(call, request, Code::moved);
  }
  auto records = std::make_shared<std::vector<store::SlotRecord>>();
  for (const wire::CopiedSlot& slot : structs_of<wire::CopiedSlot>(*memory->parts[0])) {
    if (!wire::is_good(slot.request)) return end_replacement(call, request, Code::bad_message);
    records->push_back({slot.request, at, slot.name});
  }
  const auto lost =
      std::make_shared<std::vector<uint32_t>>(structs_of<uint32_t>(*memory->parts[2]));
  const bool in_order =
      std::adjacent_find(lost->begin(), lost->end(), std::greater_equal<>()) == lost->end();
  if (!lost->empty() && (!in_order || lost->back() * limits::kBlockBytes >= request.length)) {
    return end_replacement(call, request, Code::bad_message);
  }
  auto& op = core_.task<store::ReplaceOp>(
      [this, &call, request, records, memory, lost](Task<store::ReplaceOp>& done) {
        if (!done.status.ok()) core_.fail();
        end_replacement(call, request, done.status);
      });
  op.at = at;
  op.state = {request.committed, request.removed != 0, request.length};
  op.bytes = {memory->parts[1]->data(), memory->parts[1]->size()};
  op.slots = *records;
  op.damaged = *lost;
  core_.host.store().submit(op);
}

void Updates::end_replacement(engine::IncomingCall& call, const wire::ChainReplaceRequest& request,
                              Status status) {
  const store::ChainChunk at = core_.at(request.header.chunk_id());
  Chunk& known = chunk(at);
  end_arrival(known);
  known.committed.reset();
  call.reply(status, {});
  // Of a version in which this replica has become the commit point, and repairs another.
  run_when_quiet(at);
  begin_next(at);
  tidy(at);
}

// What the predecessor's own message says of the update that it brings.
void Updates::hear_in_forward(Chunk& chunk, const wire::ChainForwardRequest& request) {
  if ((request.flags & wire::kForwardDurable) == 0 || !core_.part.is_commit_point()) return;
  hear(chunk, request.name, *core_.part.predecessor(), nullptr);
}

void Updates::hear(Chunk& chunk, const UpdateName& name, const Member& from,
                   engine::IncomingCall* call) {
  if (chunk.words.empty()) ++chunks_with_words_;
  chunk.words.hear(name, from, call);
}

void Updates::end_words(Chunk& chunk, Status status) {
  if (chunk.words.empty()) return;
  ASSERT(chunks_with_words_ > 0);
  --chunks_with_words_;
  chunk.words.end(status);
}

void Updates::on_durable(engine::IncomingCall& call, const wire::ChainWordRequest& request) {
  if (!core_.part.active || core_.failed) return core_.refuse(call);
  const bool is_right =
      core_.part.is_commit_point() && core_.part.before(TargetId{request.from}) != nullptr;
  if (!is_right) return call.reply(Code::bad_message, {});
  Chunk& known = chunk(core_.at(request.header.chunk_id()));
  with_committed(known, [this, &call, request, version = core_.part.version()] {
    if (version != core_.part.version()) return core_.reply_moved(call);
    take_word(call, request);
  });
}

// It may be here before the update itself, which comes along the chain.
void Updates::take_word(engine::IncomingCall& call, const wire::ChainWordRequest& request) {
  const store::ChainChunk at = core_.at(request.header.chunk_id());
  Chunk& known = chunk(at);
  ASSERT(known.committed.has_value());
  const UpdateName& name = request.name;
  // Also of one that came before: nobody waits for it any more.
  if (came_before(name, *known.committed) || *known.committed == name) {
    return call.reply(Code::ok, {});
  }
  const bool is_other = known.pending != nullptr && known.pending->name != name;
  const bool full = known.words.empty() && chunks_with_words_ >= limits::kWordsMax;
  if (is_other || full) return call.reply(Code::busy, {});
  hear(known, name, *core_.part.before(TargetId{request.from}), &call);
  if (known.pending != nullptr) advance(known);
}

void Updates::on_committed(engine::IncomingCall& call, const wire::ChainNameRequest& request) {
  if (!core_.part.syncs() || !core_.part.active) return core_.refuse(call);
  call.reply(Code::ok, {});
  learn_commit(core_.at(request.header.chunk_id()), request.name);
}

void Updates::load() {
  ASSERT(pending_count_ == 0);
  for (store::PendingUpdate& left : core_.host.store().pending(core_.chain)) {
    Chunk& known = chunk(left.at);
    known.pending = std::make_unique<Pending>();
    known.pending->name = left.name;
    known.pending->parts = std::move(left.parts);
    known.pending->calls.resize(known.pending->parts.size());
    known.pending->has_bytes = false;
    known.pending->durable = known.pending->may_be_shown = true;
    ++pending_count_;
  }
}

// `then` runs once a power cut brings nothing of it back, also of what was forgotten before: of a
// chunk whose name went meanwhile nothing else would say that it is old.
void Updates::forget(std::function<void()> then) {
  unload();
  when_forgotten_.push_back(std::move(then));
  for (const store::PendingUpdate& old : core_.host.store().pending(core_.chain)) {
    ++forgetting_;
    auto& durable = core_.task<engine::Op>([this](Task<engine::Op>& done) {
      if (!done.status.ok()) core_.fail();
      if (--forgetting_ == 0) forgotten();
    });
    core_.host.store().forget(old.at, &durable);
  }
  if (forgetting_ == 0) forgotten();
}

void Updates::forgotten() {
  for (const auto& then : std::exchange(when_forgotten_, {})) then();
}

void Updates::part_changed() {
  full_.clear();
  const bool has_place = core_.part.serves() || core_.part.syncs();
  std::vector<store::ChainChunk> all;
  for (const auto& [at, chunk] : chunks_) all.push_back(at);
  for (const store::ChainChunk& at : all) {
    Chunk& known = chunk(at);
    for (auto& request : std::exchange(known.waiting, {})) {
      core_.reply_moved(*request->call);
      --waiting_count_;
    }
    if (known.arrives != nullptr) {
      core_.reply_moved(*std::exchange(known.arrives, nullptr));
      end_arrival(known);
    }
    known.when_quiet.clear();
    // What was said of it stays true; of what has not arrived it will be said again.
    for (engine::IncomingCall* call : known.words.take_calls()) core_.reply_moved(*call);
    if (known.pending == nullptr || known.words.name() != known.pending->name) {
      end_words(known, Code::moved);
    }
    known.locked = known.queued = known.wants_space = false;
    for (const auto& next : std::exchange(known.when_unlocked, {})) next();
    if (known.pending != nullptr) {
      Pending& pending = *known.pending;
      pending.sending = pending.word_sent = pending.answered = pending.following = false;
      if (pending.held != nullptr && has_place) pending.held->move_to(core_.part.place());
      // All before it may have had it durable as well: only the commit point knew.
      if (pending.durable) pending.may_be_shown = true;
      if (pending.from != nullptr) core_.reply_moved(*std::exchange(pending.from, nullptr));
      // Clients find the new head, and wait there.
      for (engine::IncomingCall*& call : pending.calls) {
        if (call != nullptr) core_.reply_moved(*std::exchange(call, nullptr));
      }
    }
    tidy(at);
  }
}

void Updates::activated(const std::map<ChunkId, UpdateName>* before) {
  // What the predecessor does not have pending, by name, it has committed: so it is everywhere.
  const auto is_committed = [before](const Chunk& chunk) {
    if (before == nullptr) return false;
    const auto found = before->find(chunk.at.chunk);
    return found == before->end() || found->second != chunk.pending->name;
  };
  std::vector<std::pair<store::ChainChunk, bool>> all;
  for (const auto& [at, chunk] : chunks_) {
    if (chunk->pending == nullptr) continue;
    const bool committed = is_committed(*chunk);
    all.emplace_back(at, committed);
    if (committed) chunk->pending->may_be_shown = true;
  }
  for (const auto& [at, committed] : all) {
    with_committed(chunk(at),
                   [this, at = at, committed = committed, version = core_.part.version()] {
                     const auto found = chunks_.find(at);
                     if (version != core_.part.version() || found == chunks_.end()) return;
                     Chunk& known = *found->second;
                     if (known.pending == nullptr) return;
                     if (committed && known.pending->durable) return commit(known);
                     if (core_.part.follower() != nullptr)
                       known.pending->following = core_.repair->begin(at);
                     advance(known);
                   });
  }
}

void Updates::successor_ready() {
  std::vector<store::ChainChunk> all;
  for (const auto& [at, chunk] : chunks_) {
    if (chunk->pending != nullptr && chunk->committed.has_value()) all.push_back(at);
  }
  for (const store::ChainChunk& at : all) {
    const auto found = chunks_.find(at);
    if (found != chunks_.end()) advance(*found->second);
  }
}

void Updates::repair_began() {
  for (const auto& [at, chunk] : chunks_) {
    if (chunk->pending == nullptr) continue;
    chunk->pending->following = core_.repair->begin(at);
    ASSERT(!chunk->pending->following);
  }
}

std::vector<wire::PendingEntry> Updates::list() const {
  std::vector<wire::PendingEntry> entries;
  for (const auto& [at, chunk] : chunks_) {
    if (chunk->pending == nullptr) continue;
    entries.push_back({at.chunk.inode.value, at.chunk.index, 0, chunk->pending->name});
  }
  return entries;
}

}  // namespace penstock::chain
