// Copies and remainders as kernels make them, against those of the host.
#include "penstock_device/thread_warp.h"

#include <gtest/gtest.h>

#include "penstock/ring.h"

namespace penstock::ring {
namespace {

std::vector<std::byte> random_bytes(size_t size, uint64_t seed) {
  std::vector<std::byte> out(size);
  for (size_t i = 0; i < size; ++i) out[i] = static_cast<std::byte>(mix64(seed + i) >> 5);
  return out;
}

class KernelCopies : public testing::Test {
 protected:
  KernelCopies() { fill(*constants_); }

  // Whether a copy of [from, from + length) to `to` says that it verifies, and touches no byte
  // beside its own.
  template <class Copy>
  testing::AssertionResult is_exact(const Copy& copy, uint32_t from, uint32_t to, uint32_t length) {
    alignas(16) static std::byte source[kBytes];
    alignas(16) static std::byte target[kBytes];
    std::copy(content_.begin(), content_.end(), source);
    std::fill(std::begin(target), std::end(target), std::byte{0xab});
    const Bytes range(source + from, length);
    const bool verified = copy(*constants_, reinterpret_cast<const char*>(range.data()),
                               reinterpret_cast<char*>(target + to), length, remainder_of(range));
    if (!verified) return testing::AssertionFailure() << "not verified";
    for (uint32_t i = 0; i < kBytes; ++i) {
      const bool inside = i >= to && i < to + length;
      if (target[i] != (inside ? source[from + i - to] : std::byte{0xab})) {
        return testing::AssertionFailure() << "byte " << i;
      }
    }
    return testing::AssertionSuccess();
  }

  static constexpr uint32_t kBytes = 12 * 1024;
  std::vector<std::byte> content_ = random_bytes(kBytes, 7);
  std::unique_ptr<device::Constants> constants_ = std::make_unique<device::Constants>();
};

TEST(Remainder, follows_from_the_checksum_of_the_same_bytes) {
  const std::vector<std::byte> bytes = random_bytes(9000, 1);
  for (const size_t size : {0, 1, 5, 4095, 4096, 9000}) {
    const Bytes range(bytes.data(), size);
    EXPECT_EQ(remainder_from(crc32c(range), size), remainder_of(range)) << size;
  }
  const Bytes block(bytes.data(), 4096);
  const Bytes rest(bytes.data() + 4096, 4904);
  EXPECT_EQ(remainder_of(rest, remainder_of(block)), remainder_of(bytes));
  EXPECT_EQ(crc32c_join(remainder_of(block), remainder_of(rest), rest.size()), remainder_of(bytes));
}

TEST_F(KernelCopies, of_a_thread_are_exact_between_any_addresses) {
  for (uint32_t from = 0; from < 20; ++from) {
    for (uint32_t to = 0; to < 20; ++to) {
      for (const uint32_t length : {1U, 3U, 15U, 16U, 17U, 33U, 4096U}) {
        ASSERT_TRUE(is_exact(device::copy_by_thread, 64 + from, 64 + to, length))
            << from << " to " << to << ", " << length << " bytes";
      }
    }
  }
}

TEST_F(KernelCopies, of_a_warp_are_exact_between_any_addresses) {
  const struct {
    uint32_t from, to, length;
  } cases[] = {{0, 0, 4096},   {0, 0, 1},      {0, 0, 16},   {3, 3, 13},   {3, 3, 14},
               {16, 48, 512},  {15, 31, 513},  {5, 9, 700},  {2, 1, 5000}, {0, 4, 511},
               {64, 16, 8192}, {16, 32, 4608}, {1, 0, 8193}, {7, 7, 1},    {8, 12, 4100}};
  for (const auto& one : cases) {
    device::ThreadWarp warp;
    std::atomic<uint32_t> verified{0};
    const auto copy = [&](auto&&... arguments) {
      warp.run([&] { verified += device::copy_by_warp(arguments...) ? 1 : 0; });
      return verified == device::kWarpLanes;
    };
    EXPECT_TRUE(is_exact(copy, one.from, one.to, one.length))
        << one.from << " to " << one.to << ", " << one.length << " bytes";
  }
}

TEST_F(KernelCopies, notice_a_single_wrong_bit_anywhere) {
  alignas(16) std::byte bytes[608];  // whole units
  std::copy_n(content_.begin(), sizeof bytes, bytes);
  const char* const from = reinterpret_cast<const char*>(bytes) + 5;
  const uint32_t expected = remainder_of({bytes + 5, 590});
  EXPECT_TRUE(device::copy_by_thread(*constants_, from, nullptr, 590, expected));
  for (uint32_t i = 5; i < 595; ++i) {
    bytes[i] ^= std::byte{0x10};
    EXPECT_FALSE(device::copy_by_thread(*constants_, from, nullptr, 590, expected)) << i;
    bytes[i] ^= std::byte{0x10};
  }
  for (const uint32_t i : {5U, 20U, 300U, 594U}) {
    bytes[i] ^= std::byte{0x10};
    std::atomic<uint32_t> wrong{0};
    device::ThreadWarp warp;
    warp.run(
        [&] { wrong += device::copy_by_warp(*constants_, from, nullptr, 590, expected) ? 0 : 1; });
    EXPECT_EQ(wrong, device::kWarpLanes) << i;
    bytes[i] ^= std::byte{0x10};
  }
}

}  // namespace
}  // namespace penstock::ring
