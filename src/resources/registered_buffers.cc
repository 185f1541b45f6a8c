#include "penstock/resources/registered_buffers.h"

#include <algorithm>
#include <sys/mman.h>

namespace penstock::resources {

bool has_its_pages(Bytes memory) {
  constexpr size_t kPage = 4096;
  const uintptr_t past = reinterpret_cast<uintptr_t>(memory.data()) % kPage;
  memory = Bytes(memory.data() - past, memory.size() + past);
  unsigned char present[4096];
  for (size_t at = 0; at < memory.size(); at += sizeof present * kPage) {
    const size_t length = std::min(sizeof present * kPage, memory.size() - at);
    auto* const begin = const_cast<std::byte*>(memory.data()) + at;
    if (::mincore(begin, length, present) != 0) return false;
    const auto is_missing = [](unsigned char page) { return (page & 1) == 0; };
    if (std::any_of(present, present + (length + kPage - 1) / kPage, is_missing)) return false;
  }
  return true;
}

void RegisteredBuffers::add_disk(engine::Loop& loop, engine::Disk* disk) {
  ASSERT(std::find(used_.begin(), used_.end(), true) == used_.end());
  homes_.push_back({&loop, disk});
}

Status RegisteredBuffers::register_on(const Home& home, engine::BufferId id, MutableBytes memory) {
  if (home.disk == nullptr) return Code::not_supported;
  Status status;
  (void)engine::thread_caller().call(*home.loop, [&](engine::Op& done) {
    status = home.disk->register_buffer(id, memory);
    home.loop->complete(done, Code::ok);
  });
  return status;
}

void RegisteredBuffers::unregister_on(const Home& home, engine::BufferId id) {
  ASSERT(home.disk != nullptr);
  (void)engine::thread_caller().call(*home.loop, [&](engine::Op& done) {
    home.disk->unregister_buffer(id);
    home.loop->complete(done, Code::ok);
  });
}

engine::BufferId RegisteredBuffers::take_number() {
  const std::lock_guard lock(mutex_);
  for (uint32_t i = 0; i < used_.size(); ++i) {
    if (used_[i]) continue;
    used_[i] = true;
    return engine::BufferId(i);
  }
  return engine::kNoBuffer;
}

void RegisteredBuffers::give_back(engine::BufferId id) {
  const std::lock_guard lock(mutex_);
  ASSERT(id.value < used_.size() && used_[id.value]);
  used_[id.value] = false;
}

engine::BufferId RegisteredBuffers::add(MutableBytes memory) {
  ASSERT(!homes_.empty());
  // Larger ones exceed what the kernel takes as one buffer.
  if (memory.size() > kGiB) return engine::kNoBuffer;
  const engine::BufferId id = take_number();
  if (id == engine::kNoBuffer) return id;
  // Registering pins the pages: they are made here, so that the shard does not spend its time on
  // it. Without them (the owner's file system is full) it goes the ordinary way.
  size_t registered = 0;
  if (::madvise(memory.data(), memory.size(), MADV_POPULATE_WRITE) == 0) {
    while (registered < homes_.size() && register_on(homes_[registered], id, memory).ok()) {
      ++registered;
    }
  }
  if (registered == homes_.size()) return id;
  for (size_t i = 0; i < registered; ++i) unregister_on(homes_[i], id);
  give_back(id);
  return engine::kNoBuffer;
}

void RegisteredBuffers::remove(engine::BufferId id) {
  if (id == engine::kNoBuffer) return;
  for (const Home& home : homes_) unregister_on(home, id);
  give_back(id);
}

}  // namespace penstock::resources
