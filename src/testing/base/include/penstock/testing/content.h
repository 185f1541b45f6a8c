// Bytes that tell their seed and their place in a file, so that what landed elsewhere, or is
// another version, is seen. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "penstock/base.h"

namespace penstock::test {

// The bytes of `seed` at `offset` and beyond: any two calls agree where their ranges meet.
void fill(MutableBytes to, uint64_t seed, uint64_t offset = 0);
std::vector<std::byte> content(uint64_t length, uint64_t seed, uint64_t offset = 0);
bool is_content(Bytes bytes, uint64_t seed, uint64_t offset = 0);

}  // namespace penstock::test
