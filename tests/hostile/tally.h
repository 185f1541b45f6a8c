// What attackers came to, over all their processes: by it the test knows that they reach the inside
// of the node, and people know what a run was worth.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <sys/mman.h>

#include "penstock/base.h"

namespace penstock::test {

enum class Feat : uint8_t {
  sessions,
  requests,
  refused_requests,
  files,    // opened
  regions,  // registered or attached
  rings,
  reads,  // by rings, which ended well
  writes,
  syncs,
  fills,
  refused_operations,
  many,           // requests for many files that were answered
  links,          // of shared memory
  mounted_bytes,  // read and written through the mount
  ioctls,         // of 3FS, which were answered
};
inline constexpr size_t kFeats = 15;
inline constexpr std::array<const char*, kFeats> kFeatNames = {"sessions",
                                                               "requests",
                                                               "refused requests",
                                                               "files opened",
                                                               "regions",
                                                               "rings",
                                                               "ring reads",
                                                               "ring writes",
                                                               "ring syncs",
                                                               "fills",
                                                               "refused ring operations",
                                                               "requests for many files",
                                                               "links",
                                                               "bytes through the mount",
                                                               "ioctls"};

struct Tally {
  std::array<std::atomic<uint64_t>, kFeats> counts;

  // Shared with the children of this process; never unmapped.
  static Tally& make() {
    void* memory =
        ::mmap(nullptr, sizeof(Tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT(memory != MAP_FAILED);
    return *new (memory) Tally{};
  }
  void add(Feat feat, uint64_t count = 1) {
    counts[static_cast<size_t>(feat)].fetch_add(count, std::memory_order_relaxed);
  }
  uint64_t of(Feat feat) const { return counts[static_cast<size_t>(feat)].load(); }
  std::string text() const {
    std::string out;
    for (size_t i = 0; i < kFeats; ++i) {
      out += (i == 0 ? "" : ", ") + std::to_string(counts[i].load()) + " " + kFeatNames[i];
    }
    return out;
  }
};

}  // namespace penstock::test
