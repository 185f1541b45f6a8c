#include "regions.h"

#include <fmt/format.h>

namespace penstock::sessions {

using resources::ForeignMemory;

Answer Regions::add(const wire::RegisterRegion& m, int fd) {
  if (m.link.empty()) return make(m.region, fd, m.offset, m.size);
  // fstat() of what is not shared memory could call into any file system.
  if (!resources::is_shared_memory(fd)) {
    return Failure{Code::invalid_argument,
                   std::string("register region: ") + resources::kNoSharedMemory};
  }
  const std::shared_ptr<RegionLinks> links = context_.node.links.find();
  if (links == nullptr) {
    return Failure{Code::not_supported,
                   fmt::format("link {}: this node has no virtual directory", m.link)};
  }
  Outcome<void> linked = links->add(context_.credentials(), m.link, m.path, fd);
  if (!linked) {
    return Failure{linked.error().status,
                   fmt::format("link {} to {}", m.link, linked.error().message)};
  }
  Answer made = make(m.region, fd, m.offset, m.size);
  if (!made) (void)links->remove(context_.credentials(), m.link);
  return made;
}

Answer Regions::attach(const wire::AttachRegion& m) {
  const std::string what = fmt::format("attach region {}", m.name);
  const std::shared_ptr<RegionLinks> links = context_.node.links.find();
  if (links == nullptr) return failure_of(what, Code::not_found);
  const Result<RegionLinks::Opened> link = links->open(context_.credentials(), m.name);
  if (!link) return failure_of(what, link.error());
  return make(m.region, link->fd.get(), 0, link->size);
}

Outcome<void> Regions::reserve(uint32_t id, uint64_t size) {
  ASSERT(id < wire::kRegionsMax);
  const std::lock_guard lock(mutex_);
  if (regions_.contains(id)) return Failure{Code::bad_message, "the region's id is in use"};
  if (size > wire::kRegionBytesMax - bytes_) {
    return Failure{Code::busy, "register region: the session has too much memory registered"};
  }
  const uint64_t entry_bytes = context_.node.shards.size() * sizeof(serving::ServedRegion);
  if (!room_.reach(context_.account, id, entry_bytes).ok()) {
    return Failure{Code::busy, std::string("register region: ") + resources::kShareTaken};
  }
  regions_[id] = {};
  bytes_ += size;
  ASSERT(bytes_ <= wire::kRegionBytesMax);
  return {};
}

Failure Regions::give_up(uint32_t id, uint64_t size, Status status, const std::string& why) {
  const std::lock_guard lock(mutex_);
  ASSERT(bytes_ >= size);
  regions_.erase(id);
  bytes_ -= size;
  return {status, "register region: " + why};
}

Answer Regions::make(uint32_t id, int fd, uint64_t offset, uint64_t size) {
  TRY(reserve(id, size));
  auto memory = ForeignMemory::map(context_.account, fd, offset, size, false);
  if (!memory) return give_up(id, size, memory.error().status, memory.error().message);
  Region region;
  region.memory = std::move(*memory);
  pin(region);
  return keep(id, std::move(region));
}

// The kernel, of which the cards ask what the descriptor leads to, takes no other for a dma-buf.
Answer Regions::add_device(const wire::RegisterDevice& m, resources::ForeignFd dma_buf) {
  if (context_.node.network == nullptr) {
    return Failure{Code::not_supported,
                   "register device region: this node has no network card that would reach it"};
  }
  if (!resources::is_named_file(dma_buf.get())) {
    return Failure{Code::invalid_argument, "register device region: the descriptor is no dma-buf"};
  }
  TRY(reserve(m.region, m.size));
  auto device = resources::DeviceAddresses::take(m.offset, m.size);
  if (!device) return give_up(m.region, m.size, device.error(), "no addresses are left for it");
  Region region;
  region.device = std::move(*device);
  region.dma_buf = std::move(dma_buf);
  announce(region, {region.bytes(), region.dma_buf.get(), m.offset});
  return keep(m.region, std::move(region));
}

Answer Regions::keep(uint32_t id, Region region) {
  const Shares::Hold hold = shares_.hold();
  shares_.announce(
      [&](serving::Announced& announced) { announced.add_region(id, region.served()); });
  const std::lock_guard lock(mutex_);
  ASSERT(!regions_.at(id).is_made() && region.is_made());
  regions_[id] = std::move(region);
  return wire::ReplyBody{};
}

serving::ServedRegion Regions::Region::served() const {
  serving::ServedRegion served;
  served.bytes = bytes();
  served.kind = device != nullptr ? engine::MemoryKind::device : engine::MemoryKind::host;
  served.buffer = buffer;
  if (memory != nullptr) served.guard = &memory->guard();
  return served;
}

// Spares looking the pages up at each operation, for disks and for network cards, if all are there
// and the user may have so many pinned.
void Regions::pin(Region& region) {
  const ForeignMemory& memory = *region.memory;
  Result<resources::Charge> charge = resources::Charge::take(
      context_.account, resources::Resource::pinned_bytes, memory.mapped_bytes());
  if (!charge) return;
  if (!memory.is_fenced() && !resources::has_its_pages(memory.bytes())) return;
  region.buffer = context_.node.buffers.add(memory.bytes());
  if (context_.node.network != nullptr) announce(region, {memory.bytes()});
  const bool may_be_pinned = region.buffer != engine::kNoBuffer || region.announced;
  if (may_be_pinned) region.pinned = std::move(*charge);
}

void Regions::announce(Region& region, const verbs::Region& as) {
  context_.node.network->announce(as);
  region.announced = true;
}

void Regions::unmap(uint32_t id, Region region) {
  ASSERT(region.is_made());
  const uint64_t size = region.bytes().size();
  if (region.announced) context_.node.network->take_back(region.bytes());
  context_.node.buffers.remove(region.buffer);
  region = {};
  const std::lock_guard lock(mutex_);
  ASSERT(bytes_ >= size);
  regions_.erase(id);
  bytes_ -= size;
}

Answer Regions::release(const wire::ReleaseRegion& m) {
  const Shares::Hold hold = shares_.hold();
  Region region;
  {
    const std::lock_guard lock(mutex_);
    const auto found = regions_.find(m.region);
    if (found == regions_.end() || !found->second.is_made()) {
      return Failure{Code::bad_handle, "release region: there is none of this id"};
    }
    region = std::move(found->second);
    ASSERT(!found->second.is_made());
  }
  shares_.take(
      [&](serving::ShardShare& share) { return share.announced().take_region(m.region).present(); },
      [&](serving::ShardShare& share, engine::Op& done) { share.remove_region(m.region, done); });
  unmap(m.region, std::move(region));
  return wire::ReplyBody{};
}

void Regions::announce_all(serving::Announced& announced) {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, region] : regions_) {
    if (region.is_made()) announced.add_region(id, region.served());
  }
}

void Regions::add_to(SessionStatus* status) const {
  const std::lock_guard lock(mutex_);
  status->regions = static_cast<uint32_t>(regions_.size());
  status->region_bytes = bytes_;
}

void Regions::end() {
  std::map<uint32_t, Region> regions;
  {
    const std::lock_guard lock(mutex_);
    regions = std::move(regions_);
    regions_.clear();
  }
  for (auto& [id, region] : regions) {
    if (region.is_made()) unmap(id, std::move(region));
  }
  ASSERT(bytes_ == 0);
}

}  // namespace penstock::sessions
