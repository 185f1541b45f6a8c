// Any bytes as a token of an open file: only what was made is believed, and only of the user it was
// made for.
#include "fuzz.h"

#include <cstdlib>

#include "penstock/sessions/token.h"

namespace penstock::fuzz {
namespace {

const sessions::TokenMaker& maker() {
  static const sessions::TokenMaker one({0x1234'5678'9abc'def0, 0x0fed'cba9'8765'4321});
  return one;
}

}  // namespace

std::vector<std::string> seeds() {
  return {maker().make({InodeId(5), 1, 0}), maker().make({InodeId(1), 3, 1001})};
}

}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  const std::string token(reinterpret_cast<const char*>(data), size);
  for (const uint32_t uid : {0U, 1001U}) {
    const auto claim = fuzz::maker().verify(token, uid);
    if (!claim) continue;
    if (claim->uid != uid || fuzz::maker().make(*claim) != token) std::abort();
  }
  return 0;
}
