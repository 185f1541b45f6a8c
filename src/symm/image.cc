#include "image.h"

// The fat binary as the compiler of kernels made it, word for word.
asm(R"(
  .section .rodata
  .balign 64
  .globl penstock_symm_kernels
  .hidden penstock_symm_kernels
penstock_symm_kernels:
  .incbin ")" PENSTOCK_KERNELS R"("
  .previous
)");

extern "C" const unsigned char penstock_symm_kernels[];

namespace penstock::symm {

const void* kernel_image() {
  return penstock_symm_kernels;
}

}  // namespace penstock::symm
