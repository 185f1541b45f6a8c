#include "replica.h"

#include "callers.h"

namespace penstock::chain {

Replica::Replica(Shared& host, ChainId chain)
    : core_(host, chain),
      updates_(core_),
      repair_(core_),
      healing_(core_),
      credit_(core_),
      tombstones_(core_) {
  core_.updates = &updates_;
  core_.repair = &repair_;
  core_.healing = &healing_;
  core_.credit = &credit_;
  core_.tombstones = &tombstones_;
}

Replica::~Replica() {
  *core_.alive = false;
}

void Core::fail() {
  if (failed) return;
  failed = true;
  keep_reporting(Report::Kind::failed);
  healing->stop();
  repair->stop();
}

void Replica::adopt(const View& view) {
  ASSERT(view.chain == core_.chain);
  if (view.version <= core_.part.version()) return;
  const bool had_place = core_.part.serves() || core_.part.syncs();
  core_.part.adopt(view);
  core_.successor_ready = false;
  const bool has_place = core_.part.serves() || core_.part.syncs();
  // What failed took no part in anything since; repair begins with it anew.
  if (!core_.part.serves()) core_.failed = false;
  // The controller did not count what was said of an older version.
  if (core_.failed) core_.keep_reporting(Report::Kind::failed);
  core_.host.pools.forget(&core_);
  credit_.part_changed();
  updates_.part_changed();
  repair_.part_changed();
  healing_.part_changed();
  tombstones_.part_changed();
  if (!core_.part.syncs()) repaired_since_ = 0;
  if (!has_place) return updates_.unload();
  if (!had_place && core_.part.serves()) updates_.load();
  if (core_.part.is_head()) activate(nullptr);
  if (core_.part.predecessor() != nullptr) watch();
}

// Successors are looked for when they do not answer; who stands before says nothing while its disk
// stalls. One that several chains have as their neighbour is asked once.
void Replica::watch() {
  core_.after(limits::kPeerDeadline, [this, version = core_.part.version()] {
    if (version != core_.part.version() || core_.failed) return;
    const Member& before = *core_.part.predecessor();
    const engine::Time last = core_.host.looked[before.target];
    if (core_.host.loop().now() - last >= limits::kPeerDeadline) core_.look_for(before);
    watch();
  });
}

void Replica::on_state(engine::IncomingCall& call, const wire::ChainStateRequest&) {
  const wire::ChainStateResponse response{core_.host.oldest_us()};
#if PENSTOCK_NEXT_PROTOCOL
  if (static_cast<wire::ChainMethod>(call.method) == wire::ChainMethod::load) {
    const wire::ChainLoadResponse load{response, core_.host.under_way->count};
    return call.reply(Code::ok, wire::as_wire(load));
  }
#endif
  call.reply(Code::ok, wire::as_wire(response));
}

// All that serve before this replica have adopted the version.
void Replica::activate(const std::map<ChunkId, UpdateName>* before) {
  ASSERT(!core_.part.active);
  core_.part.active = true;
  tombstones_.activated(updates_.list());
  updates_.activated(before);
  const Member* to = core_.part.next();
  if (to == nullptr) to = core_.part.follower();
  if (to != nullptr) greet(*to);
}

void Replica::greet(const Member& to) {
  const std::vector<wire::PendingEntry> entries = updates_.list();
  auto& call = core_.peer_task(to, [this, to](Task<PeerCall>& done) {
    if (done.status.ok()) return greeted();
    if (done.status == Code::stale && core_.part.follower() != nullptr) {
      repair_.begin_anew();
      updates_.repair_began();
    }
    core_.retry([this, to] { greet(to); });
  });
  wire::ChainHelloRequest request{.header = core_.header(),
                                  .from_incarnation = core_.part.incarnation(),
                                  .to_incarnation = to.incarnation};
  request.pending = static_cast<uint32_t>(entries.size());
  if (core_.part.follower() != nullptr) request.repair = repair_.began();
  call.say(wire::ChainMethod::hello, request);
  call.expose(bytes_of(std::span<const wire::PendingEntry>(entries)), engine::Access::fetch);
  core_.call(to, call);
}

void Replica::greeted() {
  core_.successor_ready = true;
  updates_.successor_ready();
  if (core_.part.follower() != nullptr) repair_.start();
}

void Replica::on_hello(engine::IncomingCall& call, const wire::ChainHelloRequest& request) {
  const Member* const from = core_.part.predecessor();
  const bool is_right = from != nullptr && from->incarnation == request.from_incarnation &&
                        request.to_incarnation == core_.part.incarnation();
  if (!is_right || core_.failed) return core_.refuse(call);
  if (core_.part.active) return call.reply(Code::ok, {});
  const uint64_t length = uint64_t{request.pending} * sizeof(wire::PendingEntry);
  if (call.exposure_count != 1 || call.exposure_length(0) != length) {
    return call.reply(Code::bad_message, {});
  }
  auto entries = std::make_shared<std::vector<std::byte>>(length);
  auto& fetch = core_.task<engine::TransferOp>(
      [this, &call, request, entries](Task<engine::TransferOp>& done) {
        if (!done.status.ok()) return call.reply(done.status, {});
        take_hello(call, request, *entries);
      });
  fetch.call = &call;
  fetch.local = {entries->data(), entries->size()};
  call.fetch(fetch);
}

void Replica::take_hello(engine::IncomingCall& call, const wire::ChainHelloRequest& request,
                         Bytes entries) {
  if (request.header.chain_version != core_.part.version()) return core_.reply_moved(call);
  if (core_.part.active) return call.reply(Code::ok, {});
  std::map<ChunkId, UpdateName> before;
  for (const wire::PendingEntry& entry : structs_of<wire::PendingEntry>(entries)) {
    before[{InodeId{entry.inode}, entry.chunk}] = entry.name;
  }
  if (!core_.part.syncs()) {
    activate(&before);
    return call.reply(Code::ok, {});
  }
  const bool begins = request.repair == core_.part.version();
  if (!begins && request.repair != repaired_since_) return call.reply(Code::stale, {});
  const auto take = [this, &call, request, before] {
    if (request.header.chain_version != core_.part.version()) return core_.reply_moved(call);
    if (core_.failed) return core_.refuse(call);
    repaired_since_ = request.repair;
    if (!core_.part.active) activate(&before);
    call.reply(Code::ok, {});
  };
  if (begins) return updates_.forget(take);
  take();
}

template <class Request>
void Replica::decode(engine::IncomingCall& call,
                     void (Replica::*take)(engine::IncomingCall&, const Request&)) {
  const wire::Protocol& speaks = core_.host.config.speaks;
  const Result<Request> request = wire::decode_chain_request<Request>(call.request, speaks);
  if (!request && request.error() == Code::wrong_version) {
    const wire::ChainProtocolResponse spoken{static_cast<uint16_t>(speaks.lowest),
                                             static_cast<uint16_t>(speaks.highest)};
    return call.reply(Code::wrong_version, wire::as_wire(spoken));
  }
  if (!request) return call.reply(request.error(), {});
  const uint32_t meant = request->header.target;
  if (meant != 0 && meant != core_.part.target().value) return core_.reply_moved(call);
  // Clients may know another version: what they ask for is judged by what this replica is.
  const auto method = static_cast<wire::ChainMethod>(call.method);
  if (request->header.protocol < wire::first_version_of(method)) {
    return call.reply(Code::bad_message, {});
  }
  core_.host.next_release.take(method, request->header);
  const bool is_client = method == wire::ChainMethod::read || method == wire::ChainMethod::probe ||
                         method == wire::ChainMethod::chunks || method == wire::ChainMethod::inodes;
  if (!is_client && request->header.chain_version != core_.part.version()) {
    return core_.reply_moved(call);
  }
  bool may = may_call(method, call.peer(), core_.part);
  if constexpr (std::is_same_v<Request, wire::ChainUpdateRequest>) {
    may = may && is_own(request->request, call.peer());
  } else if constexpr (std::is_same_v<Request, wire::ChainWordRequest>) {
    const Member* const from = core_.part.before(TargetId{request->from});
    may = may && (from == nullptr || is_of(from, call.peer().node));
  }
  if (!may) {
    static metrics::Counter refused("chain.callers_refused");
    refused.add();
    return call.reply(Code::access_denied, {});
  }
  (this->*take)(call, *request);
}

void Replica::on_call(engine::IncomingCall& call) {
  switch (static_cast<wire::ChainMethod>(call.method)) {
    case wire::ChainMethod::read:
      return decode(call, &Replica::on_read);
    case wire::ChainMethod::update:
      return decode(call, &Replica::on_update);
    case wire::ChainMethod::probe:
      return decode(call, &Replica::on_probe);
    case wire::ChainMethod::chunks:
      return decode(call, &Replica::on_chunks);
    case wire::ChainMethod::inodes:
      return decode(call, &Replica::on_inodes);
    case wire::ChainMethod::show:  // the host's
      break;
    case wire::ChainMethod::hello:
      return decode(call, &Replica::on_hello);
    case wire::ChainMethod::forward:
      return decode(call, &Replica::on_forward);
    case wire::ChainMethod::durable:
      return decode(call, &Replica::on_word);
    case wire::ChainMethod::committed:
      return decode(call, &Replica::on_committed);
    case wire::ChainMethod::ask:
      return decode(call, &Replica::on_ask);
    case wire::ChainMethod::list:
      return decode(call, &Replica::on_list);
    case wire::ChainMethod::replace:
      return decode(call, &Replica::on_replace);
    case wire::ChainMethod::copy:
      return decode(call, &Replica::on_copy);
    case wire::ChainMethod::state:
#if PENSTOCK_NEXT_PROTOCOL
    case wire::ChainMethod::load:
#endif
      return decode(call, &Replica::on_state);
    case wire::ChainMethod::grant:
      return decode(call, &Replica::on_grant);
  }
  call.reply(Code::bad_message, {});
}

void Replica::on_update(engine::IncomingCall& call, const wire::ChainUpdateRequest& request) {
  updates_.on_update(call, request);
}
void Replica::on_forward(engine::IncomingCall& call, const wire::ChainForwardRequest& request) {
  updates_.on_forward(call, request);
}
void Replica::on_word(engine::IncomingCall& call, const wire::ChainWordRequest& request) {
  updates_.on_durable(call, request);
}
void Replica::on_committed(engine::IncomingCall& call, const wire::ChainNameRequest& request) {
  updates_.on_committed(call, request);
}
void Replica::on_replace(engine::IncomingCall& call, const wire::ChainReplaceRequest& request) {
  updates_.on_replace(call, request);
}

void Replica::on_copy(engine::IncomingCall& call, const wire::ChainCopyRequest& request) {
  healing_.on_copy(call, request);
}

void Replica::on_grant(engine::IncomingCall& call, const wire::ChainGrantRequest& request) {
  credit_.on_grant(call, request);
}

void Replica::on_list(engine::IncomingCall& call, const wire::ChainListRequest& request) {
  if (!core_.part.syncs() || !core_.part.active) return core_.refuse(call);
  const bool exposed = call.exposure_count == 1 &&
                       call.exposure_length(0) >= request.limit * sizeof(wire::ListedChunk);
  if (!exposed) return call.reply(Code::bad_message, {});
  auto& list = core_.task<store::ListOp>([this, &call](Task<store::ListOp>& done) {
    if (!done.status.ok()) return call.reply(done.status, {});
    auto listed = std::make_shared<std::vector<wire::ListedChunk>>();
    for (const store::ListEntry& entry : done.entries) {
      listed->push_back({entry.chunk.inode.value, entry.chunk.index, 0, entry.state.committed});
    }
    auto& place = core_.task<engine::TransferOp>([&call, listed](Task<engine::TransferOp>& placed) {
      const wire::ChainListResponse response{static_cast<uint32_t>(listed->size()), 0};
      call.reply(placed.status, wire::as_wire(response));
    });
    place.call = &call;
    place.local = {reinterpret_cast<std::byte*>(listed->data()),
                   listed->size() * sizeof(wire::ListedChunk)};
    call.place(place);
  });
  list.from = core_.at(request.header.chunk_id());
  list.limit = request.limit;
  core_.host.store().submit(list);
}

}  // namespace penstock::chain
