#include "rings.h"

namespace penstock::sessions {

using resources::Charge;
using resources::ForeignMemory;
using resources::Resource;

Answer Rings::create(const wire::CreateRing& m, int memory, resources::ForeignFd wake) {
  if (!resources::is_eventfd(wake.get())) {
    return Failure{Code::bad_message, "create ring: no eventfd"};
  }
  if (m.size > limits::kRingBytesMax) return Failure{Code::busy, "create ring: too large"};
  TRY(reserve(m.ring, m.size));
  ring::Memory layout;
  Outcome<Ring> ring = map(memory, m.size, &layout);
  if (!ring) {
    give_up(m.ring, m.size);
    return ring.error();
  }
  ring->wake = std::move(wake);
  ring->shard = context_.next_shard();
  const Status watched = watch(*ring);
  if (!watched.ok()) {
    give_up(m.ring, m.size);
    return failure_of("create ring", watched);
  }
  serving::ShardShare& share = shares_.make(ring->shard, cache_.segment());
  context_.at_once_on_shard(ring->shard,
                            [&] { share.add_ring(m.ring, layout, &ring->memory->guard()); });
  const std::lock_guard lock(mutex_);
  ASSERT(rings_.at(m.ring).memory == nullptr);
  rings_[m.ring] = std::move(*ring);
  return wire::ReplyBody{};
}

Outcome<void> Rings::reserve(uint32_t id, uint64_t size) {
  ASSERT(id < wire::kRingsMax && size <= limits::kRingBytesMax);
  const std::lock_guard lock(mutex_);
  if (rings_.contains(id)) return Failure{Code::bad_message, "the ring's id is in use"};
  if (size > limits::kRingBytesMax - bytes_) {
    return Failure{Code::busy, "create ring: the rings of this session are too large together"};
  }
  rings_[id] = {};
  bytes_ += size;
  return {};
}

void Rings::give_up(uint32_t id, uint64_t size) {
  const std::lock_guard lock(mutex_);
  ASSERT(bytes_ >= size && rings_.contains(id));
  rings_.erase(id);
  bytes_ -= size;
}

Outcome<Rings::Ring> Rings::map(int fd, uint64_t size, ring::Memory* layout) {
  const auto failed = [](Status status, const std::string& why) {
    return Failure{status, "create ring: " + why};
  };
  Result<Charge> heap =
      Charge::take(context_.account, Resource::heap_bytes, serving::limits::kRingHeapBytes);
  if (!heap) return failed(heap.error(), resources::kShareTaken);
  Result<Charge> mapping = Charge::take(context_.account, Resource::mappings, 1);
  if (!mapping) return failed(mapping.error(), resources::kShareTaken);
  auto memory = ForeignMemory::map(context_.account, fd, 0, size, true);
  if (!memory) return failed(memory.error().status, memory.error().message);
  const Result<ring::Memory> opened = ring::Memory::open((*memory)->bytes());
  if (!opened) return failed(opened.error(), "the header does not describe a ring");
  *layout = *opened;
  Ring ring;
  ring.heap = std::move(*heap);
  ring.mapping = std::move(*mapping);
  ring.memory = std::move(*memory);
  return ring;
}

// So that a write to the ring's eventfd ends the shard's sleep: at once if the shard can wait for
// it, else by way of the session's host.
Status Rings::watch(Ring& ring) {
  engine::Parker& parker = *context_.node.shards[ring.shard]->parker;
  context_.at_once_on_shard(ring.shard,
                            [&] { ring.watched_by_shard = parker.watch(ring.wake.get()).ok(); });
  if (!ring.watched_by_shard) TRY(context_.host.watch(ring.wake.get(), ring.shard));
  ring.watched = true;
  return Code::ok;
}

void Rings::unwatch(Ring& ring) {
  ring.watched = false;
  if (!ring.watched_by_shard) return context_.host.forget(ring.wake.get());
  engine::Parker& parker = *context_.node.shards[ring.shard]->parker;
  context_.at_once_on_shard(ring.shard, [&] { parker.forget(ring.wake.get()); });
}

void Rings::end(uint32_t id, Ring ring) {
  ASSERT(ring.memory != nullptr);
  serving::ShardShare& share = shares_.at(ring.shard);
  context_.on_shard(ring.shard, [&](engine::Op& done) { share.remove_ring(id, done); });
  unwatch(ring);
  // Its eventfd is closed with it, and another may get the number: pairs with watch().
  ASSERT(!ring.watched);
  const uint64_t size = ring.memory->bytes().size();
  ring.memory.reset();
  const std::lock_guard lock(mutex_);
  ASSERT(bytes_ >= size);
  rings_.erase(id);
  bytes_ -= size;
}

Answer Rings::destroy(const wire::DestroyRing& m) {
  Ring ring;
  {
    const std::lock_guard lock(mutex_);
    const auto found = rings_.find(m.ring);
    if (found == rings_.end() || found->second.memory == nullptr) {
      return Failure{Code::bad_handle, "destroy ring: there is none of this id"};
    }
    ring = std::move(found->second);
    ASSERT(found->second.memory == nullptr);
  }
  end(m.ring, std::move(ring));
  return wire::ReplyBody{};
}

Answer Rings::cancel(const wire::CancelOperation& m) {
  uint32_t shard = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto found = rings_.find(m.ring);
    if (found == rings_.end() || found->second.memory == nullptr) {
      return Failure{Code::bad_handle, "cancel: there is no ring of this id"};
    }
    shard = found->second.shard;
  }
  serving::ShardShare& share = shares_.at(shard);
  context_.at_once_on_shard(shard, [&] { share.cancel(m.ring, m.lane, m.slot, m.sequence); });
  return wire::ReplyBody{};
}

void Rings::add_to(SessionStatus* status) const {
  const std::lock_guard lock(mutex_);
  status->rings = static_cast<uint32_t>(rings_.size());
}

void Rings::end() {
  std::map<uint32_t, Ring> rings;
  {
    const std::lock_guard lock(mutex_);
    rings = std::move(rings_);
    rings_.clear();
  }
  for (auto& [id, ring] : rings) {
    if (ring.memory != nullptr) end(id, std::move(ring));
  }
  ASSERT(bytes_ == 0);
}

}  // namespace penstock::sessions
