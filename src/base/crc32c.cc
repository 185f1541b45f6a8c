#include "penstock/base/crc32c.h"

#include <array>
#include <climits>
#include <isa-l/crc.h>

namespace penstock {
namespace {

// Remainders are polynomials over GF(2) with the bits reversed: the highest bit is the power 0.
constexpr uint32_t kPolynomial = 0x82f63b78;
constexpr uint32_t kOne = 0x80000000;

constexpr uint32_t times_x(uint32_t value) {
  return value >> 1 ^ ((value & 1) != 0 ? kPolynomial : 0);
}

constexpr uint32_t multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (; a != 0; a <<= 1, b = times_x(b)) {
    if ((a & kOne) != 0) product ^= b;
  }
  return product;
}

// What 2^i further bytes multiply a remainder by.
constexpr std::array<uint32_t, 64> byte_shifts() {
  std::array<uint32_t, 64> shifts{};
  shifts[0] = kOne >> 8;
  for (size_t i = 1; i < shifts.size(); ++i) shifts[i] = multiply(shifts[i - 1], shifts[i - 1]);
  return shifts;
}

constexpr std::array<uint32_t, 64> kByteShifts = byte_shifts();

}  // namespace

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

uint32_t crc32c_join(uint32_t first, uint32_t second, uint64_t second_bytes) {
  for (size_t i = 0; second_bytes != 0; ++i, second_bytes >>= 1) {
    if ((second_bytes & 1) != 0) first = multiply(first, kByteShifts[i]);
  }
  return first ^ second;
}

}  // namespace penstock
