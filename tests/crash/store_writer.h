// The program that is killed: a target on real files that does random updates and reports each one
// before it begins and after it ended.
#pragma once

#include <memory>
#include <string>

#include "penstock/disk.h"
#include "penstock/kv.h"
#include "penstock/store.h"

namespace penstock::crash {

inline constexpr uint32_t kChunkLength = 512 * kKiB;
inline constexpr ChunkId kChunks[] = {
    {InodeId(1), 0}, {InodeId(1), 1}, {InodeId(2), 0}, {InodeId(3), 5}};
inline constexpr size_t kChunkCount = std::size(kChunks);

enum class EventKind : uint32_t {
  ready,    // the target is open
  began,    // an update of chunk [begin, end), named `name`, with content `id`
  ended,    // it is visible, and durable if `id` is not 0
  failed,   // it had no effect
  durable,  // of the inode `id` (0: all) everything that ended before `time`
};

// What goes through the pipe, whole: smaller than PIPE_BUF.
struct Event {
  EventKind kind = EventKind::ready;
  uint32_t chunk = 0;
  uint32_t begin = 0;
  uint32_t end = 0;
  uint64_t name = 0;
  uint64_t id = 0;
  uint64_t time = 0;  // logical
};

// A target on real files under `directory`.
struct RealTarget {
  // Null with a message on standard error if it cannot be opened.
  static std::unique_ptr<RealTarget> open(const std::string& directory);
  ~RealTarget();

  // Runs the loop until the operation ends.
  template <class Operation>
  Status run(Operation& op) {
    return engine::PollingCaller().call(*loop, [&](engine::Op& done) {
      op.owner = &done;
      op.completion = [](engine::Op& ended) {
        engine::Op& its = ended.owner_as<engine::Op>();
        its.status = ended.status;
        its.completion(its);
      };
      target->submit(op);
    });
  }

  engine::SeededRandom random{engine::system_seed()};
  std::unique_ptr<disk::DiskDriver> driver;
  std::unique_ptr<engine::Loop> loop;
  engine::Disk* disk = nullptr;
  std::unique_ptr<engine::Kv> kv;
  std::unique_ptr<store::Target> target;
};

// Works until it is killed. Content ids and names begin at `first_id`.
int run_writer(const std::string& directory, uint64_t seed, uint64_t first_id, int pipe);

}  // namespace penstock::crash
