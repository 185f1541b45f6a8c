#include "penstock/connection/regions.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>

namespace penstock::connection {

namespace {

// Of a region that has its memory by a descriptor; without its link, which is made once.
wire::RequestBody registration_of(const Region& region) {
  if (region.for_cards) return wire::RegisterDevice{region.id, region.offset, region.size};
  return wire::RegisterRegion{region.id, region.offset, region.size};
}

}  // namespace

Regions::Regions(Connection& connection)
    : connection_(connection), generations_(wire::kRegionsMax) {}

Outcome<Region*> Regions::make(uint64_t size) {
  auto region = std::make_unique<Region>();
  TRY_ASSIGN(region->memory, SharedMemory::make("penstock-region", size));
  region->base = region->memory.bytes().data();
  region->size = region->memory.bytes().size();
  region->fd = region->memory.fd();
  return add_region(std::move(region));
}

Outcome<Region*> Regions::add_memory(int fd, uint64_t offset, void* base, uint64_t size) {
  auto region = std::make_unique<Region>();
  region->owned_fd.reset(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!region->owned_fd) {
    return Failure{Status::from_errno(errno),
                   std::string("register region: ") + std::strerror(errno)};
  }
  region->base = static_cast<std::byte*>(base);
  region->size = size;
  region->offset = offset;
  region->fd = region->owned_fd.get();
  make_resident({region->base, region->size});
  return add_region(std::move(region));
}

Outcome<Region*> Regions::add_named(int fd, const std::string& path, const std::string& link,
                                    void* base, uint64_t size) {
  struct stat facts {};
  if (::fstat(fd, &facts) != 0) {
    return Failure{Status::from_errno(errno),
                   std::string("register region: ") + std::strerror(errno)};
  }
  auto region = std::make_unique<Region>();
  region->base = static_cast<std::byte*>(base);
  region->size = size;
  region->fd = fd;  // for this call
  region->path = path;
  region->file_device = facts.st_dev;
  region->file_inode = facts.st_ino;
  return add_region(std::move(region), link);
}

UniqueFd open_again(const Region& region) {
  UniqueFd fd(::open(region.path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  struct stat facts {};
  const bool same = fd && ::fstat(fd.get(), &facts) == 0 && facts.st_dev == region.file_device &&
                    facts.st_ino == region.file_inode;
  return same ? std::move(fd) : UniqueFd();
}

Outcome<void> Regions::keep_descriptor(Region& region) {
  const std::lock_guard lock(mutex_);
  if (region.path.empty()) return {};
  UniqueFd fd = open_again(region);
  if (!fd) return Failure{Code::not_found, region.path + ": not the region's memory any more"};
  region.owned_fd = std::move(fd);
  region.fd = region.owned_fd.get();
  region.path.clear();
  return {};
}

Outcome<void> Regions::number(Region& region) {
  ASSERT(region.table == nullptr);
  region.table = this;
  const std::lock_guard lock(mutex_);
  const std::optional<uint32_t> free = numbers_.take();
  if (!free) {
    return Failure{Code::busy, fmt::format("this session has {} regions, which is the limit",
                                           wire::kRegionsMax)};
  }
  region.id = *free;
  region.generation = generation_of(region.id);
  return {};
}

Outcome<Region*> Regions::add_region(std::unique_ptr<Region> region, const std::string& link) {
  TRY(number(*region));
  Region* const raw = region.get();
  const uint32_t id = raw->id;
  const auto keep = [&](const wire::ReplyBody&) {
    const std::lock_guard lock(mutex_);
    ASSERT(region != nullptr && !regions_.contains(id));
    if (!raw->path.empty()) raw->fd = -1;
    regions_[id] = std::move(region);
  };
  wire::RequestBody request = registration_of(*raw);
  if (!link.empty()) {
    request = wire::RegisterRegion{id, raw->offset, raw->size, link, raw->path};
  }
  const Connection::Answer answer = connection_.establish(std::move(request), {raw->fd}, keep);
  if (answer) return raw;
  give_number_back(id);
  return answer.error();
}

void Regions::give_number_back(uint32_t id) {
  const std::lock_guard lock(mutex_);
  numbers_.give_back(id);
}

Outcome<Region*> Regions::add_device(const engine::DeviceSpan& span, engine::DeviceMemory* owner) {
  auto region = std::make_unique<Region>();
  TRY(number(*region));
  region->base = span.data;
  region->size = span.length;
  region->device = span;
  region->owner = owner;
  Region* const raw = region.get();
  const std::lock_guard lock(mutex_);
  ASSERT(!regions_.contains(raw->id));
  regions_[raw->id] = std::move(region);
  return raw;
}

Outcome<void> Regions::show(Region& region, engine::DmaBuf memory) {
  ASSERT(region.device.has_value());
  if ((connection_.features() & wire::kFeatureDeviceRegions) == 0) {
    return Failure{Code::not_supported, "the agent has no network card that would reach it"};
  }
  auto shown = std::make_unique<Region>();
  shown->for_cards = true;
  shown->base = region.base;
  shown->size = region.size;
  shown->offset = memory.offset;
  shown->allocation = region.device->allocation;
  shown->dma_buf = ParentsFd(std::move(memory.fd));
  shown->fd = shown->dma_buf.get();
  TRY_ASSIGN(Region * known, add_region(std::move(shown)));
  const std::lock_guard lock(shown_mutex_);
  region.shown = known;
  shown_.emplace(known->base, known->shared_from_this());
  shown_count_.fetch_add(1, std::memory_order_relaxed);
  return {};
}

std::shared_ptr<Region> Regions::shown_around(const engine::DeviceSpan& span) const {
  if (shown_count_.load(std::memory_order_relaxed) == 0) return nullptr;
  const std::lock_guard lock(shown_mutex_);
  // Of several that begin there each may be of another allocation.
  for (auto one = shown_.upper_bound(span.data); one != shown_.begin();) {
    const std::shared_ptr<Region>& region = (--one)->second;
    const auto offset = static_cast<uint64_t>(span.data - region->base);
    const bool is_around = range_within(offset, span.length, region->size);
    if (is_around && region->allocation == span.allocation) return region;
    if (!is_around) break;
  }
  return nullptr;
}

// No operation finds it from now on. Null: cards were not shown it.
Region* Regions::hide(Region& region) {
  const std::lock_guard lock(shown_mutex_);
  Region* const shown = std::exchange(region.shown, nullptr);
  if (shown == nullptr) return nullptr;
  const auto [first, last] = shown_.equal_range(shown->base);
  shown_.erase(
      std::find_if(first, last, [&](const auto& one) { return one.second.get() == shown; }));
  shown_count_.fetch_sub(1, std::memory_order_relaxed);
  return shown;
}

Outcome<std::shared_ptr<Region>> Regions::take_out(Region* region) {
  const std::lock_guard lock(mutex_);
  const auto found = regions_.find(region->id);
  if (found == regions_.end() || found->second.get() != region) {
    return Failure{Code::invalid_argument, "release region: there is no such region"};
  }
  std::shared_ptr<Region> owned = std::move(found->second);
  ASSERT(owned->table == this && !owned->released.load(std::memory_order_relaxed));
  regions_.erase(found);
  // A lane that submits from now on sees that what was prepared with it must not begin; one that
  // has begun copies out of the node cache, perhaps, and is waited for.
  generations_[owned->id].fetch_add(1, std::memory_order_relaxed);
  return owned;
}

Outcome<void> Regions::release(Region* region) {
  TRY_ASSIGN(const std::shared_ptr<Region> owned, take_out(region));
  if (owned->device) release_publication(*owned);
  // No operation on GPU memory starts any more; those in progress end by themselves.
  owned->released.store(true, std::memory_order_seq_cst);
  for (RegionUser* const user : users_) user->let_go_of(*owned);
  if (owned->device) {
    Region* const shown = hide(*owned);
    const Outcome<void> forgotten = shown != nullptr ? release(shown) : Outcome<void>();
    give_back_memory(*owned);
    give_number_back(owned->id);
    return forgotten;
  }
  const Connection::Answer answer = connection_.call(wire::ReleaseRegion{owned->id}, true);
  give_number_back(owned->id);
  // An agent that died or never knew it cannot use the memory either.
  if (answer || answer.error().status == Code::bad_handle ||
      answer.error().status == Code::peer_gone) {
    return {};
  }
  return answer.error();
}

void Regions::release_publication(Region& region) {
  {
    const std::lock_guard lock(mutex_);
    if (region.publication == nullptr) return;
  }
  const Outcome<void> unpublished = unpublish(region);
  if (!unpublished) log::warning("release GPU memory: {}", unpublished.error().message);
}

// What the library allocated or imported for the region; nothing is in flight on it.
void Regions::give_back_memory(const Region& region) {
  if (region.owner == nullptr) return;
  ASSERT(region.device.has_value());
  const Status released = region.owner->release(*region.device);
  if (!released.ok()) log::error("release GPU memory: {}", released.name());
}

void Regions::give_back_device_memory() {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, region] : regions_) {
    // What was released is not here any more: pairs with take_out().
    ASSERT(region != nullptr);
    // A kernel may still use a ring that could not be destroyed: the memory is lost rather than
    // taken away.
    if (region->device_rings.load(std::memory_order_relaxed) == 0) give_back_memory(*region);
  }
}

Status Regions::set_up_again(const Ask& ask) {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, region] : regions_) {
    ASSERT(region != nullptr);
    if (region->device) continue;
    UniqueFd again;
    if (!region->path.empty()) again = open_again(*region);
    const int fd = region->path.empty() ? region->fd : again.get();
    // Operations find this out, and go by way of host memory.
    const bool has_cards = (connection_.features() & wire::kFeatureDeviceRegions) != 0;
    if (region->for_cards && !has_cards) continue;
    if (fd < 0) {
      // Its operations end with EINVAL; nothing else suffers.
      log::warning("{}: not the memory of a region any more", region->path);
      continue;
    }
    const Status known = ask(registration_of(*region), {fd});
    if (known == Code::peer_gone || known == Code::timed_out) return known;
    // Its operations end with EINVAL; the others are served.
    if (!known.ok()) log::warning("region {} cannot be made again: {}", id, known.name());
  }
  return publish_again(ask);
}

}  // namespace penstock::connection
