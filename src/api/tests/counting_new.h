#pragma once

#include <atomic>
#include <cstdint>

namespace penstock {

// Relaxed: a count.
extern std::atomic<uint64_t> allocations;

}  // namespace penstock
