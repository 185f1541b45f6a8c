// Memory registered with every disk of the node, so that its pages need not be pinned at each
// operation.
#pragma once

#include <mutex>
#include <vector>

#include "penstock/engine.h"

namespace penstock::agent {

struct SessionNode;

// Numbers of buffers. Thread safe.
class BufferNumbers {
 public:
  BufferNumbers() : used_(engine::kDiskBuffersMax, false) {}
  engine::BufferId take();  // kNoBuffer when all are in use
  void give_back(engine::BufferId id);

 private:
  std::mutex mutex_;
  std::vector<bool> used_;
};

// Whether all pages are there at this moment, as far as the kernel tells; of huge pages, those that
// this process has touched.
bool has_its_pages(Bytes memory);

// Makes the memory's pages, where that is not fenced (page_fence.h). Both block on the shards'
// loops. kNoBuffer where the memory is too large for that, the limits of the process or the kernel
// are reached, or a disk cannot: operations then take the ordinary way.
engine::BufferId register_buffer(SessionNode& node, MutableBytes memory);
// Nothing may be in flight on it. kNoBuffer is allowed.
void unregister_buffer(SessionNode& node, engine::BufferId id);

}  // namespace penstock::agent
