#include "shared_buffers.h"

#include "session.h"

#include <algorithm>
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

engine::BufferId register_buffer(SessionNode& node, MutableBytes memory) {
  // Larger ones exceed what the kernel takes as one buffer.
  if (memory.size() > kGiB) return engine::kNoBuffer;
  const engine::BufferId id = node.buffers.take();
  if (id == engine::kNoBuffer) return id;
  // Registering pins the pages: they are made here, so that the shard does not spend its time on
  // it. Without them (the owner's file system is full) it goes the ordinary way.
  size_t registered = 0;
  if (::madvise(memory.data(), memory.size(), MADV_POPULATE_WRITE) == 0) {
    while (registered < node.shards.size() &&
           register_on(*node.shards[registered], id, memory).ok()) {
      ++registered;
    }
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
