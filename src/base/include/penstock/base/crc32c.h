// CRC-32C (Castagnoli polynomial 0x1EDC6F41, reflected, as in RFC 3720), the checksum of every
// block from the writer's memory to the reader's.
#pragma once

#include <cstdint>

#include "penstock/base/bytes.h"

namespace penstock {

// The checksum of `data`; crc32c("123456789") is 0xE3069283. To continue over a second piece pass
// the first piece's result as `previous`.
uint32_t crc32c(Bytes data, uint32_t previous = 0);

}  // namespace penstock
