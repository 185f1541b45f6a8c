// What kernels.cu and its host call by numbers.
#pragma once

#include <cstdint>

namespace penstock::bench {

enum class WordCall : uint32_t { put_quiet, get, fetch_add, add, compare_swap };
enum class Together : uint32_t { barrier, broadcast, fcollect, alltoall, reduce };

}  // namespace penstock::bench
