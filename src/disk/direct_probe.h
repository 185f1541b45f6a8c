// Whether files of a directory can be reached with O_DIRECT.
#pragma once

#include <cstdint>
#include <string>

namespace penstock::disk {

struct DirectProbe {
  bool works = false;
  std::string reason;      // why not
  uint64_t alignment = 1;  // of offset, length and address when it works
};

// Tries it with a file that has no name, or for a moment one; leaves nothing behind.
DirectProbe probe_direct(const std::string& directory);

}  // namespace penstock::disk
