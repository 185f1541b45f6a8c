// Reads of committed bytes at any serving replica.
#include "replica.h"

#include <algorithm>
#include <set>

namespace penstock::chain {

// `then` runs once this replica shows the chunk as it is at some moment of the call.
void Replica::when_shown(engine::IncomingCall& call, const store::ChainChunk& at,
                         std::function<void()> then) {
  const Pending* const pending = updates_.pending(at);
  // The commit point decides; at all others what is pending may be committed already.
  if (core_.part.is_commit_point()) {
    if (pending != nullptr && pending->may_be_shown) return core_.refuse(call);
  } else if (pending != nullptr) {
    return ask(at, std::move(then), [&call] { call.reply(Code::not_serving, {}); });
  }
  then();
}

void Replica::on_read(engine::IncomingCall& call, const wire::ChainReadRequest& request) {
  if (!core_.may_serve()) return core_.refuse(call);
  const bool checksums = (request.flags & wire::kChunkChecksums) != 0;
  const bool exposed =
      call.exposure_count == (checksums ? 2 : 1) && call.exposure_length(0) == request.length &&
      (!checksums || call.exposure_length(1) == wire::checksum_bytes(request.length));
  if (!exposed) return call.reply(Code::bad_message, {});
  when_shown(call, core_.at(request.header.chunk_id()),
             [this, &call, request, latest = core_.latest(request.header)] {
               if (core_.is_late(latest)) return call.reply(Code::timed_out, {});
               read_committed(call, request);
             });
}

void Replica::on_probe(engine::IncomingCall& call, const wire::ChainReadRequest& request) {
  if (!core_.may_serve()) return core_.refuse(call);
  if (call.exposure_count != 0 || request.flags != 0) return call.reply(Code::bad_message, {});
  when_shown(call, core_.at(request.header.chunk_id()),
             [this, &call, request, latest = core_.latest(request.header)] {
               if (core_.is_late(latest)) return call.reply(Code::timed_out, {});
               probe_committed(call, request);
             });
}

// `then` runs once this replica shows whatever the commit point had committed at some moment after
// the call; `otherwise` if that cannot be found out in this version.
void Replica::ask(const store::ChainChunk& at, std::function<void()> then,
                  std::function<void()> otherwise) {
  const Member& to = core_.part.commit_point();
  auto& call =
      core_.task<PeerCall>([this, at, version = core_.part.version(), then = std::move(then),
                            otherwise = std::move(otherwise)](Task<PeerCall>& done) {
        wire::ChainAskResponse response;
        const bool answered = done.status.ok() && done.response_length == sizeof response;
        if (version != core_.part.version() || core_.failed || !answered) return otherwise();
        std::memcpy(&response, done.answer.data(), sizeof response);
        const Pending* const pending = updates_.pending(at);
        if (pending != nullptr && pending->name == response.committed) {
          updates_.learn_commit(at, response.committed);
        }
        then();
      });
  call.say(wire::ChainMethod::ask, wire::ChainAskRequest{core_.header(at.chunk)});
  core_.call(to, call);
}

void Replica::on_ask(engine::IncomingCall& call, const wire::ChainAskRequest& request) {
  if (!core_.part.is_commit_point() || !core_.may_serve()) return core_.refuse(call);
  const store::ChainChunk at = core_.at(request.header.chunk_id());
  const Pending* const pending = updates_.pending(at);
  if (pending != nullptr && pending->may_be_shown) return core_.refuse(call);
  const auto may_answer = std::make_shared<bool>(false);
  auto& look = core_.task<store::LookOp>([&call, may_answer](Task<store::LookOp>& done) {
    if (!*may_answer) return call.reply(Code::not_serving, {});
    if (!done.status.ok()) return call.reply(done.status, {});
    const wire::ChainAskResponse response{done.state.committed};
    call.reply(Code::ok, wire::as_wire(response));
  });
  look.at = at;
  core_.host.store().submit(look);
  *may_answer = core_.may_serve();
}

namespace {

// The CRC-32C of each whole block; of what is left nothing is said.
std::vector<uint32_t> checksums_of(Bytes bytes) {
  std::vector<uint32_t> checksums(wire::checksum_bytes(bytes.size()) / sizeof(uint32_t));
  for (size_t i = 0; (i + 1) * limits::kBlockBytes <= bytes.size(); ++i) {
    checksums[i] = crc32c(bytes.subspan(i * limits::kBlockBytes, limits::kBlockBytes));
  }
  return checksums;
}

void reply_io(engine::IncomingCall& call, Status status, engine::Route route, uint32_t blocks,
              const UpdateName& shown) {
  const wire::ChainIoResponse response{
      .io = {.route = static_cast<uint8_t>(route), .bad_block = blocks},
      .chunk_version = shown.counter};
  call.reply(status, wire::as_wire(response));
}

}  // namespace

// What a read has at hand until its answer has gone.
struct Replica::Reading {
  Budget::Share memory;
  Payload bytes;
  std::vector<uint32_t> checksums;
  UpdateName shown;
  bool may_answer = false;
};

void Replica::read_committed(engine::IncomingCall& call, const wire::ChainReadRequest& request) {
  const auto reading = std::make_shared<Reading>();
  reading->memory = core_.host.budget.take(request.length);
  if (reading->memory == nullptr) return call.reply(Code::busy, {});
  reading->bytes = Payload(*core_.host.buffers, request.length);
  auto& read =
      core_.task<store::CopyReadOp>([this, &call, request, reading](Task<store::CopyReadOp>& done) {
        const bool damaged = done.status == Code::corrupt || done.status == Code::io_error;
        if (damaged) healing_.found(done.at, blocks_of(request.begin, request.length));
        if (!reading->may_answer) return call.reply(Code::not_serving, {});
        if (!done.status.ok()) return call.reply(done.status, {});
        reading->shown = done.state.committed;
        if (reading->shown.counter < request.header.chunk_version) {
          return call.reply(Code::stale, {});
        }
        if ((request.flags & wire::kChunkChecksums) == 0) return place_bytes(call, reading);
        reading->checksums = checksums_of({reading->bytes.data(), reading->bytes.size()});
        auto& place =
            core_.task<engine::TransferOp>([this, &call, reading](Task<engine::TransferOp>& had) {
              if (!had.status.ok()) return call.reply(had.status, {});
              place_bytes(call, reading);
            });
        place.call = &call;
        place.exposure = 1;
        place.local = {reinterpret_cast<std::byte*>(reading->checksums.data()),
                       reading->checksums.size() * sizeof(uint32_t)};
        call.place(place);
      });
  read.at = core_.at(request.header.chunk_id());
  read.begin = request.begin;
  read.destination = {reading->bytes.data(), reading->bytes.size()};
  read.refuse_holes = (request.flags & wire::kChunkRefuseHoles) != 0;
  core_.host.store().submit(read);
  // The bytes are chosen: a lease that holds now held then.
  reading->may_answer = core_.may_serve();
}

void Replica::place_bytes(engine::IncomingCall& call, const std::shared_ptr<Reading>& reading) {
  auto& place = core_.task<engine::TransferOp>([&call, reading](Task<engine::TransferOp>& placed) {
    // Through memory of the replica.
    reply_io(call, placed.status, engine::Route::disk_staged, 0, reading->shown);
  });
  place.call = &call;
  place.local = {reading->bytes.data(), reading->bytes.size()};
  call.place(place);
}

// Up to where its bytes end a chunk is one piece, and a hole behind.
void Replica::probe_committed(engine::IncomingCall& call, const wire::ChainReadRequest& request) {
  const auto may_answer = std::make_shared<bool>(false);
  auto& look = core_.task<store::LookOp>([&call, request, may_answer](Task<store::LookOp>& done) {
    if (!*may_answer) return call.reply(Code::not_serving, {});
    if (!done.status.ok()) return call.reply(done.status, {});
    if (done.state.committed.counter < request.header.chunk_version) {
      return call.reply(Code::stale, {});
    }
    const uint64_t first = request.begin / limits::kBlockBytes;
    const uint64_t end = align_up(uint64_t{request.begin} + request.length, limits::kBlockBytes) /
                         limits::kBlockBytes;
    const uint64_t filled = align_up(done.state.length, limits::kBlockBytes) / limits::kBlockBytes;
    const bool hole = first >= filled;
    const uint64_t alike = hole ? end - first : std::min(end, filled) - first;
    reply_io(call, Code::ok, hole ? engine::Route::hole : engine::Route::none,
             static_cast<uint32_t>(alike), done.state.committed);
  });
  look.at = core_.at(request.header.chunk_id());
  core_.host.store().submit(look);
  *may_answer = core_.may_serve();
}

// At the head, which has everything that is pending anywhere: where it has nothing of the inode
// pending, what is committed there is committed everywhere.
void Replica::on_chunks(engine::IncomingCall& call, const wire::ChainChunksRequest& request) {
  if (!core_.part.is_head()) return core_.reply_moved(call);
  if (!core_.may_serve()) return core_.refuse(call);
  const bool exposed = call.exposure_count == 1 &&
                       call.exposure_length(0) == request.limit * sizeof(wire::ChunkEntry);
  if (!exposed) return call.reply(Code::bad_message, {});
  if (updates_.has_pending(InodeId{request.header.inode})) return call.reply(Code::busy, {});
  const auto may_answer = std::make_shared<bool>(false);
  auto& list =
      core_.task<store::ListOp>([this, &call, request, may_answer](Task<store::ListOp>& done) {
        if (!*may_answer) return call.reply(Code::not_serving, {});
        if (!done.status.ok()) return call.reply(done.status, {});
        auto entries = std::make_shared<std::vector<wire::ChunkEntry>>();
        wire::ChainChunksResponse response;
        for (const store::ListEntry& entry : done.entries) {
          if (entry.chunk.inode.value != request.header.inode) break;
          if (entry.state.length > 0) entries->push_back({entry.chunk.index, entry.state.length});
        }
        response.count = static_cast<uint32_t>(entries->size());
        const bool more = done.entries.size() == request.limit &&
                          done.entries.back().chunk.inode.value == request.header.inode &&
                          done.entries.back().chunk.index + 1 < wire::kChunkEnd;
        if (more) response.next = done.entries.back().chunk.index + 1;
        auto& place = core_.task<engine::TransferOp>(
            [&call, entries, response](Task<engine::TransferOp>& placed) {
              call.reply(placed.status, wire::as_wire(response));
            });
        place.call = &call;
        place.local = {reinterpret_cast<std::byte*>(entries->data()),
                       entries->size() * sizeof(wire::ChunkEntry)};
        call.place(place);
      });
  list.from = core_.at(request.header.chunk_id());
  list.limit = request.limit;
  core_.host.store().submit(list);
  *may_answer = core_.may_serve();
}

namespace {

// Numbers in order, to be placed where the caller wants them.
struct Inodes {
  std::vector<uint64_t> found;
  uint64_t next = 0;
};

// Of what a list of chunks, which is `full` or all there is, and what is pending tell of.
Inodes inodes_of(const std::vector<store::ListEntry>& entries, bool full,
                 const std::vector<InodeId>& pending, uint32_t limit) {
  std::set<uint64_t> all;
  for (const store::ListEntry& entry : entries) {
    if (entry.state.length > 0) all.insert(entry.chunk.inode.value);
  }
  Inodes inodes;
  if (full) {
    // Of the last one there may be more: it counts, also if nothing of it was left so far.
    const uint64_t last = entries.back().chunk.inode.value;
    all.insert(last);
    inodes.next = last + 1;
  }
  for (const InodeId inode : pending) {
    if (inodes.next == 0 || inode.value < inodes.next) all.insert(inode.value);
  }
  for (const uint64_t inode : all) {
    if (inodes.found.size() == limit) {
      inodes.next = inode;
      break;
    }
    inodes.found.push_back(inode);
  }
  return inodes;
}

}  // namespace

// Also those of which something is pending, at the head, which has all of that: before it is listed
// what is committed, so that an update that commits meanwhile is in one of the two.
void Replica::on_inodes(engine::IncomingCall& call, const wire::ChainInodesRequest& request) {
  if (!core_.part.is_head()) return core_.reply_moved(call);
  if (!core_.may_serve()) return core_.refuse(call);
  const bool exposed =
      call.exposure_count == 1 && call.exposure_length(0) == request.limit * sizeof(InodeId);
  if (!exposed) return call.reply(Code::bad_message, {});
  const auto may_answer = std::make_shared<bool>(false);
  auto& list = core_.task<store::ListOp>([this, &call, request, may_answer,
                                          pending = updates_.inodes(InodeId{request.header.inode})](
                                             Task<store::ListOp>& done) {
    if (!*may_answer) return call.reply(Code::not_serving, {});
    if (!done.status.ok()) return call.reply(done.status, {});
    const bool full = done.entries.size() == done.limit;
    const auto inodes =
        std::make_shared<Inodes>(inodes_of(done.entries, full, pending, request.limit));
    auto& place = core_.task<engine::TransferOp>([&call, inodes](Task<engine::TransferOp>& placed) {
      const wire::ChunkInodesResponse response{
          .next = inodes->next, .count = static_cast<uint32_t>(inodes->found.size())};
      call.reply(placed.status, wire::as_wire(response));
    });
    place.call = &call;
    place.local = {reinterpret_cast<std::byte*>(inodes->found.data()),
                   inodes->found.size() * sizeof(uint64_t)};
    call.place(place);
  });
  list.from = core_.at(request.header.chunk_id());
  list.limit = limits::kInodesList;
  core_.host.store().submit(list);
  *may_answer = core_.may_serve();
}

}  // namespace penstock::chain
