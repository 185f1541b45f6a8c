// CRC-32C (Castagnoli polynomial 0x1EDC6F41, reflected, as in RFC 3720), the checksum of every
// block from the writer's memory to the reader's.
#pragma once

#include <cstdint>

#include "penstock/base/bytes.h"

namespace penstock {

// The checksum of `data`; crc32c("123456789") is 0xE3069283. To continue over a second piece pass
// the first piece's result as `previous`.
uint32_t crc32c(Bytes data, uint32_t previous = 0);

// The checksum of two pieces one behind the other from the checksum of each, without their bytes;
// some 50 ns for each bit that is set in the second one's length.
uint32_t crc32c_join(uint32_t first, uint32_t second, uint64_t second_bytes);

}  // namespace penstock
