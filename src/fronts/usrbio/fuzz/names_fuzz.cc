// What others have written into a mount's virtual directory, as a program of USRBIO reads it.
#include "fuzz.h"
#include "link_name.h"

#include <cstdlib>
#include <cstring>

namespace penstock::fuzz {

std::vector<std::string> seeds() {
  return {"/dev/shm/name", "/dev/shm/hf3fs-iov-5b2d6d1c-2a0f-4f52-9a52-8b2b6c8f0001",
          "/dev/shm/../etc/passwd", "gdr://v1/device/0"};
}

}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock::usrbio;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto name = shared_memory_name(text)) {
    if (name->empty() || name->find('/') != std::string::npos || *name == ".." || *name == ".") {
      std::abort();
    }
  }
  Uuid id{};
  std::memcpy(id.data(), data, size < id.size() ? size : id.size());
  if (hyphenated(id).size() != 36 || plain_hex(id).size() != 32) std::abort();
  for (const bool any : {false, true}) {
    const auto candidates = link_candidates("/mnt", id, size, any);
    if (candidates.empty()) std::abort();
    for (const LinkCandidate& one : candidates) {
      if (!one.path.starts_with(link_directory("/mnt"))) std::abort();
    }
  }
  return 0;
}
