// What each fuzz target defines. Targets are built twice: with clang as programs of libFuzzer
// (`./dev fuzz`), and with any compiler as tests over a deterministic generator (`./dev test
// fuzz`).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

namespace penstock::fuzz {

// Inputs that are valid, or nearly: what is made of them comes further than random bytes do.
std::vector<std::string> seeds();

template <class T>
std::string bytes_of(const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

}  // namespace penstock::fuzz

// Returns 0. Aborts, or dies otherwise, on what must not happen.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
