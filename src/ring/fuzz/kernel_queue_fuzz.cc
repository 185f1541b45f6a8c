// A hostile kernel: the input scribbles over a ring's memory between the proxy's steps. The proxy
// must stay inside the memory, take no position that there is not, and never loop.
#include "fuzz.h"

#include <cstdlib>
#include <cstring>
#include <vector>

#include "penstock/ring.h"

namespace penstock::ring {
namespace {

void require(bool expected) {
  if (!expected) std::abort();
}

void run(const uint8_t* data, size_t size) {
  const KernelGeometry geometry = *KernelGeometry::make(64);
  static std::byte* const base =
      static_cast<std::byte*>(std::aligned_alloc(4096, geometry.host_bytes()));
  const MutableBytes bytes(base, geometry.host_bytes());
  std::memset(base, 0, bytes.size());
  KernelQueue queue(bytes, geometry);
  struct Step {
    uint32_t at;
    uint64_t value;
  };
  for (Step step{}; size >= sizeof step; data += sizeof step, size -= sizeof step) {
    std::memcpy(&step, data, sizeof step);
    std::memcpy(base + step.at % (bytes.size() / 8) * 8, &step.value, 8);
    KernelQueue::Taken taken[100];
    const uint32_t count = queue.take(taken);
    require(count <= 100);
    for (uint32_t i = 0; i < count; ++i) {
      require(taken[i].index < geometry.entries && taken[i].attempt < 8);
      require(taken[i].descriptor.offset < uint64_t{1} << 48);
      queue.answer(taken[i], {device::kDone, 0, taken[i].descriptor.length, 0});
    }
    require(queue.outstanding() <= geometry.entries);
  }
}

}  // namespace
}  // namespace penstock::ring

namespace penstock::fuzz {

// Steps: a word of the memory, and what a kernel writes there.
std::vector<std::string> seeds() {
  std::string out;
  for (uint32_t at = 0; at < 64; ++at) {
    out += bytes_of(at) + bytes_of(uint32_t{0}) + bytes_of(uint64_t{at} << 56 | 4096);
  }
  return {out};
}

}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  penstock::ring::run(data, size);
  return 0;
}
