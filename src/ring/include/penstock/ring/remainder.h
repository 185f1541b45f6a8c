// Remainders of bytes modulo the Castagnoli polynomial, as kernels compare them: CRC-32C without
// its inversions (penstock_device/checksum.h). Unlike CRC-32C they are linear: crc32c_join() joins
// them.
#pragma once

#include "penstock_device.h"

#include "penstock/base.h"

namespace penstock::ring {

// Of bytes that follow others which have the remainder `before`.
uint32_t remainder_of(Bytes bytes, uint32_t before = 0);
// From the CRC-32C of `length` bytes; at once for whole blocks of limits::kBlockBytes.
uint32_t remainder_from(uint32_t crc32c, uint64_t length);

// What kernels need to take remainders with.
void fill(device::Constants& constants);

}  // namespace penstock::ring
