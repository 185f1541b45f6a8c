// The compiled kernels, which are a part of this library.
#pragma once

#include <cstdint>

namespace penstock::symm {

// For gpu::SymmetricDevice::load_kernels(); lives for ever. Null in a build without CUDA,
// where no device but a simulated one is there to take it.
const void* kernel_image();

// The same of collectives/, a file each.
enum class CollectiveImage : uint8_t { bytes, sum, prod, min, max, bits, far };
const void* collective_image(CollectiveImage which);

}  // namespace penstock::symm
