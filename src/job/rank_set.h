// A set of ranks as it travels: runs of equal distance. The world is one run, and so is every
// strided team, however large.
#pragma once

#include "bytes_io.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace penstock::job {

inline constexpr size_t kRunBytes = 12;  // behind the number of runs, which has four

// `ranks` ascend. One list has one text, so that texts can be compared.
void write_ranks(ByteWriter& to, std::span<const uint32_t> ranks);
// Nothing for what is empty, does not ascend, or has a rank from `size` on. Others may cut a list
// into runs in another way: to be compared it is written again.
std::optional<std::vector<uint32_t>> read_ranks(ByteReader& from, uint32_t size);

}  // namespace penstock::job
