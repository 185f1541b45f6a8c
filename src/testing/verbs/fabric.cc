#include "fabric.h"

#include <algorithm>
#include <cstring>

namespace penstock::test {

using engine::Access;
using verbs::Verb;
using verbs::WorkRequest;

namespace {

constexpr uint32_t kActions = 4;    // of a queue pair
constexpr size_t kFlyingMax = 16;   // work requests
constexpr uint64_t kRetries = 64;   // steps on average until nobody is taken for there
constexpr uint64_t kCopySteps = 8;  // on average, of a slow copy
constexpr uint64_t kMillion = 1'000'000;

}  // namespace

SimFabric::SimFabric(uint64_t seed) : random(seed) {}

SimFabric::~SimFabric() {
  ASSERT(devices_.empty() && pairs_.empty());
}

SimFabric::Pair* SimFabric::find(uint32_t number) {
  const auto found = pairs_.find(number);
  return found == pairs_.end() ? nullptr : found->second.get();
}

bool SimFabric::is_live(uint32_t number) {
  const Pair* const pair = find(number);
  return pair != nullptr && pair->state == Pair::State::joined && !pair->owner->gone_;
}

void SimFabric::send(const Pair& from, Pair& to, std::deque<Packet>& queue, Packet packet) {
  packet.from = from.number;
  packet.sender = from.owner->node();
  if (clock != nullptr) {
    const auto time = clock->travel(packet.sender, to.owner->node());
    packet.lost = !time.has_value();
    packet.arrives = clock->now() + time.value_or(faults.resend);
    if (!queue.empty()) packet.arrives = std::max(packet.arrives, queue.back().arrives);
  }
  queue.push_back(std::move(packet));
}

// Whether the next packet to `pair` is there. What was lost comes later, unless nobody is left who
// would send it again: then nothing behind it is taken either.
bool SimFabric::has_come(const Pair& pair, std::deque<Packet>& queue) {
  if (queue.empty()) return false;
  Packet& packet = queue.front();
  if (clock == nullptr) return true;
  if (packet.arrives > clock->now()) return false;
  const bool connected = clock->connects(packet.sender, pair.owner->node());
  if (connected && !packet.lost) return true;
  if (!is_live(packet.from)) {
    queue.clear();
    return false;
  }
  packet.lost = !connected;
  if (!connected) packet.arrives = clock->now() + faults.resend;
  return connected;
}

engine::Time SimFabric::next() const {
  engine::Time next = engine::kNever;
  if (clock == nullptr) return next;
  for (const auto& [number, pair] : pairs_) {
    if (pair->state != Pair::State::joined || pair->owner->gone_) continue;
    for (const std::deque<Packet>* const queue : {&pair->requests, &pair->answers}) {
      // What has come and is not taken waits for a receive buffer.
      if (queue->empty() || queue->front().arrives <= clock->now()) continue;
      next = std::min(next, queue->front().arrives);
    }
    const bool waits = !pair->flying.empty() && faults.give_up != engine::Duration::max();
    if (waits) next = std::min(next, pair->since + faults.give_up);
  }
  return next;
}

bool SimFabric::step() {
  ++counts.steps;
  std::vector<Pair*> pairs;
  pairs.reserve(pairs_.size());
  for (const auto& [number, pair] : pairs_) pairs.push_back(pair.get());
  // Beginning at a random actor, the first that can do something does.
  const size_t actors = pairs.size() * kActions + devices_.size();
  if (actors == 0) return false;
  const size_t start = random.below(actors);
  for (size_t i = 0; i < actors; ++i) {
    const size_t actor = (start + i) % actors;
    if (actor < pairs.size() * kActions) {
      Pair& pair = *pairs[actor / kActions];
      if (!act(pair, actor % kActions)) continue;
      if (faults.breaks != 0 && random.chance(faults.breaks, kMillion)) break_by_itself(pair);
      return true;
    }
    SimDevice& device = *devices_[actor - pairs.size() * kActions];
    if (device.late_.empty()) continue;
    arrived(device);
    return true;
  }
  return false;
}

void SimFabric::break_by_itself(Pair& pair) {
  if (pair.state != Pair::State::joined) return;
  ++counts.broken;
  break_pair(pair, Code::io_error);
}

// Its next completion can be polled.
void SimFabric::arrived(SimDevice& device) {
  device.ready_.push_back(device.late_.front());
  device.late_.pop_front();
  if (std::exchange(device.armed_, false) && device.wake) device.wake();
}

bool SimFabric::act(Pair& pair, uint32_t action) {
  if (pair.state != Pair::State::joined || pair.owner->gone_) return false;
  switch (action) {
    case 0:
      return begin(pair);
    case 1:
      return serve(pair);
    case 2:
      return take_answer(pair);
    default:
      return complete(pair);
  }
}

// The next packet of what has begun, or the beginning of the next work request.
bool SimFabric::begin(Pair& pair) {
  if (!pair.flying.empty() && !pair.flying.back().all_emitted) {
    emit(pair);
    return true;
  }
  if (pair.posted.empty() || pair.flying.size() >= kFlyingMax) return false;
  Flight& flight = pair.flying.emplace_back();
  flight.request = pair.posted.front();
  flight.number = ++pair.flights;
  pair.posted.pop_front();
  const WorkRequest& request = flight.request;
  if (request.verb == Verb::bind || request.verb == Verb::invalidate) {
    flight.all_emitted = flight.done = true;
    const bool binds = request.verb == Verb::bind;
    const bool good = binds ? pair.owner->bind(pair.number, request).ok()
                            : pair.owner->invalidate(pair.number, request.key);
    ASSERT(good);
    if (binds) ++counts.bound;
    return true;
  }
  emit(pair);
  return true;
}

void SimFabric::emit(Pair& pair) {
  Flight& flight = pair.flying.back();
  const WorkRequest& request = flight.request;
  ASSERT(pair.owner->holds(request.memory, request.local, request.verb == Verb::read));
  if (clock != nullptr && pair.flying.size() == 1) pair.since = clock->now();
  Packet packet;
  packet.verb = request.verb;
  packet.flight = flight.number;
  packet.key = request.key;
  packet.address = request.remote_address + flight.emitted;
  packet.first = flight.emitted == 0;
  if (request.verb == Verb::read) {
    packet.length = request.local.size();
    flight.all_emitted = true;
  } else {
    const uint64_t most = request.verb == Verb::send ? request.local.size() : packet_bytes;
    const uint64_t length = std::min<uint64_t>(most, request.local.size() - flight.emitted);
    const MutableBytes bytes = request.local.subspan(flight.emitted, length);
    packet.bytes.assign(bytes.begin(), bytes.end());
    flight.emitted += length;
    flight.all_emitted = packet.last = flight.emitted == request.local.size();
  }
  if (packet.bytes.size() > faults.packet_max) return;
  Pair* const other = find(pair.other);
  if (other == nullptr || other->state != Pair::State::joined || other->other != pair.number)
    return;
  send(pair, *other, other->requests, std::move(packet));
}

bool SimFabric::serve(Pair& pair) {
  if (pair.copied) {
    if (random.chance(1, kCopySteps)) copy(pair);
    return true;
  }
  if (!has_come(pair, pair.requests)) return false;
  Packet& packet = pair.requests.front();
  switch (packet.verb) {
    case Verb::send:
      // No buffer: the sender tries again.
      if (!take_send(pair, packet)) return false;
      break;
    case Verb::write:
      take_write(pair, packet);
      break;
    default:
      if (!answer_read(pair, packet)) return true;
  }
  // Unless the queue pair broke by it.
  if (!pair.requests.empty()) pair.requests.pop_front();
  return true;
}

bool SimFabric::take_send(Pair& pair, const Packet& packet) {
  SimDevice& device = *pair.owner;
  if (device.receives_.empty()) return false;
  const SimDevice::Receive receive = device.receives_.front();
  device.receives_.pop_front();
  if (packet.bytes.size() > receive.buffer.size()) {
    // The buffer comes back with an error.
    device.late_.push_back({.id = receive.id,
                            .is_receive = true,
                            .queue_pair = verbs::QueuePairId{pair.number},
                            .status = Code::io_error});
    refuse(pair, packet);
    return true;
  }
  std::memcpy(receive.buffer.data(), packet.bytes.data(), packet.bytes.size());
  device.late_.push_back({.id = receive.id,
                          .is_receive = true,
                          .queue_pair = verbs::QueuePairId{pair.number},
                          .length = static_cast<uint32_t>(packet.bytes.size())});
  answer(pair, packet, Verb::send, Code::ok);
  return true;
}

void SimFabric::take_write(Pair& pair, const Packet& packet) {
  std::byte* const to = pair.owner->reach(pair.number, packet.key, packet.address,
                                          packet.bytes.size(), Access::place);
  if (to == nullptr) return refuse(pair, packet);
  pair.copied = packet;
  pair.copied_to = to;
  pair.copied_memory = pair.owner->windows_.at(packet.key >> 8).memory;
  if (!faults.slow_copies) copy(pair);
}

void SimFabric::copy(Pair& pair) {
  const Packet packet = std::move(*pair.copied);
  pair.copied.reset();
  ++counts.packets_written;
  write({pair.copied_to, packet.bytes.size()}, packet.bytes);
  if (packet.last) answer(pair, packet, Verb::write, Code::ok);
}

// Whoever waits for copies to end.
void SimFabric::finish_copies(const SimDevice& device, verbs::MemoryId memory) {
  for (const auto& [number, pair] : pairs_) {
    if (pair->owner == &device && pair->copied && pair->copied_memory == memory) copy(*pair);
  }
}

// A packet of the answer; true when that was the last.
bool SimFabric::answer_read(Pair& pair, Packet& packet) {
  const uint64_t length = std::min<uint64_t>(packet_bytes, packet.length - packet.done);
  const std::byte* const from = pair.owner->reach(
      pair.number, packet.key, packet.address + packet.done, length, Access::fetch);
  if (from == nullptr) {
    packet.first = packet.done == 0;
    refuse(pair, packet);
    return true;
  }
  Packet data;
  data.done = packet.done;
  data.bytes.assign(from, from + length);
  packet.done += length;
  data.last = packet.done == packet.length;
  data.verb = Verb::read;
  data.flight = packet.flight;
  Pair* const other = find(packet.from);
  if (data.bytes.size() > faults.packet_max) return packet.done == packet.length;
  if (other != nullptr && other->other == pair.number) {
    send(pair, *other, other->answers, std::move(data));
  }
  return packet.done == packet.length;
}

void SimFabric::answer(const Pair& pair, const Packet& packet, Verb verb, Status status) {
  Pair* const other = find(packet.from);
  if (other == nullptr || other->other != pair.number) return;
  Packet answer;
  answer.verb = verb;
  answer.flight = packet.flight;
  answer.status = status;
  send(pair, *other, other->answers, std::move(answer));
}

// Both queue pairs break.
void SimFabric::refuse(Pair& pair, const Packet& packet) {
  ++counts.refused;
  if (!packet.first) ++counts.cut;
  answer(pair, packet, packet.verb, Code::access_denied);
  pair.owner->events_.push_back(
      {verbs::EventKind::queue_pair_broken, verbs::QueuePairId{pair.number}});
  break_pair(pair, Code::cancelled);
}

void SimFabric::write(MutableBytes to, Bytes from) {
  if (on_write) on_write(to);
  std::memcpy(to.data(), from.data(), from.size());
}

bool SimFabric::take_answer(Pair& pair) {
  if (!has_come(pair, pair.answers)) return false;
  if (clock != nullptr) pair.since = clock->now();
  const Packet answer = std::move(pair.answers.front());
  pair.answers.pop_front();
  const auto flight = std::ranges::find(pair.flying, answer.flight, &Flight::number);
  ASSERT(flight != pair.flying.end());
  if (!answer.status.ok()) {
    break_pair(pair, answer.status);
    return true;
  }
  if (answer.verb == Verb::read) {
    const WorkRequest& request = flight->request;
    ASSERT(pair.owner->holds(request.memory, request.local, true));
    write(request.local.subspan(answer.done, answer.bytes.size()), answer.bytes);
  }
  flight->done = answer.last;
  return true;
}

bool SimFabric::complete(Pair& pair) {
  if (pair.flying.empty()) return false;
  const Flight& flight = pair.flying.front();
  if (flight.done) {
    pair.owner->late_.push_back({.id = flight.request.id});
    pair.flying.pop_front();
    if (clock != nullptr) pair.since = clock->now();
    return true;
  }
  if (!waits_in_vain(pair)) return false;
  if (clock == nullptr && !random.chance(1, kRetries)) return true;
  ++counts.given_up;
  break_pair(pair, Code::peer_gone);
  return true;
}

// Of one that waits for an answer.
bool SimFabric::waits_in_vain(const Pair& pair) {
  if (clock != nullptr) return clock->now() - pair.since >= faults.give_up;
  // Its answer may be on the way; else nobody is there.
  return !is_live(pair.other) && pair.answers.empty();
}

void SimFabric::break_pair(Pair& pair, Status first) {
  if (pair.state == Pair::State::broken) return;
  pair.state = Pair::State::broken;
  for (const Flight& flight : pair.flying) {
    const Status status = flight.done ? Status() : std::exchange(first, Code::cancelled);
    pair.owner->late_.push_back({.id = flight.request.id, .status = status});
  }
  for (const WorkRequest& request : pair.posted) {
    pair.owner->late_.push_back({.id = request.id, .status = Code::cancelled});
  }
  pair.flying.clear();
  pair.posted.clear();
  pair.requests.clear();
  pair.answers.clear();
  changed();
}

}  // namespace penstock::test
