#include "crc_tables.h"

#include "kernels.h"

namespace penstock::gpu {

namespace {

// The Castagnoli polynomial, its bits reversed, as remainders are kept.
constexpr uint32_t kPolynomial = 0x82f63b78;

uint32_t times_x(uint32_t remainder) {
  return remainder >> 1 ^ ((remainder & 1) != 0 ? kPolynomial : 0);
}

}  // namespace

std::vector<uint32_t> shift_tables() {
  std::vector<uint32_t> tables;
  tables.reserve(kShiftTables * kShiftTableWords);
  for (int table = 0; table < kShiftTables; ++table) {
    for (int byte = 0; byte < 4; ++byte) {
      for (uint32_t value = 0; value < 256; ++value) {
        uint32_t remainder = value << (8 * byte);
        for (int bit = 0; bit < 32 << table; ++bit) remainder = times_x(remainder);
        tables.push_back(remainder);
      }
    }
  }
  return tables;
}

}  // namespace penstock::gpu
