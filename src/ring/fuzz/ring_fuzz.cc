// A hostile application: the input scribbles over the ring's memory between the agent's steps. The
// agent must stay inside the memory, take no more than it has room for, and never loop.
#include "fuzz.h"

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

namespace penstock::fuzz {

// Offsets and words: entries that a lane offers, and completions that it takes.
std::vector<std::string> seeds() {
  using ring::LaneControl;
  std::string out;
  const auto put = [&out](uint64_t at, uint32_t value) {
    out += bytes_of(static_cast<uint32_t>(at / 4)) + bytes_of(value);
  };
  for (uint32_t turn = 1; turn <= 20; ++turn) {
    const uint64_t lane = ring::kHeaderBytes + turn % 2 * ring::Geometry{8, 2}.lane_bytes();
    put(lane + sizeof(LaneControl) + turn % 8 * sizeof(ring::Submission), turn);
    put(lane + offsetof(LaneControl, submission_tail), (turn + 1) / 2);
    put(lane + offsetof(LaneControl, completion_head), turn / 3);
  }
  return {out};
}

}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  penstock::ring::run({data, size});
  return 0;
}
