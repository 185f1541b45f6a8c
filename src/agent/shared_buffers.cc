#include "shared_buffers.h"

#include "session.h"

#include <algorithm>
#include <array>
#include <sys/mman.h>

namespace penstock::agent {
namespace {

void unregister_on(SessionShard& shard, engine::BufferId id) {
  (void)engine::thread_caller().call(*shard.loop, [&](engine::Op& done) {
    shard.disk->unregister_buffer(id);
    shard.loop->complete(done, Code::ok);
  });
}

Status register_on(SessionShard& shard, engine::BufferId id, MutableBytes memory) {
  if (shard.disk == nullptr) return Code::not_supported;
  Status status;
  (void)engine::thread_caller().call(*shard.loop, [&](engine::Op& done) {
    status = shard.disk->register_buffer(id, memory);
    shard.loop->complete(done, Code::ok);
  });
  return status;
}

}  // namespace

engine::BufferId BufferNumbers::take() {
  const std::lock_guard lock(mutex_);
  for (uint32_t i = 0; i < used_.size(); ++i) {
    if (used_[i]) continue;
    used_[i] = true;
    return engine::BufferId(i);
  }
  return engine::kNoBuffer;
}

void BufferNumbers::give_back(engine::BufferId id) {
  const std::lock_guard lock(mutex_);
  used_[id.value] = false;
}

namespace {

// Whether every page of the file behind the mapping is there. Ends at the first one that is not.
bool is_resident(MutableBytes memory) {
  constexpr uint64_t kPage = 4096;
  constexpr uint64_t kStep = 16 * kMiB;
  std::array<unsigned char, kStep / kPage> pages;
  for (uint64_t at = 0; at < memory.size(); at += kStep) {
    const uint64_t length = std::min(kStep, memory.size() - at);
    if (::mincore(memory.data() + at, length, pages.data()) != 0) return false;
    const auto end = pages.begin() + static_cast<std::ptrdiff_t>((length + kPage - 1) / kPage);
    if (std::any_of(pages.begin(), end, [](unsigned char page) { return (page & 1) == 0; })) {
      return false;
    }
  }
  return true;
}

}  // namespace

engine::BufferId register_buffer(SessionNode& node, MutableBytes memory) {
  // Larger ones exceed what the kernel takes as one buffer.
  if (memory.size() > kGiB) return engine::kNoBuffer;
  // Registering pins the pages. Those that are not there yet would be made by it, for memory that
  // may never be used; such a region goes the ordinary way.
  if (!is_resident(memory)) return engine::kNoBuffer;
  const engine::BufferId id = node.buffers.take();
  if (id == engine::kNoBuffer) return id;
  size_t registered = 0;
  while (registered < node.shards.size() &&
         register_on(*node.shards[registered], id, memory).ok()) {
    ++registered;
  }
  if (registered == node.shards.size()) return id;
  for (size_t i = 0; i < registered; ++i) unregister_on(*node.shards[i], id);
  node.buffers.give_back(id);
  return engine::kNoBuffer;
}

void unregister_buffer(SessionNode& node, engine::BufferId id) {
  if (id == engine::kNoBuffer) return;
  for (const auto& shard : node.shards) unregister_on(*shard, id);
  node.buffers.give_back(id);
}

}  // namespace penstock::agent
