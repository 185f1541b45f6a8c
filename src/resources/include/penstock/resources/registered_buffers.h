// Memory registered with every disk of the node, so that its pages need not be pinned at each
// operation.
#pragma once

#include <mutex>
#include <vector>

#include "penstock/engine.h"

namespace penstock::resources {

// Whether all pages are there at this moment, as far as the kernel tells; of huge pages, those that
// this process has touched.
bool has_its_pages(Bytes memory);

// Thread safe once all disks are added. add() and remove() block on the disks' loops.
class RegisteredBuffers {
 public:
  // `loop` is the disk's, and both outlive this. Null: a shard without a disk, and with such a
  // shard nothing is registered.
  void add_disk(engine::Loop& loop, engine::Disk* disk);

  // Makes the memory's pages, where that is not fenced (page_fence.h), and registers them.
  // kNoBuffer where the memory is too large for that, the limits of the process or the kernel are
  // reached, or a disk cannot: operations then take the ordinary way.
  engine::BufferId add(MutableBytes memory);
  // Nothing may be in flight on it. kNoBuffer is allowed.
  void remove(engine::BufferId id);

 private:
  struct Home {
    engine::Loop* loop = nullptr;
    engine::Disk* disk = nullptr;
  };

  Status register_on(const Home& home, engine::BufferId id, MutableBytes memory);
  void unregister_on(const Home& home, engine::BufferId id);
  engine::BufferId take_number();  // kNoBuffer when all are in use
  void give_back(engine::BufferId id);

  std::vector<Home> homes_;
  std::mutex mutex_;
  std::vector<bool> used_ = std::vector<bool>(engine::kDiskBuffersMax, false);
};

}  // namespace penstock::resources
