// A hostile agent: the input is written over the index between look-ups. No access may leave the
// memory.
#include "../tests/hostile_memory.h"
#include "fuzz.h"

namespace penstock::fuzz {

// An offset in the index, what to write there, and what to look up: as entries that claim slots.
std::vector<std::string> seeds() {
  std::string claims;
  for (uint32_t at = 0; at < 64; ++at) claims += bytes_of(std::array{at, at / 4 % 5, at});
  std::string header;
  for (uint32_t at = 0; at < 8; ++at) header += bytes_of(std::array{at, 4096U, 1U});
  return {claims, header};
}

}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  static arena::HostileSegment segment;
  const MutableBytes index = segment.index();
  std::memset(index.data() + arena::kHeaderBytes, 0, index.size() - arena::kHeaderBytes);
  while (size >= 12) {
    uint32_t words[3];
    std::memcpy(words, data, sizeof words);
    data += sizeof words;
    size -= sizeof words;
    std::memcpy(index.data() + words[0] % (index.size() / 4) * 4, &words[1], 4);
    segment.look_up(segment.claimed(words[2]));
    segment.look_up({InodeId(words[1]), words[2]});
  }
  // The header, too, as a reader that opens it now would find it.
  arena::Header header{};
  std::memcpy(&header, index.data(), sizeof header);
  (void)arena::Geometry::read(header, index.size());
  return 0;
}
