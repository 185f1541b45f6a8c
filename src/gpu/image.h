// The compiled kernels, which are a part of this library.
#pragma once

namespace penstock::gpu {

// For cuLibraryLoadData; lives for ever.
const void* kernel_image();

}  // namespace penstock::gpu
