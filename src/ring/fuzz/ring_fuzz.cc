// A hostile application: the input scribbles over the ring's memory between the agent's steps. The
// agent must stay inside the memory, take no more than it has room for, and never loop.
#include <cstdlib>
#include <cstring>
#include <vector>

#include "penstock/ring.h"

namespace penstock::ring {
namespace {

struct Input {
  const uint8_t* data;
  size_t size;

  uint32_t word() {
    uint32_t value = 0;
    const size_t count = size < sizeof value ? size : sizeof value;
    std::memcpy(&value, data, count);
    data += count;
    size -= count;
    return value;
  }
};

void require(bool expected) {
  if (!expected) std::abort();
}

void run(Input input) {
  const Geometry geometry{8, 2};
  static std::byte* const base =
      static_cast<std::byte*>(std::aligned_alloc(kHeaderBytes, 2 * kHeaderBytes));
  const MutableBytes bytes(base, 2 * kHeaderBytes);
  std::memset(base, 0, bytes.size());
  Memory memory = Memory::format(bytes, geometry);
  AgentRing ring(memory);
  std::vector<AgentLane> lanes;
  for (uint32_t i = 0; i < geometry.lanes; ++i) lanes.emplace_back(memory, i);
  while (input.size > 0) {
    const uint32_t offset = input.word() % (bytes.size() / 4) * 4;
    const uint32_t value = input.word();
    std::memcpy(base + offset, &value, sizeof value);
    (void)Memory::open(bytes);
    require(ring.lanes_used() <= geometry.lanes);
    for (AgentLane& lane : lanes) {
      Submission entries[16];
      const Result<uint32_t> count = lane.take(entries, 16);
      if (!count) return;
      require(lane.in_progress() <= geometry.entries);
      while (lane.in_progress() > value % 4) lane.post({});
      lane.publish();
    }
  }
}

}  // namespace
}  // namespace penstock::ring

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  penstock::ring::run({data, size});
  return 0;
}
