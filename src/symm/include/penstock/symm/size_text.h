// Sizes as users write them in SHMEM_SYMMETRIC_SIZE and its kin.
#pragma once

#include <cstdint>
#include <string_view>

#include "penstock/base.h"

namespace penstock::symm {

// A number, which may have a fraction or an exponent, and perhaps k, m, g or t after it, in either
// case: bytes, by powers of two. The message of a failure names the text and what is wrong with it.
Outcome<uint64_t> parse_size(std::string_view text);

}  // namespace penstock::symm
