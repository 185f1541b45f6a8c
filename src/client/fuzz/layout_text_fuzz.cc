// Any text as what a directory's layout is to become: what is taken says something, and no more
// than its fields can hold.
#include "fuzz.h"

#include <cstdlib>

#include "penstock/client/layout.h"

namespace penstock::fuzz {

std::vector<std::string> seeds() {
  return {"chunk=1048576 stripe=8 copies=3 media=flash", "stripe=all\n", "media=any copies=1",
          "chunk=18446744073709551616"};
}

}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto change = client::parse_layout_change(text);
  if (!change) {
    if (change.error() != Code::invalid_argument) std::abort();
    return 0;
  }
  if (!change->chunk_bytes && !change->stripe && !change->copies && !change->media) std::abort();
  if (change->chunk_bytes == 0U || change->copies == 0U) std::abort();
  // Names of media and back.
  if (change->media && client::media_of(client::name_of(*change->media)) != change->media) {
    std::abort();
  }
  return 0;
}
