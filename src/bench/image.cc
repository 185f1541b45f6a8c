#include "symm/image.h"

// The fat binary as the compiler of kernels made it, word for word.
asm(R"(
  .section .rodata
  .balign 64
  .globl penstock_bench_kernels
  .hidden penstock_bench_kernels
penstock_bench_kernels:
  .incbin ")" PENSTOCK_KERNELS R"("
  .previous
)");

extern "C" const unsigned char penstock_bench_kernels[];

namespace penstock::bench {

const void* symm_kernel_image() {
  return penstock_bench_kernels;
}

}  // namespace penstock::bench
