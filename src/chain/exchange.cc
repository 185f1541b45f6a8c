// The tries of a client's call: whom it asks, and what it makes of the answers.
#include "exchange.h"

#include <algorithm>

namespace penstock::chain {
namespace {

wire::Traffic traffic_of(const Exchange& exchange) {
  const bool is_much = exchange.wanted.length >= limits::kThroughputBytes;
  return is_much ? wire::Traffic::throughput : wire::Traffic::latency;
}

}  // namespace

void ChainNetImpl::attempt(Exchange& exchange) {
  if (config_.loop->now() >= exchange.deadline) {
    if (exchange.last.ok()) exchange.last = Code::timed_out;
    return give_up(exchange);
  }
  const View* const view = view_of(exchange);
  if (view == nullptr || view->serving() == 0) {
    exchange.last = Code::not_serving;
    config_.chains->refresh(exchange.chain);
    return again(exchange);
  }
  send(exchange, choose(exchange, *view), view->version);
}

// Updates and lists are the head's. A further try of a read asks the next one.
const Member& ChainNetImpl::choose(Exchange& exchange, const View& view) {
  const bool head = exchange.is_update() || exchange.step == Exchange::Step::list ||
                    exchange.step == Exchange::Step::inodes;
  if (head) return view.members.front();
  if (!exchange.is_unshown) {
    exchange.replica = exchange.tries > 0 ? exchange.replica + 1 : nearest(view);
  }
  return view.members[exchange.replica % view.serving()];
}

// Of those that are as near, the one to which the fewest calls are under way; those that are alike
// in this, too, take turns.
size_t ChainNetImpl::nearest(const View& view) {
  const auto cost = [this](const Member& member) {
    const bool same_rack = !config_.rack.empty() && member.rack == config_.rack;
    const int distance = member.address.node == config_.node ? 0 : same_rack ? 1 : 2;
    const auto load = load_.find(member.target);
    return std::pair(distance, load == load_.end() ? 0 : load->second);
  };
  const size_t serving = view.serving();
  const size_t first = turn_++ % serving;
  size_t best = first;
  for (size_t i = 1; i < serving; ++i) {
    const size_t next = (first + i) % serving;
    if (cost(view.members[next]) < cost(view.members[best])) best = next;
  }
  return best;
}

template <class T>
void ChainNetImpl::say(Exchange& exchange, wire::ChainMethod method, const T& words) {
  static_assert(sizeof words <= sizeof exchange.message);
  const Bytes bytes = wire::as_wire(words);
  std::copy(bytes.begin(), bytes.end(), exchange.message.begin());
  exchange.inner.method = static_cast<uint16_t>(method);
  exchange.inner.request = Bytes(exchange.message).first(bytes.size());
}

void ChainNetImpl::say_update(Exchange& exchange, const wire::ChainHeader& header) {
  const wire::ChunkRequest& wanted = exchange.wanted;
  wire::ChainUpdateRequest request;
  request.header = header;
  ASSERT(exchange.slot.has_value());
  request.request = {config_.incarnation, exchange.slot->sequence, config_.node.value,
                     exchange.slot->number};
  if (exchange.method == wire::ChunkMethod::write) {
    request.kind = 1;
    request.begin = wanted.begin;
    request.end = wanted.begin + wanted.length;
    exchange.inner.exposures[0] = exchange.caller->exposures[0];
    exchange.inner.exposure_count = exchange.caller->exposure_count;
  } else if (exchange.method == wire::ChunkMethod::clear) {
    request.kind = 2;
    request.begin = wanted.begin;
    request.end = wanted.length;
  } else {
    request.kind = 3;
    request.header.chunk = exchange.entries[exchange.next_entry].chunk;
  }
  say(exchange, wire::ChainMethod::update, request);
}

// Says what was said in the version that the replica speaks, and sends it.
void ChainNetImpl::send_to(Exchange& exchange, const Member& to) {
  engine::CallOp& inner = exchange.inner;
  const MutableBytes said = MutableBytes(exchange.message).first(inner.request.size());
  inner.request = said.first(wire::say_in(to.protocol, said));
  inner.to = to.address;
  inner.response = exchange.answer;
  inner.owner = &exchange;
  inner.completion = [](engine::Op& done) {
    auto& self = done.owner_as<Exchange>();
    self.is_out = false;
    ASSERT(*self.load > 0);
    --*self.load;
    self.net->answered(self);
  };
  exchange.is_out = true;
  exchange.load = &load_[to.target];
  ++*exchange.load;
  tries_.add();
  if (exchange.tries > 0) retries_.add();
  ++exchange.tries;
  config_.net->call(inner);
}

void ChainNetImpl::send(Exchange& exchange, const Member& to, uint64_t version) {
  ASSERT(!exchange.is_out && !exchange.has_timer);
  const wire::ChunkRequest& wanted = exchange.wanted;
  engine::CallOp& inner = exchange.inner;
  inner.exposure_count = 0;
  const engine::Time now = config_.loop->now();
  inner.deadline = std::min(exchange.deadline, now + limits::kTryTime);
  wire::ChainHeader header(version, wanted.inode, exchange.chain.value, wanted.chunk);
  header.traffic = traffic_of(exchange);
  header.target = to.target.value;
  header.capability = exchange.session;
  next_release_.add_to(header, now);
  header.deadline_us = static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(inner.deadline - now).count());
  if (exchange.is_unshown) {
    if (!show(exchange, header)) return;
    return send_to(exchange, to);
  }
  switch (exchange.step) {
    case Exchange::Step::read:
      say(exchange, wire::ChainMethod::read,
          wire::ChainReadRequest{header, wanted.begin, wanted.length, wanted.flags, 0});
      // The bytes go where the caller wants them.
      inner.exposures = exchange.caller->exposures;
      inner.exposure_count = exchange.caller->exposure_count;
      break;
    case Exchange::Step::probe:
      say(exchange, wire::ChainMethod::probe,
          wire::ChainReadRequest{header, wanted.begin, wanted.length, 0, 0});
      break;
    case Exchange::Step::update:
      say_update(exchange, header);
      exchange.may_have_before = std::exchange(exchange.may_have_happened, true);
      break;
    case Exchange::Step::list:
      exchange.entries.resize(limits::kChunksAtOnce);
      header.chunk = exchange.next_chunk;
      say(exchange, wire::ChainMethod::chunks,
          wire::ChainChunksRequest{header, limits::kChunksAtOnce, 0});
      inner.exposures[0] = {{reinterpret_cast<std::byte*>(exchange.entries.data()),
                             exchange.entries.size() * sizeof(wire::ChunkEntry)},
                            engine::Access::place};
      inner.exposure_count = 1;
      break;
    case Exchange::Step::inodes:
      say(exchange, wire::ChainMethod::inodes, wire::ChainInodesRequest{header, wanted.length, 0});
      inner.exposures = exchange.caller->exposures;
      inner.exposure_count = exchange.caller->exposure_count;
      break;
  }
  send_to(exchange, to);
}

// False: there is nothing to be shown now, and the exchange goes on by itself.
bool ChainNetImpl::show(Exchange& exchange, wire::ChainHeader header) {
  ASSERT(config_.capabilities != nullptr);
  const bool changes = exchange.is_update() || exchange.method == wire::ChunkMethod::remove;
  const auto found = config_.capabilities->find(InodeId(exchange.wanted.inode), exchange.session,
                                                changes ? wire::kMayWrite : wire::kMayRead);
  if (!found) {
    exchange.last = found.error();
    give_up(exchange);
    return false;
  }
  if (!*found || (*found)->session != exchange.session) {
    exchange.last = Code::timed_out;
    again(exchange);
    return false;
  }
  exchange.is_showing = true;
  exchange.shown = **found;
  header.inode = 0;
  header.chunk = 0;
  say(exchange, wire::ChainMethod::show, wire::ChainShowRequest{header, exchange.shown});
  return true;
}

// Whether it was taken or not, the next try is the call itself, or another one to be shown.
void ChainNetImpl::shown(Exchange& exchange) {
  exchange.is_showing = false;
  const Status status = exchange.inner.status;
  if (exchange.cancelled) return finish(exchange, Code::cancelled);
  exchange.is_unshown = false;
  if (status.ok()) {
    // The same replica, which is not one try more.
    ASSERT(exchange.tries > 0);
    const View* const view = view_of(exchange);
    const bool is_there =
        view != nullptr && view->serving() > 0 && config_.loop->now() < exchange.deadline;
    if (!is_there) return attempt(exchange);
    const bool head = exchange.is_update() || exchange.step == Exchange::Step::list ||
                      exchange.step == Exchange::Step::inodes;
    const size_t at = head ? 0 : exchange.replica % view->serving();
    return send(exchange, view->members[at], view->version);
  }
  exchange.last = status;
  if (status == Code::access_denied || status == Code::stale) return give_up(exchange);
  if (status == Code::bad_handle) config_.capabilities->drop(exchange.shown);
  if (status != Code::busy) config_.chains->refresh(exchange.chain);
  again(exchange);
}

void ChainNetImpl::answered(Exchange& exchange) {
  if (exchange.is_showing) return shown(exchange);
  const Status status = exchange.inner.status;
  if (exchange.cancelled) return finish(exchange, status.ok() ? Status(Code::cancelled) : status);
  if (status.ok()) return succeeded(exchange);
  exchange.last = status;
  // What refuses a try says nothing of those before it.
  const auto refused = [&exchange] { exchange.may_have_happened = exchange.may_have_before; };
  switch (status.code()) {
    case Code::busy:
    case Code::not_serving:
      refused();
      return again(exchange);
    case Code::bad_handle:  // it does not know what we may do
      refused();
      if (config_.capabilities == nullptr) return give_up(exchange);
      exchange.is_unshown = true;
      // What was shown just now does not help, or was forgotten at once.
      return ++exchange.shows > 1 ? again(exchange) : attempt(exchange);
    case Code::moved:
    case Code::peer_gone:
    case Code::timed_out:
      config_.chains->refresh(exchange.chain);
      return again(exchange);
    case Code::wrong_version:  // another process is there than when the table was read
      refused();
      config_.chains->refresh(exchange.chain);
      return again(exchange);
    case Code::cancelled:  // the network brought it twice, and the second is being done
      return again(exchange);
    case Code::corrupt:
    case Code::io_error:
      // Another copy may be whole; and where each is damaged somewhere they heal one another.
      if (exchange.is_update()) return give_up(exchange);
      ++exchange.damaged;
      if (exchange.damaged < view_of(exchange)->serving()) return attempt(exchange);
      if (exchange.damaged < view_of(exchange)->serving() + limits::kDamagedTries) {
        return again(exchange);
      }
      return give_up(exchange);
    case Code::closed:
      return give_up(exchange);
    default:
      refused();
      return give_up(exchange);
  }
}

void ChainNetImpl::succeeded(Exchange& exchange) {
  exchange.may_have_happened = exchange.may_have_before = false;
  const Bytes answer = Bytes(exchange.answer).first(exchange.inner.response_length);
  switch (exchange.step) {
    case Exchange::Step::read:
    case Exchange::Step::probe:
      return read_succeeded(exchange, answer);
    case Exchange::Step::update:
      if (exchange.method == wire::ChunkMethod::remove) {
        exchange.tries = 0;
        exchange.has_acted = true;
        ++exchange.next_entry;
        give_slot_back(exchange);
        return next_entry(exchange);
      }
      if (exchange.method == wire::ChunkMethod::clear) return finish(exchange, Code::ok);
      return finish(exchange, Code::ok,
                    wire::as_wire(wire::ChunkIoResponse{
                        .route = static_cast<uint8_t>(engine::Route::disk_staged)}));
    case Exchange::Step::list:
      return listed(exchange);
    case Exchange::Step::inodes:
      return finish(exchange, Code::ok, answer);
  }
}

void ChainNetImpl::read_succeeded(Exchange& exchange, Bytes answer) {
  const auto response = wire::decode_chunk_response<wire::ChainIoResponse>(answer);
  if (!response) return finish(exchange, Code::bad_message);
  finish(exchange, Code::ok, wire::as_wire(response->io));
}

// A replica is another node, and what it lists is removed: only chunks that were asked for.
bool ChainNetImpl::is_good_list(const Exchange& exchange,
                                const wire::ChainChunksResponse& response) {
  if (response.count > exchange.entries.size() || response.next <= exchange.next_chunk)
    return false;
  uint64_t least = exchange.next_chunk;
  for (const wire::ChunkEntry& entry : std::span(exchange.entries).first(response.count)) {
    const bool in_order = entry.chunk >= least && entry.chunk < response.next;
    if (!in_order || entry.length == 0 || entry.length > limits::kChunkBytesMax) return false;
    least = uint64_t{entry.chunk} + 1;
  }
  return true;
}

void ChainNetImpl::listed(Exchange& exchange) {
  const auto response = wire::decode_chunk_response<wire::ChainChunksResponse>(
      Bytes(exchange.answer).first(exchange.inner.response_length));
  if (!response || !is_good_list(exchange, *response)) {
    exchange.last = Code::bad_message;
    return give_up(exchange);
  }
  exchange.entries.resize(response->count);
  exchange.next_entry = 0;
  exchange.next_chunk = response->next;
  exchange.tries = 0;
  for (const wire::ChunkEntry& entry : exchange.entries) {
    exchange.bytes += align_up(entry.length, limits::kBlockBytes);
    exchange.last_entry = entry;
  }
  if (exchange.method == wire::ChunkMethod::end_query) exchange.entries.clear();
  next_entry(exchange);
}

// Removes the next chunk of the list, or asks for more of it.
void ChainNetImpl::next_entry(Exchange& exchange) {
  if (exchange.next_entry < exchange.entries.size()) return begin_update(exchange);
  if (exchange.next_chunk != wire::kChunkEnd) {
    exchange.step = Exchange::Step::list;
    return attempt(exchange);
  }
  if (exchange.method == wire::ChunkMethod::remove) {
    const wire::ChunkRemoveResponse response{exchange.bytes};
    return finish(exchange, Code::ok, wire::as_wire(response));
  }
  const wire::ChunkEntry& last = exchange.last_entry;
  const wire::ChunkEndResponse response{.allocated_bytes = exchange.bytes,
                                        .last_chunk = last.chunk,
                                        .end_in_chunk = last.length,
                                        .any = last.length > 0 ? 1U : 0U};
  finish(exchange, Code::ok, wire::as_wire(response));
}

// Later by a little more each time, not all at once, and not beyond the deadline.
void ChainNetImpl::again(Exchange& exchange) {
  const uint32_t doublings = std::min(exchange.tries, 8U);
  const engine::Duration most =
      std::min<engine::Duration>(limits::kAgainFirst * (1U << doublings), limits::kAgainMost);
  const auto half = static_cast<uint64_t>(most.count() / 2);
  const engine::Duration wait(most.count() / 2 +
                              static_cast<int64_t>(config_.loop->random().below(half + 1)));
  wait_until(exchange, std::min(config_.loop->now() + wait, exchange.deadline));
}

}  // namespace penstock::chain
