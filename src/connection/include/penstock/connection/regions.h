// The regions that a session has registered, under numbers of its own choice.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "penstock/connection/connection.h"
#include "penstock/connection/numbers.h"
#include "penstock/connection/region.h"
#include "penstock/connection/zeroed_words.h"

namespace penstock::connection {

// What another process has published.
struct PublishedMemory {
  engine::DeviceHandle handle;
  uint64_t size = 0;
  std::array<uint8_t, 16> gpu{};
};

// Uses regions in this process, without the agent.
class RegionUser {
 public:
  // The region is out of the table, its number's generation has changed, and it is `released`: what
  // begins from now on must not use it. Returns when nothing that has begun before does any more.
  // Any thread.
  virtual void let_go_of(Region& region) = 0;

 protected:
  ~RegionUser() = default;
};

// Thread safe. Registered again at the agent's successor.
class Regions final : public Follower {
 public:
  explicit Regions(Connection& connection);

  // Before there are regions. It stays as long as this object.
  void add(RegionUser& user) {
    ASSERT(regions_.empty());
    users_.push_back(&user);
  }
  Connection& connection() const { return connection_; }

  // The generation of the region which has this number now, or will have it next. Relaxed: see
  // release().
  uint64_t generation_of(uint32_t id) const {
    return generations_[id].load(std::memory_order_relaxed) + 1;
  }

  Outcome<Region*> make(uint64_t size);
  Outcome<Region*> add_memory(int fd, uint64_t offset, void* base, uint64_t size);
  // Keeps no descriptor: an agent's successor is given what then has this name, if that is still
  // the same file. keep_descriptor() is for when it is about to lose its name.
  // `link`: a name for it in the virtual directory, or empty.
  Outcome<Region*> add_named(int fd, const std::string& path, const std::string& link, void* base,
                             uint64_t size);
  Outcome<void> keep_descriptor(Region& region);
  // GPU memory. `owner` gives the memory back with the region; null: it is the caller's.
  Outcome<Region*> add_device(const engine::DeviceSpan& span, engine::DeviceMemory* owner);
  // Lets the agent's network cards reach a region of GPU memory, too. not_supported where there are
  // none.
  Outcome<void> show(Region& region, engine::DmaBuf memory);
  // The region for_cards that a span of GPU memory lies in, of the same allocation; null: cards do
  // not reach it. Operations that name one which was released end with EINVAL.
  std::shared_ptr<Region> shown_around(const engine::DeviceSpan& span) const;
  // Waits until no operation uses it any more.
  Outcome<void> release(Region* region);

  // published_regions.cc. The handle is one of the region's memory.
  Outcome<void> publish(Region& region, const wire::DeviceMemoryId& id,
                        const std::array<uint8_t, 16>& gpu, engine::DeviceHandle handle);
  Outcome<void> unpublish(Region& region);
  Outcome<PublishedMemory> open_published(const wire::DeviceMemoryId& id);

  // At the session's end: the GPU memory that the library allocated or imported. Nothing is in
  // flight on it.
  void give_back_device_memory();

  void connection_lost() override {}
  Status set_up_again(const Ask& ask) override;
  void connected_again(uint64_t) override {}
  void epoch_changed() override {}

 private:
  Outcome<Region*> add_region(std::unique_ptr<Region> region, const std::string& link = {});
  Outcome<void> number(Region& region);
  void give_number_back(uint32_t id);
  Outcome<std::shared_ptr<Region>> take_out(Region* region);
  Region* hide(Region& region);
  void release_publication(Region& region);
  Status publish_again(const Ask& ask);
  static void give_back_memory(const Region& region);

  Connection& connection_;
  std::vector<RegionUser*> users_;
  std::mutex mutex_;
  std::map<uint32_t, std::shared_ptr<Region>> regions_;
  mutable std::mutex shown_mutex_;  // never held while something blocks
  std::multimap<const std::byte*, std::shared_ptr<Region>> shown_;  // for_cards, by base
  std::atomic<size_t> shown_count_{0};  // relaxed: to spare most operations the lock
  // Free again when a region is released, not while it is on its way.
  Numbers numbers_{wire::kRegionsMax};
  const ZeroedWords generations_;  // by number: releases
};

}  // namespace penstock::connection
