#include "penstock/base/crc32c.h"

#include <climits>
#include <isa-l/crc.h>

namespace penstock {

uint32_t crc32c(Bytes data, uint32_t previous) {
  // ISA-L leaves the customary inversion before and after to its caller.
  uint32_t state = ~previous;
  while (!data.empty()) {
    const size_t piece = data.size() < INT_MAX ? data.size() : INT_MAX;
    // The function reads only; its parameter merely lacks the const.
    auto* bytes = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(data.data()));
    state = crc32_iscsi(bytes, static_cast<int>(piece), state);
    data = data.subspan(piece);
  }
  return ~state;
}

}  // namespace penstock
