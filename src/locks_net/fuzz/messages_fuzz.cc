// Any bytes as words, and as what is told.
#include "../tests/fill.h"
#include "fuzz.h"

namespace penstock::fuzz {

std::vector<std::string> seeds() {
  std::vector<std::string> out;
  engine::SeededRandom random(1);
  const locks::AgentId agent{NodeId{3}, 4};
  for (int i = 0; i < 40; ++i) {
    std::string words, told;
    for (uint64_t n = random.below(5); n > 0; --n) {
      encode(locks_net::random_word(random, agent), words);
      encode(locks_net::random_told(random), told);
    }
    out.push_back(words);
    out.push_back(told);
  }
  return out;
}

}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const locks::AgentId agent{NodeId{3}, 4};
  if (const auto words = locks_net::decode_words(bytes, agent)) {
    std::string again;
    for (const locks_net::Word& word : *words) encode(word, again);
    ASSERT(again == bytes);
  }
  if (const auto told = locks_net::decode_told(bytes)) {
    std::string again;
    for (const locks_net::Told& one : *told) encode(one, again);
    ASSERT(again == bytes);
  }
  return 0;
}
