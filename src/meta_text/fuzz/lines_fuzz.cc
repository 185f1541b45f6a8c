// Any bytes as a line: what is taken has this one form, and can be stored.
#include "../tests/sample_lines.h"
#include "fuzz.h"

namespace penstock::fuzz {

std::vector<std::string> seeds() {
  std::vector<std::string> lines = meta_text::sample_lines();
  for (std::string& line : lines) line.pop_back();
  return lines;
}

}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  penstock::meta_text::parse_strictly({reinterpret_cast<const char*>(data), size});
  return 0;
}
