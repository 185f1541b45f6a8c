#include "image.h"

// The fat binary as the compiler of kernels made it, word for word.
asm(R"(
  .section .rodata
  .balign 64
  .globl penstock_gpu_kernels
  .hidden penstock_gpu_kernels
penstock_gpu_kernels:
  .incbin ")" PENSTOCK_KERNELS R"("
  .previous
)");

extern "C" const unsigned char penstock_gpu_kernels[];

namespace penstock::gpu {

const void* kernel_image() {
  return penstock_gpu_kernels;
}

}  // namespace penstock::gpu
