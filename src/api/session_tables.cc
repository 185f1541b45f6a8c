// What a session owns, under numbers of its own choice: files, regions and rings.
#include "device_rings.h"
#include "session.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>

#include "penstock/route.h"

namespace penstock::api {

// ---- files ----

Outcome<int32_t> Session::open_file(const std::function<wire::RequestBody(uint32_t)>& request,
                                    const std::vector<int>& descriptors) {
  uint32_t id = 0;
  {
    const std::lock_guard lock(mutex_);
    if (files_.size() >= wire::kFilesMax) {
      return Failure{Code::busy, fmt::format("open: this session has {} files open, which is the "
                                             "limit",
                                             files_.size())};
    }
    // The number after the last one given, so that a stale number is noticed more often.
    while (files_.contains(next_file_ % wire::kFilesMax)) ++next_file_;
    id = next_file_++ % wire::kFilesMax;
    files_[id] = {};
  }
  const auto keep = [&](const wire::ReplyBody& body) {
    const auto* opened = std::get_if<wire::Opened>(&body);
    if (opened == nullptr) return;
    files_[id] = {opened->token, true};
    inodes_[id].store(opened->inode, std::memory_order_relaxed);
    access_[id].store(static_cast<uint8_t>(opened->access), std::memory_order_relaxed);
  };
  const auto again = [&](const wire::ReplyBody& body) -> wire::RequestBody {
    const auto* opened = std::get_if<wire::Opened>(&body);
    return wire::Reopen{id, opened != nullptr ? opened->token : std::string()};
  };
  const Answer answer = establish(request(id), descriptors, keep, again);
  if (answer) return static_cast<int32_t>(id);
  const std::lock_guard lock(mutex_);
  files_.erase(id);
  return answer.error();
}

Outcome<void> Session::begin_close(int32_t file) {
  const uint32_t id = static_cast<uint32_t>(file);
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(id);
  if (file < 0 || found == files_.end() || !found->second.ready) {
    return Failure{Code::bad_handle, "close: the file is not open"};
  }
  found->second.ready = false;
  access_[id].store(0, std::memory_order_relaxed);
  return {};
}

Outcome<void> Session::close_file_later(int32_t file) {
  TRY(begin_close(file));
  const auto pending = std::make_shared<Pending>();
  // The number is free again when the agent has answered.
  pending->closes = static_cast<uint32_t>(file);
  uint64_t epoch = 0;
  const auto begun =
      begin_call(wire::CloseFile{*pending->closes}, {}, call_deadline(), pending, &epoch);
  if (begun && (begun->sent.ok() || begun->sent == Code::peer_gone)) return {};
  const std::lock_guard lock(mutex_);
  if (begun) pending_.erase(begun->id);
  files_.erase(*pending->closes);
  if (!begun) return begun.error();
  return Failure{begun->sent, fmt::format("close: {}", begun->sent.name())};
}

Outcome<void> Session::close_file(int32_t file) {
  const uint32_t id = static_cast<uint32_t>(file);
  TRY(begin_close(file));
  const Answer answer = call(wire::CloseFile{id}, false);
  const std::lock_guard lock(mutex_);
  files_.erase(id);
  if (!answer) return answer.error();
  return {};
}

// ---- regions ----

Outcome<Region*> Session::make_region(uint64_t size) {
  auto region = std::make_unique<Region>();
  TRY_ASSIGN(region->memory, SharedMemory::make("penstock-region", size));
  region->base = region->memory.bytes().data();
  region->size = region->memory.bytes().size();
  region->fd = region->memory.fd();
  return add_region(std::move(region));
}

Outcome<Region*> Session::register_region(int fd, uint64_t offset, void* base, uint64_t size) {
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

Outcome<Region*> Session::register_named_region(int fd, const std::string& path,
                                                const std::string& link, void* base,
                                                uint64_t size) {
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

Outcome<void> Session::keep_descriptor(Region& region) {
  const std::lock_guard lock(mutex_);
  if (region.path.empty()) return {};
  UniqueFd fd = open_again(region);
  if (!fd) return Failure{Code::not_found, region.path + ": not the region's memory any more"};
  region.owned_fd = std::move(fd);
  region.fd = region.owned_fd.get();
  region.path.clear();
  return {};
}

Outcome<void> Session::number_region(Region& region) {
  region.session = this;
  const std::lock_guard lock(mutex_);
  const std::optional<uint32_t> number = region_numbers_.take();
  if (!number) {
    return Failure{Code::busy, fmt::format("this session has {} regions, which is the limit",
                                           wire::kRegionsMax)};
  }
  region.id = *number;
  region.generation = region_generation(region.id);
  return {};
}

Outcome<Region*> Session::add_region(std::unique_ptr<Region> region, const std::string& link) {
  TRY(number_region(*region));
  Region* const raw = region.get();
  const uint32_t id = raw->id;
  const auto keep = [&](const wire::ReplyBody&) {
    if (!raw->path.empty()) raw->fd = -1;
    regions_[id] = std::move(region);
  };
  const std::string& path = link.empty() ? link : raw->path;
  const Answer answer =
      establish(wire::RegisterRegion{id, raw->offset, raw->size, link, path}, {raw->fd}, keep);
  if (answer) return raw;
  const std::lock_guard lock(mutex_);
  region_numbers_.give_back(id);
  return answer.error();
}

Outcome<void> Session::release_region(Region* region) {
  std::shared_ptr<Region> owned;
  {
    const std::lock_guard lock(mutex_);
    const auto found = regions_.find(region->id);
    if (found == regions_.end() || found->second.get() != region) {
      return Failure{Code::invalid_argument, "release region: there is no such region"};
    }
    owned = std::move(found->second);
    regions_.erase(found);
    // Whoever submits from now on sees that what was prepared with it must not begin; who has begun
    // copies out of the node cache, perhaps, and is waited for.
    region_generations_[owned->id].fetch_add(1, std::memory_order_relaxed);
    for (const auto& [id, ring] : rings_) ring->pass_submitters();
  }
  if (owned->device) {
    release_device_region(*owned);
    const std::lock_guard lock(mutex_);
    region_numbers_.give_back(owned->id);
    return {};
  }
  const Answer answer = call(wire::ReleaseRegion{owned->id}, true);
  const std::lock_guard lock(mutex_);
  region_numbers_.give_back(owned->id);
  // An agent that died or never knew it cannot use the memory either.
  if (answer || answer.error().status == Code::bad_handle ||
      answer.error().status == Code::peer_gone) {
    return {};
  }
  return answer.error();
}

// ---- rings ----

Outcome<Ring*> Session::make_ring(uint32_t entries, uint32_t lanes) {
  const Result<ring::Geometry> geometry = ring::Geometry::make(entries, lanes);
  if (!geometry) {
    return Failure{geometry.error(), fmt::format("create ring: 1 to {} entries and 1 to {} lanes",
                                                 ring::kEntriesMax, ring::kLanesMax)};
  }
  uint32_t id = 0;
  {
    const std::lock_guard lock(mutex_);
    const std::optional<uint32_t> number = ring_numbers_.take();
    if (!number) {
      return Failure{Code::busy,
                     fmt::format("this session has {} rings, which is the limit", wire::kRingsMax)};
    }
    id = *number;
  }
  auto ring = std::make_unique<Ring>(*this, id, *geometry);
  Ring* const raw = ring.get();
  Outcome<std::shared_ptr<RingMemory>> memory = ring->make_memory();
  Answer answer = memory ? Answer(wire::ReplyBody{}) : Answer(memory.error());
  if (memory) {
    const MutableBytes bytes = (*memory)->shared.bytes();
    const auto keep = [&](const wire::ReplyBody&) {
      (*memory)->shared.close_fd();
      ring->use(*memory, epoch_.load(std::memory_order_relaxed));
      rings_[id] = std::move(ring);
    };
    answer = establish(wire::CreateRing{id, bytes.size()},
                       {(*memory)->shared.fd(), (*memory)->wake.get()}, keep);
  }
  if (!answer) {
    const std::lock_guard lock(mutex_);
    ring_numbers_.give_back(id);
    return answer.error();
  }
  const std::lock_guard lock(mutex_);
  cache_.want();
  return raw;
}

Outcome<void> Session::destroy_ring(Ring* ring) {
  std::unique_ptr<Ring> owned;
  {
    const std::lock_guard lock(mutex_);
    const auto found = rings_.find(ring->id());
    if (found == rings_.end() || found->second.get() != ring) {
      return Failure{Code::invalid_argument, "destroy ring: there is no such ring"};
    }
    owned = std::move(found->second);
    rings_.erase(found);
  }
  if (transfers_ != nullptr) owned->end_transfers();
  const Answer answer = call(wire::DestroyRing{owned->id()}, true);
  const std::lock_guard lock(mutex_);
  ring_numbers_.give_back(owned->id());
  if (answer || answer.error().status == Code::bad_handle ||
      answer.error().status == Code::peer_gone) {
    return {};
  }
  return answer.error();
}

}  // namespace penstock::api
