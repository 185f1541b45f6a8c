// What comes from the predecessor, and how a replica takes part in a new version.
#include "repair.h"
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
  if (request.name.counter < known.committed->counter || *known.committed == request.name) {
    return call.reply(Code::ok, {});
  }
  if (known.pending != nullptr && known.pending->name == request.name) {
    Pending& pending = *known.pending;
    // Its caller has given up on the earlier one.
    if (pending.from != nullptr) pending.from->reply(Code::cancelled, {});
    pending.from = &call;
    if ((request.flags & wire::kForwardDurable) != 0) pending.durable_before = true;
    return advance(known);
  }
  // The predecessor would not have begun this one before that one was committed.
  if (known.pending != nullptr && known.pending->name == request.base) {
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
  const bool full = pending_count_ >= limits::kPendingMax;
  if (known.arriving != UpdateName{} || full) return call.reply(Code::busy, {});
  if (known.locked) {
    known.when_unlocked.push_back([this, &call, request, version = core_.part.version()] {
      if (version != core_.part.version()) return core_.reply_moved(call);
      on_forward(call, request);
    });
    return;
  }
  fetch_forward(call, request);
}

// Brings parts and bytes of an update that is new here.
void Updates::fetch_forward(engine::IncomingCall& call, const wire::ChainForwardRequest& request) {
  const store::ChainChunk at = core_.at(request.header.chunk_id());
  Chunk& known = chunk(at);
  known.arriving = request.name;
  known.arriving_is_durable = (request.flags & wire::kForwardDurable) != 0;
  auto pending = std::make_shared<std::unique_ptr<Pending>>(std::make_unique<Pending>());
  (*pending)->name = request.name;
  (*pending)->parts.resize(request.parts);
  const uint64_t version = core_.part.version();
  auto end = [this, at, version, &call, pending](Status status) {
    Chunk& arrived = chunk(at);
    const bool durable = std::exchange(arrived.arriving_is_durable, false);
    arrived.arriving = {};
    if (status.ok() && version != core_.part.version()) status = Code::moved;
    if (status.ok() && !are_good((*pending)->parts, (*pending)->bytes.size())) {
      status = Code::bad_message;
    }
    if (!status.ok()) {
      call.reply(status, {});
      run_when_quiet(at);
      return tidy(at);
    }
    (*pending)->from = &call;
    (*pending)->durable_before = durable;
    (*pending)->calls.resize((*pending)->parts.size());
    begin(arrived, std::move(*pending));
  };
  auto fetch_bytes = [this, &call, pending, end](Task<engine::TransferOp>& done) {
    if (!done.status.ok() || call.exposure_count == 1) return end(done.status);
    (*pending)->bytes.resize(call.exposure_length(1));
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
  const uint32_t exposures = request.length > 0 ? 2 : 1;
  const bool exposed = call.exposure_count == exposures && call.exposure_length(0) == slots &&
                       (exposures == 1 || call.exposure_length(1) == request.length);
  if (!exposed) return call.reply(Code::bad_message, {});
  const store::ChainChunk at = core_.at(request.header.chunk_id());
  with_committed(chunk(at), [this, at, &call, request, version = core_.part.version()] {
    Chunk& known = chunk(at);
    if (version != core_.part.version()) return core_.reply_moved(call);
    if (known.arriving != UpdateName{}) return call.reply(Code::busy, {});
    if (*known.committed == request.committed) return call.reply(Code::ok, {});
    if (known.pending != nullptr || *known.committed != request.expected) {
      return call.reply(Code::stale, {});
    }
    known.arriving = request.committed == UpdateName{} ? request.expected : request.committed;
    fetch_replacement(call, request);
  });
}

void Updates::fetch_replacement(engine::IncomingCall& call,
                                const wire::ChainReplaceRequest& request) {
  auto slots = std::make_shared<std::vector<std::byte>>(call.exposure_length(0));
  auto bytes = std::make_shared<std::vector<std::byte>>(request.length);
  auto fetched = [this, &call, request, slots, bytes](Status status) {
    if (!status.ok()) return end_replacement(call, request, status);
    replace(call, request, *slots, bytes);
  };
  auto& fetch =
      core_.task<engine::TransferOp>([this, &call, bytes, fetched](Task<engine::TransferOp>& done) {
        if (!done.status.ok() || bytes->empty()) return fetched(done.status);
        auto& next =
            core_.task<engine::TransferOp>([fetched](auto& last) { fetched(last.status); });
        next.call = &call;
        next.exposure = 1;
        next.local = {bytes->data(), bytes->size()};
        call.fetch(next);
      });
  fetch.call = &call;
  fetch.local = {slots->data(), slots->size()};
  call.fetch(fetch);
}

void Updates::replace(engine::IncomingCall& call, const wire::ChainReplaceRequest& request,
                      Bytes slots, std::shared_ptr<std::vector<std::byte>> bytes) {
  const store::ChainChunk at = core_.at(request.header.chunk_id());
  if (request.header.chain_version != core_.part.version()) {
    return end_replacement(call, request, Code::moved);
  }
  auto records = std::make_shared<std::vector<store::SlotRecord>>();
  for (const wire::CopiedSlot& slot : structs_of<wire::CopiedSlot>(slots)) {
    if (!wire::is_good(slot.request)) return end_replacement(call, request, Code::bad_message);
    records->push_back({slot.request, at, slot.name});
  }
  auto& op = core_.task<store::ReplaceOp>(
      [this, &call, request, records, bytes](Task<store::ReplaceOp>& done) {
        if (!done.status.ok()) core_.fail();
        end_replacement(call, request, done.status);
      });
  op.at = at;
  op.state = {request.committed, request.removed != 0, request.length};
  op.bytes = {bytes->data(), bytes->size()};
  op.slots = *records;
  core_.host.store().submit(op);
}

void Updates::end_replacement(engine::IncomingCall& call, const wire::ChainReplaceRequest& request,
                              Status status) {
  const store::ChainChunk at = core_.at(request.header.chunk_id());
  Chunk& known = chunk(at);
  known.arriving = {};
  known.committed.reset();
  call.reply(status, {});
  tidy(at);
}

void Updates::on_durable(engine::IncomingCall& call, const wire::ChainNameRequest& request) {
  if (!core_.part.active || core_.failed) return core_.refuse(call);
  const auto found = chunks_.find(core_.at(request.header.chunk_id()));
  if (found == chunks_.end()) return call.reply(Code::busy, {});
  Chunk& known = *found->second;
  if (known.arriving == request.name) {
    known.arriving_is_durable = true;
    return call.reply(Code::ok, {});
  }
  if (known.pending == nullptr || known.pending->name != request.name) {
    return call.reply(Code::busy, {});
  }
  call.reply(Code::ok, {});
  known.pending->durable_before = true;
  advance(known);
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

void Updates::forget() {
  for (const store::PendingUpdate& left : core_.host.store().pending(core_.chain)) {
    core_.host.store().forget(left.at);
  }
  unload();
}

void Updates::part_changed() {
  full_.clear();
  std::vector<store::ChainChunk> all;
  for (const auto& [at, chunk] : chunks_) all.push_back(at);
  for (const store::ChainChunk& at : all) {
    Chunk& known = chunk(at);
    for (auto& request : std::exchange(known.waiting, {})) {
      core_.reply_moved(*request->call);
      --waiting_count_;
    }
    known.when_quiet.clear();
    known.locked = known.queued = false;
    for (const auto& next : std::exchange(known.when_unlocked, {})) next();
    if (known.pending != nullptr) {
      Pending& pending = *known.pending;
      pending.sending = pending.word_sent = pending.answered = pending.following = false;
      if (pending.durable && pending.durable_before) pending.may_be_shown = true;
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
    if (before == nullptr) chunk->pending->durable_before = true;
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
