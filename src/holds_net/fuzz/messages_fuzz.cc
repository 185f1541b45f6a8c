// Any bytes as words, as what is told, and as records.
#include "../records.h"
#include "../tests/fill.h"
#include "fuzz.h"

namespace penstock::fuzz {

std::vector<std::string> seeds() {
  std::vector<std::string> out;
  engine::SeededRandom random(1);
  const holds_net::AgentId agent{NodeId{3}, 4};
  for (int i = 0; i < 40; ++i) {
    std::string words, told;
    for (uint64_t n = random.below(5); n > 0; --n) {
      encode(holds_net::random_word(random, agent), words);
      encode(holds_net::random_told(random, agent), told);
    }
    out.push_back(words);
    out.push_back(told);
  }
  out.push_back(holds_net::encode(holds_net::NodeRecord{9, {{4, true}, {9, false}}}));
  return out;
}

}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  holds_net::read_all(bytes);
  const auto record = holds_net::decode_node(bytes);
  if (record) ASSERT(holds_net::encode(*record) == bytes);
  const auto life = holds_net::decode_life(bytes);
  if (life) ASSERT(holds_net::encode_life(*life) == bytes);
  return 0;
}
