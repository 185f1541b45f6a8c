// Regions and rings of a session.
#include "session.h"

#include <fmt/format.h>

namespace penstock::agent {

ServedRegion Session::served(const Region& region) {
  return {region.memory->bytes(), region.buffer, &region.memory->guard(), 0, nullptr};
}

ShardShare& Session::share_on(uint32_t shard) {
  if (shares_[shard] != nullptr) return *shares_[shard];
  SessionShard& home = *node_.shards[shard];
  auto share = std::make_unique<ShardShare>(
      *home.loop, *home.client, home.rings.routes(), ShardCache{home.fills.get(), segment()},
      account_, SessionTerms{&user_terms_, &terms_}, [this](const char* why) { end_broken(why); });
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, file] : files_) {
      if (file.ref != nullptr) share->announced().add_file(id, file.ref);
    }
    for (const auto& [id, region] : regions_) {
      if (region.memory != nullptr) share->announced().add_region(id, served(region));
    }
  }
  on_shard(shard, [&](engine::Op& done) {
    home.rings.add(*share);
    home.loop->complete(done, Code::ok);
  });
  shares_[shard] = std::move(share);
  return *shares_[shard];
}

Session::Answer Session::on(const wire::RegisterRegion& m, int fd) {
  if (m.link.empty()) return make_region(m.region, fd, m.offset, m.size);
  // fstat() of what is not shared memory could call into any file system.
  if (!is_shared_memory(fd)) {
    return Failure{Code::invalid_argument, std::string("register region: ") + kNoSharedMemory};
  }
  const Status linked = node_.links.add(peer_.credentials, m.link, m.path, fd);
  if (!linked.ok()) {
    return Failure{linked,
                   fmt::format("link {} to {}", m.link, LinkTable::trouble(linked, m.path))};
  }
  Answer made = make_region(m.region, fd, m.offset, m.size);
  if (!made) (void)node_.links.remove(peer_.credentials, m.link);
  return made;
}

Session::Answer Session::on(const wire::AttachRegion& m) {
  auto link = node_.links.open(peer_.credentials, m.name);
  if (!link) return failure_of(fmt::format("attach region {}", m.name), link.error());
  return make_region(m.region, link->fd.get(), 0, link->size);
}

Session::Answer Session::make_region(uint32_t id, int fd, uint64_t offset, uint64_t size) {
  {
    const std::lock_guard lock(mutex_);
    if (regions_.contains(id)) return Failure{Code::bad_message, "the region's id is in use"};
    if (size > wire::kRegionBytesMax - region_bytes_) {
      return Failure{Code::busy, "register region: the session has too much memory registered"};
    }
    const uint64_t bytes = node_.shards.size() * sizeof(ServedRegion);
    if (!region_room_.reach(account_, id, bytes).ok()) {
      return Failure{Code::busy, std::string("register region: ") + kShareTaken};
    }
    regions_[id] = {};
    region_bytes_ += size;
  }
  const auto give_up = [&](Status status, const std::string& why) {
    const std::lock_guard lock(mutex_);
    regions_.erase(id);
    region_bytes_ -= size;
    return Failure{status, "register region: " + why};
  };
  auto memory = ForeignMemory::map(account_, fd, offset, size, false);
  if (!memory) return give_up(memory.error().status, memory.error().message);
  Region region{std::move(*memory), Charge(), engine::kNoBuffer};
  pin(region);
  const std::shared_lock publishing(publishing_);
  for (const auto& share : shares_) {
    if (share != nullptr) share->announced().add_region(id, served(region));
  }
  const std::lock_guard lock(mutex_);
  regions_[id] = std::move(region);
  return wire::ReplyBody{};
}

// Spares the kernel looking the pages up at each operation, if all are there and the user may have
// so many pinned.
void Session::pin(Region& region) {
  const ForeignMemory& memory = *region.memory;
  Result<Charge> charge = Charge::take(account_, Resource::pinned_bytes, memory.mapped_bytes());
  if (!charge || (!memory.is_fenced() && !has_its_pages(memory.bytes()))) return;
  region.buffer = register_buffer(node_, memory.bytes());
  if (region.buffer != engine::kNoBuffer) region.pinned = std::move(*charge);
}

void Session::release(uint32_t id, Region region) {
  const uint64_t size = region.memory->bytes().size();
  unregister_buffer(node_, region.buffer);
  region.memory.reset();
  const std::lock_guard lock(mutex_);
  regions_.erase(id);
  region_bytes_ -= size;
}

Session::Answer Session::on(const wire::ReleaseRegion& m) {
  const std::shared_lock publishing(publishing_);
  Region region;
  {
    const std::lock_guard lock(mutex_);
    const auto found = regions_.find(m.region);
    if (found == regions_.end() || found->second.memory == nullptr) {
      return Failure{Code::bad_handle, "release region: there is none of this id"};
    }
    region = std::move(found->second);
  }
  const auto is_unused = [&](ShardShare& share) {
    return share.announced().take_region(m.region).present();
  };
  take_from_shares(
      is_unused, [&](ShardShare& share, engine::Op& done) { share.remove_region(m.region, done); });
  release(m.region, std::move(region));
  return wire::ReplyBody{};
}

Session::Answer Session::on(const wire::CreateRing& m, int memory, ForeignFd wake) {
  if (!is_eventfd(wake.get())) return Failure{Code::bad_message, "create ring: no eventfd"};
  if (m.size > limits::kRingBytesMax) return Failure{Code::busy, "create ring: too large"};
  {
    const std::lock_guard lock(mutex_);
    if (rings_.contains(m.ring)) return Failure{Code::bad_message, "the ring's id is in use"};
    if (m.size > limits::kRingBytesMax - ring_bytes_) {
      return Failure{Code::busy, "create ring: the rings of this session are too large together"};
    }
    rings_[m.ring] = {};
    ring_bytes_ += m.size;
  }
  const auto give_up = [&](Status status, const std::string& why) {
    const std::lock_guard lock(mutex_);
    rings_.erase(m.ring);
    ring_bytes_ -= m.size;
    return Failure{status, "create ring: " + why};
  };
  Result<Charge> heap = Charge::take(account_, Resource::heap_bytes, limits::kRingHeapBytes);
  if (!heap) return give_up(heap.error(), kShareTaken);
  Result<Charge> mapping = Charge::take(account_, Resource::mappings, 1);
  if (!mapping) return give_up(mapping.error(), kShareTaken);
  auto mapped = ForeignMemory::map(account_, memory, 0, m.size, true);
  if (!mapped) return give_up(mapped.error().status, mapped.error().message);
  const Result<ring::Memory> layout = ring::Memory::open((*mapped)->bytes());
  if (!layout) return give_up(layout.error(), "the header does not describe a ring");

  Ring ring{std::move(*heap), std::move(*mapping), std::move(*mapped), std::move(wake), 0};
  ring.shard = node_.next_shard.fetch_add(1, std::memory_order_relaxed) %
               static_cast<uint32_t>(node_.shards.size());
  const Status watched = watch(ring);
  if (!watched.ok()) return give_up(watched, std::string(watched.name()));
  const std::unique_lock publishing(publishing_);
  ShardShare& share = share_on(ring.shard);
  on_shard(ring.shard, [&](engine::Op& done) {
    share.add_ring(m.ring, *layout, &ring.memory->guard());
    node_.shards[ring.shard]->loop->complete(done, Code::ok);
  });
  const std::lock_guard lock(mutex_);
  rings_[m.ring] = std::move(ring);
  return wire::ReplyBody{};
}

// So that a write to the ring's eventfd ends the shard's sleep: at once if the shard can wait for
// it, else by way of the server's thread.
Status Session::watch(Ring& ring) {
  SessionShard& shard = *node_.shards[ring.shard];
  on_shard(ring.shard, [&](engine::Op& done) {
    ring.watched_by_shard = shard.parker->watch(ring.wake.get()).ok();
    shard.loop->complete(done, Code::ok);
  });
  return ring.watched_by_shard ? Code::ok : host_.watch(ring.wake.get(), ring.shard);
}

void Session::destroy(uint32_t id, Ring ring) {
  on_shard(ring.shard, [&](engine::Op& done) { shares_[ring.shard]->remove_ring(id, done); });
  if (!ring.watched_by_shard) {
    host_.forget(ring.wake.get());
  } else {
    SessionShard& shard = *node_.shards[ring.shard];
    on_shard(ring.shard, [&](engine::Op& done) {
      shard.parker->forget(ring.wake.get());
      shard.loop->complete(done, Code::ok);
    });
  }
  const uint64_t size = ring.memory->bytes().size();
  ring.memory.reset();
  const std::lock_guard lock(mutex_);
  rings_.erase(id);
  ring_bytes_ -= size;
}

Session::Answer Session::on(const wire::DestroyRing& m) {
  const std::shared_lock publishing(publishing_);
  Ring ring;
  {
    const std::lock_guard lock(mutex_);
    const auto found = rings_.find(m.ring);
    if (found == rings_.end() || found->second.memory == nullptr) {
      return Failure{Code::bad_handle, "destroy ring: there is none of this id"};
    }
    ring = std::move(found->second);
  }
  destroy(m.ring, std::move(ring));
  return wire::ReplyBody{};
}

Session::Answer Session::on(const wire::CancelOperation& m) {
  const std::shared_lock publishing(publishing_);
  uint32_t shard = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto found = rings_.find(m.ring);
    if (found == rings_.end() || found->second.memory == nullptr) {
      return Failure{Code::bad_handle, "cancel: there is no ring of this id"};
    }
    shard = found->second.shard;
  }
  on_shard(shard, [&](engine::Op& done) {
    shares_[shard]->cancel(m.ring, m.lane, m.slot, m.sequence);
    node_.shards[shard]->loop->complete(done, Code::ok);
  });
  return wire::ReplyBody{};
}

}  // namespace penstock::agent
