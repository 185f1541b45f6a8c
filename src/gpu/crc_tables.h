// The tables with which kernels take CRC-32C.
#pragma once

#include <cstdint>
#include <vector>

namespace penstock::gpu {

// kShiftTables tables, one behind the other: see kernels.h.
std::vector<uint32_t> shift_tables();

}  // namespace penstock::gpu
