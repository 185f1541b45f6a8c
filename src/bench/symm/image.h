// The compiled kernels, which are a part of this library.
#pragma once

namespace penstock::bench {

// For gpu::SymmetricDevice::load_kernels(); lives for ever. Null in a build without CUDA.
const void* symm_kernel_image();

}  // namespace penstock::bench
