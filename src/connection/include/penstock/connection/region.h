// Memory that is registered for direct I/O: host memory that is shared with the agent, or memory of
// a GPU, of which the agent does not know.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <sys/types.h>

#include "penstock/base.h"
#include "penstock/connection/forked.h"
#include "penstock/connection/limits.h"
#include "penstock/connection/shared_memory.h"
#include "penstock/engine.h"
#include "penstock/wire.h"

namespace penstock::connection {

class Regions;

// What the agent is told of a region for other processes.
struct Publication {
  wire::PublishDevice request;
  ParentsFd fd;        // if the handle has one
  bool known = false;  // to the agent; false while it is on its way
};

// Shared with the operations on GPU memory that name it, which may be prepared when it is released.
struct Region : std::enable_shared_from_this<Region> {
  Regions* table = nullptr;  // which it belongs to
  uint32_t id = 0;
  uint64_t generation = 0;  // of those that have had this number
  std::byte* base = nullptr;
  size_t size = 0;
  uint64_t offset = 0;  // of the memory behind the descriptor
  int fd = -1;          // memory's, or owned_fd; -1: found again by `path`
  SharedMemory memory;  // of regions made here
  UniqueFd owned_fd;    // of memory that the caller made
  // Of memory whose file has a name: no descriptor is kept, of which a process often has no more
  // than 1,024. Another file that has got that name is told from it by device and inode.
  std::string path;
  dev_t file_device = 0;
  ino_t file_inode = 0;

  // What the agent's network cards reach of a GPU: beside the region of that memory, for operations
  // of transfers alone. `base` is an address there.
  bool for_cards = false;
  ParentsFd dma_buf;        // of it
  uint64_t allocation = 0;  // that it was exported from
  Region* shown = nullptr;  // the one beside this; guarded by the table's shown_mutex_

  // GPU memory, which the agent does not know of; `base` is its address there then.
  std::optional<engine::DeviceSpan> device;
  engine::DeviceMemory* owner = nullptr;  // what allocated or imported it; null: the caller did
  // In progress, by the transfers that carry them out: lanes that share none do not meet here.
  // Release at the end, and the last that is done with the region; acquire of the thread that waits
  // for it. Sequentially consistent with `released`: either the release waits for a transfer that
  // starts, or that sees that it may not.
  struct alignas(64) Count {
    std::atomic<uint32_t> value{0};
  };
  std::array<Count, limits::kRegionTransfersMax> transfers;
  std::atomic<bool> released{false};
  std::atomic<uint32_t> device_rings{0};     // whose kernels read into it; relaxed
  std::unique_ptr<Publication> publication;  // guarded by the table's mutex
};

// The file of a named region, while it has that name; none otherwise.
UniqueFd open_again(const Region& region);

}  // namespace penstock::connection
